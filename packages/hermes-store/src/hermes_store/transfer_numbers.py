"""Numbers of messages in an export, and how those of one database become those of another.

A file that is written has its own numbers, from 1, so that the same sessions give the same bytes whatever
database they come from. A number stands in three places of a message besides its own: in `round`, in
`copy_of`, and at the end of a uid that the message gave up to its successor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from hermes_store.escaping import MARKER
from hermes_store.transfer_format import MessageLine, SessionDump

__all__ = ["FileNumbers", "given_up_uid", "original_uid"]

_GIVEN_UP = f"{MARKER}@"


def given_up_uid(uid: str, seq: int) -> str:
    """The uid of the message `seq` once a later message has its uid. No escaped text looks like it."""
    return f"{uid}{_GIVEN_UP}{seq}"


def original_uid(uid: str) -> str | None:
    """The uid that the message with this one gave up, or None when it gave up none."""
    before, found, _ = uid.rpartition(_GIVEN_UP)
    return before if found else None


class FileNumbers:
    """Gives the messages of one file their numbers, in the order in which they are written."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def renumbered(self, dump: SessionDump) -> SessionDump:
        """The session with the file's numbers. A copy whose original is not in the file is an original."""
        return msgspec.structs.replace(dump, messages=tuple(self._lines(dump.messages)))

    def _lines(self, messages: tuple[MessageLine, ...]) -> Iterator[MessageLine]:
        for line in messages:
            number = self._known[line.seq] = len(self._known) + 1
            uid = original_uid(line.uid)
            yield msgspec.structs.replace(
                line,
                seq=number,
                uid=line.uid if uid is None else given_up_uid(uid, number),
                round=_at(self._known, line.round),
                copy_of=_at(self._known, line.copy_of),
            )


def _at(numbers: Mapping[int, int], seq: int | None) -> int | None:
    return None if seq is None else numbers.get(seq)
