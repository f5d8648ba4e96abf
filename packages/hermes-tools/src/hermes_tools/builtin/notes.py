"""Short notes in one text: added, replaced and removed within a limit. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hermes_tools.errors import ToolFailure

__all__ = ["SEPARATOR", "added", "join_notes", "read_notes", "removed", "replaced"]

SEPARATOR = "\n\u00a7\n"
"""What stands between two notes in their file."""


def read_notes(text: str) -> tuple[str, ...]:
    """The notes of a file, as a person may have edited it: blank ones and repetitions are left out."""
    parts = f"\n{text.replace(chr(13) + chr(10), chr(10))}\n".split(SEPARATOR)
    return tuple(dict.fromkeys(note for part in parts if (note := part.strip())))


def join_notes(notes: Sequence[str]) -> str:
    """The text of their file."""
    return SEPARATOR.join(notes) + "\n" if notes else ""


def added(notes: Sequence[str], content: str, limit: int) -> tuple[str, ...]:
    """With one more; a note that is there already is not added again. Raises `ToolFailure`."""
    note = _checked(content)
    return tuple(notes) if note in notes else _within((*notes, note), limit)


def replaced(notes: Sequence[str], old_text: str, content: str, limit: int) -> tuple[str, ...]:
    """With `content` in place of the one note that holds `old_text`. Raises `ToolFailure`."""
    place = _place_of(notes, old_text)
    note = _checked(content)
    others = (*notes[:place], note, *notes[place + 1 :])
    return _within(tuple(dict.fromkeys(others)), limit)


def removed(notes: Sequence[str], old_text: str) -> tuple[str, ...]:
    """Without the one note that holds `old_text`. Raises `ToolFailure`."""
    place = _place_of(notes, old_text)
    return (*notes[:place], *notes[place + 1 :])


def _checked(content: str) -> str:
    note = content.strip()
    if not note:
        raise ToolFailure("content is empty; nothing was changed")
    if SEPARATOR in f"\n{note}\n":
        raise ToolFailure("content may not hold a line that is only \u00a7; nothing was changed")
    return note


def _place_of(notes: Sequence[str], old_text: str) -> int:
    wanted = old_text.strip()
    if not wanted:
        raise ToolFailure("old_text is empty; give a part of the note that is meant")
    places = [number for number, note in enumerate(notes) if wanted in note]
    if wanted in notes:
        places = [notes.index(wanted)]
    if len(places) == 1:
        return places[0]
    meant = [notes[number][:80] for number in places] or [note[:80] for note in notes]
    what = f"{len(places)} notes hold" if places else "no note holds"
    listed = "".join(f"\n- {note}" for note in meant)
    raise ToolFailure(f"{what} {wanted[:80]!r}; nothing was changed. Notes:{listed or ' none'}")


def _within(notes: tuple[str, ...], limit: int) -> tuple[str, ...]:
    length = len(join_notes(notes))
    if length > limit:
        raise ToolFailure(
            f"that would be {length} characters of {limit}; nothing was changed. "
            "Remove or shorten notes first:" + "".join(f"\n- {note}" for note in notes[:-1])
        )
    return notes
