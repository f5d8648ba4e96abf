"""Reading the words of a shell command line: quotes, variables and substitutions. Pure."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence

from hermes_tools.commands.words import Command, Mark, UnreadableCommandError, WordPiece

__all__ = ["DEEPEST", "WORD_ENDS", "Variables", "WordReader"]

DEEPEST = 25
WORD_ENDS = frozenset(" \t\r\n;&|<>()")
_MOST_SEPARATORS = 20
_MOST_EXPANDED = 131_072
_PLAIN = re.compile(r"[^ \t\r\n;&|<>()\\'\"$`]+")
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]", re.ASCII)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}
_MADE = re.compile(r"[^-=+}:]|:\s*[\d(]|:\s+-")
_NUMBER = re.compile(r"x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})")


class Variables(dict[str, str]):
    """What was assigned so far, and how many characters of it were put into words."""

    used = 0


class WordReader(ABC):
    """Reads words from left to right; `variables` are those assigned so far."""

    def __init__(self, text: str, depth: int, variables: Variables) -> None:
        if depth > DEEPEST:
            raise UnreadableCommandError("the command is nested too deeply to be judged")
        self._text = text
        self._at = 0
        self._depth = depth
        self._variables = variables
        self._documents: list[tuple[str, bool, list[str]]] = []
        self._found: list[Command] = []  # commands inside words, in the order read
        self._in_documents: list[Command] = []

    @abstractmethod
    def _nested(self, closer: str, upstream: tuple[Command, ...]) -> list[Command]:
        """The commands from here to `closer`."""

    @abstractmethod
    def _script_of(self, text: str) -> list[Command]:
        """The commands of a text inside this one."""

    def _word(self) -> WordPiece:
        piece = WordPiece()
        while self._at < len(self._text):
            character = self._text[self._at]
            if character in "<>" and self._text.startswith("(", self._at + 1):
                self._at += 2
                self._substitution(piece, Mark.EXPANDED)
            elif character == "(" and piece.text and piece.text[-1][-1:] in "@?*+!":
                self._at += 1  # a pattern of bash, `@(a|b)`
                self._ran(piece, self._nested(")", ()))
                piece.add("*", Mark.LITERAL)
            elif character in WORD_ENDS:
                break
            elif character == "\\":
                self._escaped(piece)
            elif character == "'":
                self._single_quoted(piece)
            elif character == '"':
                self._at += 1
                self._in_quotes(piece, '"')
            elif character == "$" and self._text.startswith("$'", self._at):
                self._ansi_quoted(piece)
            elif character == "$" and self._text.startswith('$"', self._at):
                self._at += 1  # text that is translated; the quotes are next
            elif character in "$`":
                self._expansion(piece, Mark.EXPANDED)
            else:
                plain = _PLAIN.match(self._text, self._at)
                assert plain is not None
                piece.add(plain.group(), Mark.LITERAL)
                self._at = plain.end()
        return piece

    def _escaped(self, piece: WordPiece) -> None:
        following = self._text[self._at + 1 : self._at + 2]
        self._at += 2
        if following != "\n":
            piece.add(following, Mark.QUOTED)

    def _single_quoted(self, piece: WordPiece) -> None:
        end = self._text.find("'", self._at + 1)
        if end < 0:
            raise UnreadableCommandError("a ' in the command is never closed")
        piece.add(self._text[self._at + 1 : end], Mark.QUOTED)
        self._at = end + 1

    def _in_quotes(self, piece: WordPiece, closer: str | None) -> None:
        """Text in which only `$`, backticks and some backslashes mean something, up to `closer`."""
        piece.there = True
        start = self._at
        while self._at < len(self._text):
            character = self._text[self._at]
            if character == closer:
                piece.add(self._text[start : self._at], Mark.QUOTED)
                self._at += 1
                return
            if character == "\\" and self._text[self._at + 1 : self._at + 2] in ("$", "`", '"', "\\", "\n"):
                piece.add(self._text[start : self._at], Mark.QUOTED)
                self._escaped(piece)
                start = self._at
            elif character in "$`":
                piece.add(self._text[start : self._at], Mark.QUOTED)
                self._expansion(piece, Mark.QUOTED)
                start = self._at
            else:
                self._at += 1
        piece.add(self._text[start:], Mark.QUOTED)
        if closer is not None:
            raise UnreadableCommandError(f"a {closer} in the command is never closed")

    def _ansi_quoted(self, piece: WordPiece) -> None:
        self._at += 2
        while self._at < len(self._text):
            character = self._text[self._at]
            self._at += 1
            if character == "'":
                piece.there = True
                return
            if character == "\\":
                number = _NUMBER.match(self._text, self._at)
                if number:
                    code = next(int(g, 8 if n == 3 else 16) for n, g in enumerate(number.groups()) if g)
                    character = chr(code) if code < 0x110000 else "?"
                    self._at = number.end()
                else:
                    following = self._text[self._at : self._at + 1]
                    character = _ESCAPES.get(following, following)
                    self._at += 1
            piece.add(character, Mark.QUOTED)
        raise UnreadableCommandError("a $' in the command is never closed")

    def _expansion(self, piece: WordPiece, mark: str) -> None:
        """`$name`, `${...}`, `$(...)` or backticks."""
        if self._text[self._at] == "`":
            self._backticks(piece, mark)
        elif self._text.startswith("$(", self._at):
            self._at += 2
            self._substitution(piece, mark)
        elif self._text.startswith("${", self._at):
            self._at += 2
            self._parameter(piece, mark)
        elif mark != Mark.QUOTED and self._text.startswith("$[", self._at):
            raise UnreadableCommandError("the command calculates with $[, which can not be judged")
        else:
            name = _NAME.match(self._text, self._at + 1)
            if name is None:
                piece.add("$", mark if mark == Mark.QUOTED else Mark.LITERAL)
                self._at += 1
                return
            self._at = name.end()
            value = self._value(name.group())
            piece.add(value if mark == Mark.QUOTED else self._separated(value), mark)

    def _separated(self, value: str) -> str:
        """`value` as it is split where `IFS` was set to other signs than blanks."""
        signs = self._variables.get("IFS", "")
        return (
            value.translate(dict.fromkeys(map(ord, set(signs[:_MOST_SEPARATORS])), " ")) if signs else value
        )

    def _value(self, name: str) -> str:
        if name == "IFS":
            return " "
        value = self._variables.get(name, f"${name}")
        self._variables.used += len(value)
        if self._variables.used > _MOST_EXPANDED:
            raise UnreadableCommandError("the command's variables come to too much text to be judged")
        return value

    def _parameter(self, piece: WordPiece, mark: str) -> None:
        """What stands between `${` and `}`: a known value, a default, else the name."""
        inner = WordPiece()
        self._depth += 1
        if self._depth > DEEPEST:
            raise UnreadableCommandError("the command is nested too deeply to be judged")
        self._in_braces(inner, in_quotes=mark == Mark.QUOTED)
        self._depth -= 1
        piece.commands += inner.commands
        text = "".join(inner.text)
        name = _NAME.match(text.removeprefix("!"))
        if name is None:
            piece.add(f"${{{text}}}", mark)
            return
        value, rest = self._value(name.group()), text.removeprefix("!")[name.end() :]
        default = re.match(r":?[-=+]", rest)
        if default and (value.startswith("$") or "+" in default.group()):
            value = rest[default.end() :]
        elif _MADE.match(rest) and not value.startswith("$"):
            value = f"${{{text}}}"  # a piece of it, or it changed
        piece.add(value if mark == Mark.QUOTED else self._separated(value), mark)

    def _in_braces(self, piece: WordPiece, *, in_quotes: bool) -> None:
        """What stands in `${...}`, up to its `}`. Inside double quotes a `'` quotes in patterns only."""
        operator = re.match(
            r"[!#]?(?:\w+|[@*#?$!-])?(?:\[[^]]*\])?(.?)", self._text[self._at : self._at + 300]
        )
        single = not in_quotes or (operator is not None and operator.group(1) in ("#", "%", "/", "^", ","))
        while self._at < len(self._text):
            character = self._text[self._at]
            if character == "}":
                self._at += 1
                return
            if character == "\\":
                self._escaped(piece)
            elif character == "'" and single:
                self._single_quoted(piece)
            elif character == '"':
                self._at += 1
                self._in_quotes(piece, '"')
            elif character in "$`":
                self._expansion(piece, Mark.QUOTED)
            else:
                piece.add(character, Mark.QUOTED)
                self._at += 1
        raise UnreadableCommandError("a ${ in the command is never closed")

    def _substitution(self, piece: WordPiece, mark: str) -> None:
        start = self._at
        outer_documents, self._documents = self._documents, []
        self._ran(piece, self._nested(")", ()))
        self._documents = outer_documents
        piece.add(
            f"$({self._text[start : self._at - 1].strip()})",
            Mark.QUOTED if mark == Mark.QUOTED else Mark.SUBSTITUTED,
        )

    def _backticks(self, piece: WordPiece, mark: str) -> None:
        end = self._at + 1
        while end < len(self._text) and self._text[end] != "`":
            end += 2 if self._text[end] == "\\" else 1
        if end >= len(self._text):
            raise UnreadableCommandError("a ` in the command is never closed")
        inner = re.sub(r"\\([`$\\])", r"\1", self._text[self._at + 1 : end])
        self._at = end + 1
        self._ran(piece, self._script_of(inner))
        piece.add(f"$({inner.strip()})", Mark.QUOTED if mark == Mark.QUOTED else Mark.SUBSTITUTED)

    def _ran(self, piece: WordPiece, commands: Sequence[Command]) -> None:
        piece.commands += commands
        self._found += commands
