"""Unified diffs: read from what a model wrote, and made of two texts. Pure.

The form is that of GNU diff (Detailed Description of Unified Format). What models get wrong is read as it is
meant: the numbers of a hunk's header may be off or missing, an empty line is an empty line of context.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

__all__ = ["DiffError", "FilePatch", "Hunk", "line_changes", "make_diff", "parse_diff", "split_lines"]

CONTEXT_LINES = 3
MAX_COMPARED = 1_000_000
"""Lines of the old times lines of the new middle part; above, the middle is shown as replaced whole."""

_HUNK = re.compile(r"@@(?: -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))?)?.*")
_IGNORED = ("diff ", "index ", "new file mode", "deleted file mode", "old mode", "new mode", "similarity ")
_REFUSED = ("rename ", "copy ", "GIT binary patch", "Binary files ")
_NO_NEWLINE = "\\ No newline at end of file"


class DiffError(ValueError):
    """A text that can not be read as a unified diff; it says which line."""


class Hunk(NamedTuple):
    """`old` is replaced by `new`, both whole lines. `line` is where the old ones should begin, from 1; with
    no old lines, the line after which the new ones are put. None where the header does not say."""

    old: str
    new: str
    line: int | None


class FilePatch(NamedTuple):
    """The hunks of one file. An empty name stands for /dev/null: the file is new, or goes."""

    old_path: str
    new_path: str
    hunks: tuple[Hunk, ...]


def parse_diff(text: str, default_path: str = "") -> list[FilePatch]:
    """The files of a diff, in order. `default_path` is that of hunks with no file header before them.

    Raises `DiffError`.
    """
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    patches: list[FilePatch] = []
    names = (default_path, default_path) if default_path else None
    hunks: list[Hunk] = []
    position = 0

    def finish() -> None:
        if names is not None and hunks:
            patches.append(FilePatch(*names, tuple(hunks)))
            hunks.clear()

    while position < len(lines):
        line = lines[position]
        if _is_file_header(lines, position):
            finish()
            names = _names(line, lines[position + 1])
            position += 2
        elif line.startswith("@@"):
            if names is None:
                raise DiffError(f"line {position + 1}: a hunk without a file; begin with --- and +++ lines")
            hunk, position = _read_hunk(lines, position)
            hunks.append(hunk)
        elif line.startswith(_REFUSED):
            raise DiffError(f"line {position + 1}: {line.split()[0]} is not supported; use the terminal")
        elif not line.strip() or line.startswith(_IGNORED) or not hunks:
            position += 1
        else:
            raise DiffError(f"line {position + 1} is no line of a diff: {line[:80]!r}")
    finish()
    if not patches:
        raise DiffError("there is no hunk (@@ ... @@) in it")
    return patches


def _is_file_header(lines: Sequence[str], position: int) -> bool:
    following = lines[position + 1] if position + 1 < len(lines) else ""
    return lines[position].startswith("--- ") and following.startswith("+++ ")


def _names(old: str, new: str) -> tuple[str, str]:
    names = tuple(line[4:].split("\t")[0].strip().strip('"') for line in (old, new))
    prefixed = all(name == "/dev/null" or name.startswith(("a/", "b/")) for name in names)
    bare = [name[2:] if prefixed and name != "/dev/null" else name for name in names]
    return ("" if bare[0] == "/dev/null" else bare[0]), ("" if bare[1] == "/dev/null" else bare[1])


def _read_hunk(lines: Sequence[str], position: int) -> tuple[Hunk, int]:
    header = _HUNK.fullmatch(lines[position])
    first = int(header[1]) if header and header[1] else None
    expected = int(header[2] or 1) if header and header[1] else None
    position += 1
    sides: list[tuple[str, str]] = []  # which side or sides, and the line
    open_end = {"old": False, "new": False}
    while position < len(lines) and not lines[position].startswith(("@@", "diff ")):
        line = lines[position]
        if _is_file_header(lines, position):
            break
        if line.startswith("\\"):
            last = sides[-1][0] if sides else " "
            open_end["old"] |= last in " -"
            open_end["new"] |= last in " +"
        elif line[:1] in {" ", "-", "+"}:
            sides.append((line[0], line[1:]))
        elif not line:
            sides.append((" ", ""))
        else:
            break
        position += 1
    while sides and sides[-1] == (" ", "") and not lines[position - 1] and _too_long(sides, expected):
        sides.pop()
        position -= 1
    old = _joined((line for side, line in sides if side in " -"), open_end=open_end["old"])
    new = _joined((line for side, line in sides if side in " +"), open_end=open_end["new"])
    if not any(side in "+-" for side, _ in sides):
        raise DiffError(f"line {position}: the hunk before it changes nothing")
    return Hunk(old, new, first), position


def _too_long(sides: Sequence[tuple[str, str]], expected: int | None) -> bool:
    return expected is None or sum(side in " -" for side, _ in sides) > expected


def _joined(lines: Iterator[str], *, open_end: bool) -> str:
    text = "".join(f"{line}\n" for line in lines)
    return text.removesuffix("\n") if open_end else text


def make_diff(old: str, new: str, old_path: str, new_path: str) -> str:
    """The unified diff of two texts, empty when they are the same. An empty path stands for /dev/null."""
    if old == new:
        return ""
    a, b = split_lines(old), split_lines(new)
    out = [
        f"--- {'a/' + old_path if old_path else '/dev/null'}",
        f"+++ {'b/' + new_path if new_path else '/dev/null'}",
    ]
    for group in _groups(line_changes(a, b)):
        out.extend(_hunk_lines(group, a, b))
    return "\n".join(out)


def split_lines(text: str) -> list[str]:
    """With their ends, so that a last line without one differs from one with it."""
    *lines, rest = text.split("\n")
    ended = [f"{line}\n" for line in lines]
    return [*ended, rest] if rest else ended


Change = tuple[int, int, int, int]


def line_changes(a: list[str], b: list[str]) -> list[Change]:
    """Which lines of `a` are replaced by which of `b`; what both begin and end with is not compared."""
    limit = min(len(a), len(b))
    head = next((n for n in range(limit) if a[n] != b[n]), limit)
    tail = next((n for n in range(limit - head) if a[-1 - n] != b[-1 - n]), limit - head)
    middle_a, middle_b = a[head : len(a) - tail], b[head : len(b) - tail]
    if len(middle_a) * len(middle_b) > MAX_COMPARED:
        return [(head, len(a) - tail, head, len(b) - tail)]
    matcher = difflib.SequenceMatcher(None, middle_a, middle_b)
    return [
        (head + a1, head + a2, head + b1, head + b2)
        for tag, a1, a2, b1, b2 in matcher.get_opcodes()
        if tag != "equal"
    ]


def _groups(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """Changes that are near enough to share a hunk."""
    group: list[Change] = []
    for change in changes:
        if group and change[0] - group[-1][1] > 2 * CONTEXT_LINES:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _hunk_lines(group: Sequence[Change], a: list[str], b: list[str]) -> Iterator[str]:
    start = max(0, group[0][0] - CONTEXT_LINES)
    end = min(len(a), group[-1][1] + CONTEXT_LINES)
    new_start = group[0][2] - (group[0][0] - start)
    new_end = group[-1][3] + (end - group[-1][1])
    yield f"@@ -{_range(start, end)} +{_range(new_start, new_end)} @@"
    position = start
    for a1, a2, b1, b2 in group:
        yield from _marked(" ", a[position:a1])
        yield from _marked("-", a[a1:a2])
        yield from _marked("+", b[b1:b2])
        position = a2
    yield from _marked(" ", a[position:end])


def _marked(sign: str, lines: list[str]) -> Iterator[str]:
    for line in lines:
        yield sign + line.removesuffix("\n")
        if not line.endswith("\n"):
            yield _NO_NEWLINE


def _range(start: int, end: int) -> str:
    length = end - start
    return f"{start + (length > 0)},{length}" if length != 1 else f"{start + 1}"
