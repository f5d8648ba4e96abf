"""Edits of one file, from its bytes to its new bytes; also a program of its own for what may take long.

request, one line of JSON      {"path": ..., "create": ..., "delete": ..., "edits": [...]}
then                           the bytes of the file
answer, one line of JSON       {"diff": ..., "notes": [...]} or {"error": ...}
then                           the new bytes
"""

from __future__ import annotations

import json
import re
import sys
from bisect import bisect_left
from typing import NamedTuple, TypedDict

from hermes_tools.standalone.text_matching import (
    RUNGS,
    Match,
    find,
    like_lines,
    line_number,
    reindented,
)
from hermes_tools.standalone.unified_diff import line_changes, make_diff, split_lines
from hermes_tools.text_shape import TextShape, shape_of

__all__ = ["Edit", "EditError", "EditRequest", "Edited", "edit_bytes", "main"]

MAX_PLACES = 10
MAX_DIFF_SHOWN = 50_000
MAX_KNOWN = 1_000_000
_UNDECODED = re.compile("[\udc80-\udcff]")


class Edit(TypedDict):
    """One replacement. `everywhere`: of every match. `hunk`: whole lines are meant, and `line` says where
    they should begin (with an empty `old`: after which line `new` goes), in the file before any edit."""

    old: str
    new: str
    everywhere: bool
    hunk: bool
    line: int | None


class EditRequest(TypedDict):
    """All edits of one file. A file that is created, or deleted, has no text before, or after."""

    path: str
    create: bool
    delete: bool
    edits: list[Edit]


class Edited(NamedTuple):
    """The new bytes, the difference as a unified diff, and what was not matched exactly, in words."""

    data: bytes
    diff: str
    notes: tuple[str, ...]


class EditError(ValueError):
    """An edit that can not be made; none was."""


def edit_bytes(data: bytes, request: EditRequest) -> Edited:
    """Make the edits, one after the other. Raises `EditError`, and then nothing has changed.

    Encoding, byte order mark and each line's own end are kept; new lines get the end that most lines have.
    Bytes that are no UTF-8 stay as they are.
    """
    shape = shape_of(data)
    text = _decoded(data, shape)
    if _UNDECODED.search(text) and not all(edit["new"].isascii() for edit in request["edits"]):
        raise EditError("the file is not UTF-8, so only ASCII text can be put into it")
    before = text.replace("\r\n", "\n")
    notes: list[str] = []
    moved = 0
    several = len(request["edits"]) > 1
    for number, edit in enumerate(request["edits"], 1):
        try:
            made = _apply(text, edit, moved, shape.newline)
        except EditError as error:
            where = f"{'hunk' if edit['hunk'] else 'edit'} {number}: " if several else ""
            raise EditError(f"{where}{error}") from None
        text = made.text
        moved += made.lines_added
        if made.rung:
            notes.append(f"{'hunk' if edit['hunk'] else 'edit'} {number} matched {RUNGS[made.rung]}")
    after = text.replace("\r\n", "\n")
    if request["delete"] and after:
        raise EditError("the diff deletes the file, but is not all of its text")
    old_path = "" if request["create"] else request["path"]
    new_path = "" if request["delete"] else request["path"]
    diff = make_diff(before, after, old_path, new_path)
    return Edited(_encoded(text, shape), _shown(diff), tuple(notes))


class _Made(NamedTuple):
    text: str
    rung: int
    lines_added: int


def _apply(text: str, edit: Edit, moved: int, newline: str) -> _Made:
    plain = text.replace("\r\n", "\n")
    old = edit["old"].replace("\r\n", "\n")
    new = edit["new"].replace("\r\n", "\n")
    if old == new:
        raise EditError("the old text and the new are the same")
    matches = _chosen(plain, old, edit, moved) if old else [_insertion(plain, edit, moved)]
    pieces: list[str] = []
    done = 0
    offsets = _Offsets(text)
    for match in matches:
        fitted = _fitted(plain, old, new, match, hunk=edit["hunk"])
        start, end = offsets.raw(match.start), offsets.raw(match.end)
        fitted = _with_line_ends(text[start:end], fitted, newline)
        pieces += (text[done:start], fitted)
        done = end
    pieces.append(text[done:])
    changed = "".join(pieces)
    return _Made(changed, max(match.rung for match in matches), changed.count("\n") - text.count("\n"))


def _insertion(plain: str, edit: Edit, moved: int) -> Match:
    """Where a hunk that takes nothing away puts its lines."""
    if not plain:
        return Match(0, 0, 0)
    if not edit["hunk"]:
        raise EditError("the old text is empty; say what is to be replaced")
    if edit["line"] is None:
        raise EditError("a hunk without context needs its line number (@@ -n,0 +m,k @@)")
    position = _line_start(plain, edit["line"] + moved)
    if position is None:
        raise EditError(f"the file has fewer than {edit['line']} lines")
    return Match(position, position, 0)


def _chosen(plain: str, old: str, edit: Edit, moved: int) -> list[Match]:
    everywhere, hunk = edit["everywhere"], edit["hunk"]
    most = MAX_KNOWN if everywhere or hunk else MAX_PLACES + 1
    matches = find(plain, old, whole_lines=hunk, overlapping=not everywhere, most=most)
    if not matches:
        raise EditError(_not_found(plain, old, edit["new"]))
    if len(matches) == 1 or everywhere:
        return matches
    if edit["line"] is not None:
        start = _line_start(plain, edit["line"] + moved - 1)
        expected = [match for match in matches if match.start == start]
        if expected:
            return expected
    shown = ", ".join(str(line_number(plain, match.start)) for match in matches[:MAX_PLACES])
    how = "" if matches[0].rung == 0 else f" ({RUNGS[matches[0].rung]})"
    times = f"{len(matches)} times" if len(matches) <= MAX_PLACES else f"more than {MAX_PLACES} times"
    more = ", ..." if len(matches) > MAX_PLACES else ""
    raise EditError(
        f"the old text is there {times}{how}, in lines {shown}{more}; "
        "give more lines around it, or replace all"
    )


def _line_start(text: str, passed: int) -> int | None:
    """Where the line after `passed` lines begins; None when there are fewer."""
    position = 0
    for _ in range(max(0, passed)):
        following = text.find("\n", position)
        if following < 0:
            return None
        position = following + 1
    return position


def _not_found(plain: str, old: str, new: str) -> str:
    text = "the old text is not in the file"
    near = like_lines(plain, old)
    if near:
        text += f"; its first line is like line {', '.join(map(str, near))}, what follows differs"
    if new.strip() and new.strip() in plain:
        text += "; the new text is there already"
    return text + "; read the file again"


def _fitted(plain: str, old: str, new: str, match: Match, *, hunk: bool) -> str:
    """The new text for one match: indented as the file is, and no newline added that is there, or was not."""
    found = plain[match.start : match.end]
    if match.rung >= 3:
        new = reindented(new, old, found)
    if not found.endswith("\n"):
        at_end = match.end == len(plain) and bool(found)
        closed_already = plain[match.end : match.end + 1] == "\n" and not old.endswith("\n")
        if (at_end and old.endswith("\n")) or (hunk and closed_already):
            new = new.removesuffix("\n")
    return new


def _with_line_ends(found: str, fitted: str, newline: str) -> str:
    """The new lines for the ones found, with their ends; a line that was there already keeps its own."""
    raw, new = split_lines(found), split_lines(fitted)
    made: list[str] = []
    done = 0
    changes = line_changes([line.replace("\r\n", "\n") for line in raw], new)
    for old_start, old_end, new_start, new_end in changes:
        made += raw[done:old_start]
        made += [line.replace("\n", newline) for line in new[new_start:new_end]]
        done = old_end
    return "".join([*made, *raw[done:]])


class _Offsets:
    """From places in a text whose line ends are all `\\n` to places in the text as it is."""

    def __init__(self, text: str) -> None:
        self._newlines: list[int] = []
        position = text.find("\r\n")
        while position >= 0:
            self._newlines.append(position - len(self._newlines))
            position = text.find("\r\n", position + 2)

    def raw(self, plain: int) -> int:
        return plain + bisect_left(self._newlines, plain)


def _decoded(data: bytes, shape: TextShape) -> str:
    try:
        return data[len(shape.mark) :].decode(shape.encoding, errors="surrogateescape")
    except UnicodeDecodeError as error:
        raise EditError(f"the file is not valid {shape.encoding}: {error.reason}") from None


def _encoded(text: str, shape: TextShape) -> bytes:
    try:
        return shape.mark + text.encode(shape.encoding, errors="surrogateescape")
    except UnicodeEncodeError:
        raise EditError("the new text holds half of a character (a lone surrogate)") from None


def _shown(diff: str) -> str:
    """The diff as text, without its middle where it is very long."""
    if len(diff) > MAX_DIFF_SHOWN:
        head, tail = diff[: MAX_DIFF_SHOWN // 2], diff[-MAX_DIFF_SHOWN // 2 :]
        left_out = len(diff) - MAX_DIFF_SHOWN
        diff = f"{head}\n[... {left_out} characters of the diff left out ...]\n{tail}"
    return _printable(diff)


def _printable(text: str) -> str:
    return text.encode("utf-8", errors="surrogateescape").decode("utf-8", errors="backslashreplace")


def main() -> None:
    """Read a request, answer it."""
    request: EditRequest = json.loads(sys.stdin.buffer.readline())
    data = sys.stdin.buffer.read()
    answer: dict[str, str | tuple[str, ...]]
    try:
        edited = edit_bytes(data, request)
    except EditError as error:
        answer, new = {"error": str(error)}, b""
    else:
        answer, new = {"diff": edited.diff, "notes": edited.notes}, edited.data
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n" + new)
    sys.stdout.buffer.flush()
