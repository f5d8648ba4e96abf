"""Reading a shell command line far enough to see which programs it would run. Pure.

It follows the grammar of the POSIX shell (Shell Command Language, XCU chapter 2) and what bash adds to it:
quoting, `$'...'`, `;` `&` `&&` `||` `|` and newlines, groups, substitutions, here-documents, redirections,
brace expansion, and variables that the same text assigns. Nothing is run and no file is looked at, so a
program whose name or arguments come out of another program stays unknown.

>>> [[word.text for word in command.words] for command in read_script("X=-rf; cd /tmp && 'r'm $X {a,b}")]
[[], ['cd', '/tmp'], ['rm', '-rf', 'a', 'b']]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hermes_tools.commands.words import Command, Mark, Redirect, UnreadableCommandError, Word, WordPiece

__all__ = ["LONGEST", "read_script"]

LONGEST = 65_536
"""Characters. Reading that many takes about a tenth of a second at worst; the event loop waits meanwhile."""
_DEEPEST = 25
_MOST_COMMANDS = 1_000
_LONGEST_VALUE = 10_000
_BLANK = " \t\r"
_WORD_ENDS = frozenset(" \t\r\n;&|<>()")
_OPENERS = {"{": "}", "while": "done", "until": "done", "if": "fi"}
_SKIPPED = frozenset(("do", "then", "else", "elif", "!", "coproc", "done", "fi", "esac", "}", "function"))
_SETTERS = frozenset(("export", "declare", "local", "readonly", "typeset"))
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=", re.ASCII)
_REDIRECT = re.compile(r"\d*(?:&>>|&>|<<<|<<-|<<|<>|>>|>&|<&|>\||<|>)")
_PLAIN = re.compile(r"[^ \t\r\n;&|<>()\\'\"$`]+")
_RESERVED = re.compile(r"[a-z]+|[{}!]")
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]", re.ASCII)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}
_NUMBER = re.compile(r"x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})")


def read_script(text: str, depth: int = 0) -> list[Command]:
    """All simple commands of `text`, those inside groups and substitutions included, in the order read.

    Raises `UnreadableCommandError`.
    """
    if len(text) > LONGEST:
        raise UnreadableCommandError(f"the command has {len(text)} characters, too many to be judged")
    commands = []
    for command in _Reader(text, depth, {}).script(None, ()):
        commands.append(command)
        if len(commands) > _MOST_COMMANDS:
            raise UnreadableCommandError(f"the command line has more than {_MOST_COMMANDS} commands")
    return commands


class _Reader:
    """Reads from left to right; `variables` are those assigned so far."""

    def __init__(self, text: str, depth: int, variables: dict[str, str]) -> None:
        if depth > _DEEPEST:
            raise UnreadableCommandError("the command is nested too deeply to be judged")
        self._text = text
        self._at = 0
        self._depth = depth
        self._variables = variables
        self._documents: list[tuple[str, bool, list[str]]] = []
        self._found: list[Command] = []  # commands inside words, in the order read
        self._in_documents: list[Command] = []

    # -- commands -----------------------------------------------------------------------------------------

    def script(self, closer: str | None, upstream: tuple[Command, ...]) -> Iterator[Command]:
        """The commands up to `closer` (None: the end of the text)."""
        if self._depth > _DEEPEST:
            raise UnreadableCommandError("the command is nested too deeply to be judged")
        pipeline: tuple[Command, ...] = upstream
        while self._skip_blanks():
            character = self._text[self._at]
            if character == ")":
                self._at += 1
                if closer == ")":
                    return
                pipeline = upstream
            elif character == "(":
                self._at += 1
                group = tuple(self._nested(")", pipeline))
                yield from group
                pipeline += group
            elif character in "\n;&|" and not self._at_redirect():
                pipeline = self._operator(pipeline, upstream)
                yield from self._in_documents
                self._in_documents = []
            else:
                word = self._reserved()
                if word is not None and word == closer:
                    return
                if word in _OPENERS:
                    group = tuple(self._nested(_OPENERS[word], pipeline))
                    yield from group
                    pipeline += group
                elif word is None:
                    members = tuple(self._command(pipeline))
                    yield from members
                    pipeline += members
        if closer is not None:
            raise UnreadableCommandError(f"the command is not closed: {closer} is missing")

    def _nested(self, closer: str, upstream: tuple[Command, ...]) -> list[Command]:
        self._depth += 1
        commands = list(self.script(closer, upstream))
        self._depth -= 1
        return commands

    def _operator(self, pipeline: tuple[Command, ...], upstream: tuple[Command, ...]) -> tuple[Command, ...]:
        """Step over an operator; what feeds the next command."""
        rest = self._text[self._at : self._at + 2]
        if rest.startswith("\n"):
            self._at += 1
            self._read_documents()
            return upstream
        double = rest in ("&&", "||", ";;", "|&", ";&")
        self._at += 2 if double else 1
        return pipeline if rest == "|&" or (rest[0] == "|" and rest != "||") else upstream

    def _reserved(self) -> str | None:
        """Step over a reserved word that stands here, and return it."""
        match = _RESERVED.match(self._text, self._at)
        if match is None or match.group() not in _SKIPPED | _OPENERS.keys():
            return None
        end = match.end()
        if end < len(self._text) and self._text[end] not in _WORD_ENDS:
            return None
        self._at = end
        return match.group()

    def _command(self, upstream: tuple[Command, ...]) -> Iterator[Command]:
        """One simple command, after those that are run to make its words."""
        words: list[Word] = []
        redirects: list[Redirect] = []
        assignments: list[str] = []
        inputs: list[str] = []
        outer, self._found = self._found, []
        while self._skip_blanks():
            redirect = self._at_redirect()
            if redirect:
                self._at = redirect.end()
                self._redirect(redirect.group().lstrip("0123456789"), redirects, inputs)
            elif self._text[self._at] in "\n;&|()":
                break
            else:
                piece = self._word()
                if not words and self._assign(piece):
                    assignments.append(_ASSIGNMENT.match("".join(piece.text)).group(1))  # type: ignore[union-attr]
                else:
                    if words and words[0].text in _SETTERS:
                        self._assign(piece)
                    words += piece.words()
        inner, self._found = self._found, outer
        self._found += inner
        yield from inner
        yield Command(tuple(words), tuple(redirects), tuple(assignments), upstream, inputs)

    def _assign(self, piece: WordPiece) -> bool:
        """Remember the value when `piece` is an assignment."""
        text, marks = "".join(piece.text), "".join(piece.marks)
        match = _ASSIGNMENT.match(text)
        if match is None or set(marks[: match.end()]) != {Mark.LITERAL}:
            return False
        added = self._variables.get(match.group(1), "") if text[match.end() - 2] == "+" else ""
        value = added + text[match.end() :]
        if len(value) > _LONGEST_VALUE:
            raise UnreadableCommandError("the command sets a variable too long to be judged")
        self._variables[match.group(1)] = value
        return True

    def _redirect(self, operator: str, redirects: list[Redirect], inputs: list[str]) -> None:
        self._skip_blanks()
        start = self._at
        piece = self._word()
        target = Word("".join(piece.text), commands=tuple(piece.commands))
        if operator in ("<<", "<<-"):
            quoted = any(mark in self._text[start : self._at] for mark in "'\"\\")
            self._documents.append((target.text, quoted, inputs))
        elif operator == "<<<":
            inputs.append(target.text)
        redirects.append(Redirect(operator, target))

    def _read_documents(self) -> None:
        """The here-documents that begin after this line end."""
        for delimiter, quoted, inputs in self._documents:
            lines = []
            while self._at < len(self._text):
                end = self._text.find("\n", self._at)
                line = self._text[self._at :] if end < 0 else self._text[self._at : end]
                self._at = len(self._text) if end < 0 else end + 1
                if line.lstrip("\t") == delimiter:
                    break
                lines.append(line)
            body = "\n".join(lines)
            inputs.append(body)
            if not quoted:
                reader = _Reader(body, self._depth + 1, self._variables)
                reader._in_quotes(WordPiece(), None)
                self._in_documents += reader._found
        self._documents = []

    def _at_redirect(self) -> re.Match[str] | None:
        match = _REDIRECT.match(self._text, self._at)
        if match and match.group() in ("<", ">") and self._text.startswith("(", match.end()):
            return None  # a process substitution, part of a word
        return match

    def _skip_blanks(self) -> bool:
        """Step over blanks, comments and continued lines; False at the end."""
        while self._at < len(self._text):
            if self._text[self._at] in _BLANK:
                self._at += 1
            elif self._text.startswith("\\\n", self._at):
                self._at += 2
            elif self._text[self._at] == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            else:
                return True
        return False

    # -- words --------------------------------------------------------------------------------------------

    def _word(self) -> WordPiece:
        piece = WordPiece()
        while self._at < len(self._text):
            character = self._text[self._at]
            if character in "<>" and self._text.startswith("(", self._at + 1):
                self._at += 2
                self._substitution(piece, Mark.EXPANDED)
            elif character in _WORD_ENDS:
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
        else:
            name = _NAME.match(self._text, self._at + 1)
            if name is None:
                piece.add("$", mark if mark == Mark.QUOTED else Mark.LITERAL)
                self._at += 1
                return
            self._at = name.end()
            piece.add(self._value(name.group()), mark)

    def _value(self, name: str) -> str:
        if name == "IFS":
            return " "
        return self._variables.get(name, f"${name}")

    def _parameter(self, piece: WordPiece, mark: str) -> None:
        """What stands between `${` and `}`: a known value, a default, else the name."""
        inner = WordPiece()
        self._depth += 1
        if self._depth > _DEEPEST:
            raise UnreadableCommandError("the command is nested too deeply to be judged")
        self._in_quotes(inner, "}")
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
        piece.add(value, mark)

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
        self._ran(piece, list(_Reader(inner, self._depth + 1, self._variables).script(None, ())))
        piece.add(f"$({inner.strip()})", Mark.QUOTED if mark == Mark.QUOTED else Mark.SUBSTITUTED)

    def _ran(self, piece: WordPiece, commands: Sequence[Command]) -> None:
        piece.commands += commands
        self._found += commands
