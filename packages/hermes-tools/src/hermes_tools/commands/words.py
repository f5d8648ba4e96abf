"""The words of a command line: how each character came about, and what a word comes to. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from msgspec import Struct

from hermes_messages import HermesError

__all__ = ["Command", "Mark", "Redirect", "UnreadableCommandError", "Word", "WordPiece"]

_MOST_BRACES = 64
_LONGEST_BRACES = 2_000
_SPECIAL = re.compile(r"[{*?\[]")


class Mark:
    """How a character came about: in quotes, as it stands, out of a variable, out of another command."""

    QUOTED = "q"
    LITERAL = "l"
    EXPANDED = "e"
    SUBSTITUTED = "s"


class UnreadableCommandError(HermesError):
    """A command line that can not be judged: too long, nested too deeply, or with a quote that never ends."""


class Word(Struct, frozen=True):
    """A word after quote removal.

    `pattern`: it holds unquoted `*`, `?` or `[`. `commands` are run to make it.
    """

    text: str
    pattern: bool = False
    commands: tuple[Command, ...] = ()


class Redirect(Struct, frozen=True):
    """`operator` without a descriptor's number (`>`, `<<<`), and the file or text behind it."""

    operator: str
    target: Word


class Command(Struct, frozen=True):
    """One simple command. `upstream` are the commands whose output it is fed, `inputs` the texts of
    here-documents, `assignments` the names that are set for it alone, `folder` where a `cd` before it led."""

    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...] = ()
    assignments: tuple[str, ...] = ()
    upstream: tuple[Command, ...] = ()
    inputs: list[str] = []
    folder: str = ""


class WordPiece:
    """A word while it is read: its characters, and beside each how it came about."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.marks: list[str] = []
        self.commands: list[Command] = []
        self.there: bool = False

    def add(self, text: str, mark: str) -> None:
        """Characters that came about as `mark` says."""
        self.text.append(text)
        self.marks.append(mark * len(text))
        self.there = True

    def words(self) -> list[Word]:
        """The words that it comes to: braces expanded, values of variables split."""
        text, marks = "".join(self.text), "".join(self.marks)
        commands = tuple(self.commands)
        if not _SPECIAL.search(text) and Mark.EXPANDED not in marks:
            return [Word(text, commands=commands)]
        found = []
        for part, part_marks in _braces(text, marks):
            for piece, piece_marks in _fields(part, part_marks):
                pattern = any(
                    c in "*?[" and m != Mark.QUOTED for c, m in zip(piece, piece_marks, strict=True)
                )
                found.append(Word(piece, pattern, commands))
        return found


def _fields(text: str, marks: str) -> Iterator[tuple[str, str]]:
    """`text` cut at the blanks that came out of a variable."""
    start = 0
    whole = True
    for index, (character, mark) in enumerate(zip(text, marks, strict=True)):
        if mark == Mark.EXPANDED and character.isspace():
            if index > start:
                yield text[start:index], marks[start:index]
            start, whole = index + 1, False
    if whole or start < len(text):
        yield text[start:], marks[start:]


def _braces(text: str, marks: str) -> Iterator[tuple[str, str]]:
    """`text` with its first unquoted `{a,b}` written out, and so on."""
    waiting = [(text, marks)]
    made = 0
    while waiting:
        text, marks = waiting.pop(0)
        span = _first_braces(text, marks) if "{" in text else None
        if span and (made + len(waiting) > _MOST_BRACES or len(text) > _LONGEST_BRACES):
            raise UnreadableCommandError("the command has braces that come to too many words to be judged")
        if span is None:
            made += 1
            yield text, marks
            continue
        begin, *commas, end = span
        cuts = [begin, *commas, end]
        waiting[:0] = [
            (
                text[:begin] + text[left + 1 : right] + text[end + 1 :],
                marks[:begin] + marks[left + 1 : right] + marks[end + 1 :],
            )
            for left, right in itertools.pairwise(cuts)
        ]


def _first_braces(text: str, marks: str) -> list[int] | None:
    """The places of `{`, the commas at its level and its `}`, of the first pair with a comma."""
    opened: list[list[int]] = []
    for index, character in enumerate(text):
        if marks[index] != Mark.LITERAL:
            continue
        if character == "{":
            opened.append([index])
        elif character == "," and opened:
            opened[-1].append(index)
        elif character == "}" and opened:
            span = opened.pop()
            if len(span) > 1:
                return [*span, index]
    return None
