"""Where a text that a model gave stands in a file, although it is not quite the same. Pure.

The rungs of a fixed ladder are tried in order, and the first one on which anything matches decides. Each
forgives what those before it do, and one thing more:

    1 exactly                        nothing is forgiven
    2 quotes, dashes, odd spaces     typographic ones are taken for the plain ones
    3 white space at line ends       from here on whole lines are compared
    4 indentation                    white space at the start of lines; the new text follows the file's
    5 white space inside lines       each run of it counts as one space

There is no measure of likeness: a text that differs in anything else is not found. More than one match on the
deciding rung is ambiguous, unless all are wanted. Each rung is one search through the text, in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

__all__ = ["RUNGS", "Match", "find", "like_lines", "line_number", "reindented"]

RUNGS = (
    "exactly",
    "with other quotes, dashes or spaces",
    "with other white space at line ends",
    "with other indentation",
    "with other white space",
)
"""What a match of each rung is called, the strictest first."""

_PLAIN = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"')
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
    | dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u202f\u205f\u3000", " ")
)
_RUN = re.compile(r"[ \t\f\v]+")
_INDENT = re.compile(r"[ \t]*")

LineForm = Callable[[str], str]


class Match(NamedTuple):
    """Characters `start` to `end` of the text, found on the rung of this index."""

    start: int
    end: int
    rung: int


def _plain(text: str) -> str:
    return text.translate(_PLAIN)


_TEXT_FORMS: tuple[LineForm, ...] = (lambda text: text, _plain)
_LINE_FORMS: tuple[tuple[int, LineForm], ...] = (
    (2, lambda line: _plain(line).rstrip()),
    (3, lambda line: _plain(line).strip()),
    (4, lambda line: _RUN.sub(" ", _plain(line).strip())),
)
_EXACT_LINE_FORMS: tuple[tuple[int, LineForm], ...] = (*enumerate(_TEXT_FORMS), *_LINE_FORMS)


def find(
    text: str, old: str, *, whole_lines: bool = False, overlapping: bool = False, most: int = 1_000_000
) -> list[Match]:
    """The matches of the first rung that has any, in order, at most `most`; overlapping ones if wanted.

    Both texts have `\\n` as their line end. With `whole_lines` a match never begins or ends inside a line.
    """
    if not whole_lines:
        for rung, form in enumerate(_TEXT_FORMS):
            matches = list(islice(_substrings(form(text), form(old), rung, overlapping=overlapping), most))
            if matches:
                return matches
    for rung, form in _EXACT_LINE_FORMS if whole_lines else _LINE_FORMS:
        matches = list(islice(_line_blocks(text, old, rung, form, overlapping=overlapping), most))
        if matches:
            return matches
    return []


def _substrings(text: str, old: str, rung: int, *, overlapping: bool) -> Iterator[Match]:
    position = text.find(old)
    while position >= 0:
        yield Match(position, position + len(old), rung)
        position = text.find(old, position + (1 if overlapping else len(old)))


def _line_blocks(text: str, old: str, rung: int, form: LineForm, *, overlapping: bool) -> Iterator[Match]:
    closed = old.endswith("\n")
    wanted = [form(line) for line in old.removesuffix("\n").split("\n")]
    if rung > 0 and not any(wanted):
        return  # nothing but white space: that is everywhere
    lines = text.split("\n")
    hay = "\n" + "\n".join(map(form, lines)) + "\n"
    needle = "\n" + "\n".join(wanted) + "\n"
    line, start, counted = 0, 0, 0
    position = hay.find(needle)
    while position >= 0:
        reached = line + hay.count("\n", counted, position)
        start += sum(len(passed) + 1 for passed in lines[line:reached])
        line, counted = reached, position
        end = start + sum(len(inner) + 1 for inner in lines[line : line + len(wanted)]) - 1
        yield Match(start, end + (closed and end < len(text)), rung)
        position = hay.find(needle, position + (1 if overlapping else len(needle) - 1))


def line_number(text: str, position: int) -> int:
    """The line, from 1, in which the character at `position` stands."""
    return text.count("\n", 0, position) + 1


def like_lines(text: str, old: str, most: int = 3) -> list[int]:
    """The numbers of lines that are, white space aside, the first line of `old` that holds any text."""
    form = _LINE_FORMS[-1][1]
    wanted = next((line for line in map(form, old.split("\n")) if line), None)
    if wanted is None:
        return []
    found = (number for number, line in enumerate(text.split("\n"), 1) if form(line) == wanted)
    return [number for number, _ in zip(found, range(most), strict=False)]


def reindented(new: str, old: str, found: str) -> str:
    """`new` with the indentation that `found` has where `old` has another, line by line."""
    changed: dict[str, str] = {}
    for ours, theirs in zip(old.split("\n"), found.split("\n"), strict=False):
        if ours.strip():
            changed.setdefault(_indent(ours), _indent(theirs))
    if all(ours == theirs for ours, theirs in changed.items()):
        return new
    longest_first = sorted(changed, key=len, reverse=True)

    def moved(line: str) -> str:
        indent = _indent(line)
        if not line.strip():
            return line
        known = next((prefix for prefix in longest_first if indent.startswith(prefix)), None)
        return line if known is None else changed[known] + line[len(known) :]

    return "\n".join(map(moved, new.split("\n")))


def _indent(line: str) -> str:
    match = _INDENT.match(line)
    return match[0] if match else ""
