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
from collections.abc import Iterator

from hermes_tools.commands.word_reading import DEEPEST, WORD_ENDS, Variables, WordReader
from hermes_tools.commands.words import Command, Mark, Redirect, UnreadableCommandError, Word, WordPiece

__all__ = ["LONGEST", "read_script"]

LONGEST = 65_536
"""Characters. Reading that many takes about a tenth of a second at worst; the event loop waits meanwhile."""
_MOST_COMMANDS = 1_000
_LONGEST_VALUE = 10_000
_BLANK = " \t\r"
_OPENERS = {"{": "}", "while": "done", "until": "done", "if": "fi"}
_SKIPPED = frozenset(("do", "then", "else", "elif", "!", "done", "fi", "esac", "}"))
_NAMED = re.compile(r"function[ \t]+[^ \t\n;&|<>(){}]+|coproc(?:[ \t]+\w+(?=[ \t]*[{(]))?(?=[ \t({])")
_SETTERS = frozenset(("export", "declare", "local", "readonly", "typeset"))
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=", re.ASCII)
_REDIRECT = re.compile(r"\d*(?:&>>|&>|<<<|<<-|<<|<>|>>|>&|<&|>\||<|>)")
_RESERVED = re.compile(r"[a-z]+|[{}!]")

_RUN_AS_COMMANDS = frozenset(
    ("BASH_ENV", "EDITOR", "ENV", "GIT_EDITOR", "GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_SEQUENCE_EDITOR")
) | {"GIT_SSH_COMMAND", "LESSOPEN", "MANPAGER", "PAGER", "PROMPT_COMMAND", "VISUAL"}
"""Variables whose values programs run."""


def read_script(text: str, depth: int = 0) -> list[Command]:
    """All simple commands of `text`, those inside groups and substitutions included, in the order read.

    Raises `UnreadableCommandError`.
    """
    if len(text) > LONGEST:
        raise UnreadableCommandError(f"the command has {len(text)} characters, too many to be judged")
    commands = []
    for command in _Reader(text, depth, Variables()).script(None, ()):
        commands.append(command)
        if len(commands) > _MOST_COMMANDS:
            raise UnreadableCommandError(f"the command line has more than {_MOST_COMMANDS} commands")
    return commands


class _Reader(WordReader):
    """Reads from left to right; `variables` are those assigned so far."""

    # -- commands -----------------------------------------------------------------------------------------

    def script(self, closer: str | None, upstream: tuple[Command, ...]) -> Iterator[Command]:
        """The commands up to `closer` (None: the end of the text)."""
        if self._depth > DEEPEST:
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
                if self._arithmetic():
                    yield from self._in_documents
                    self._in_documents = []
                    continue
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

    def _script_of(self, text: str) -> list[Command]:
        return list(_Reader(text, self._depth + 1, self._variables).script(None, ()))

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
        named = _NAMED.match(self._text, self._at)
        if named is not None:
            self._at = named.end()
            return "function"
        match = _RESERVED.match(self._text, self._at)
        if match is None or match.group() not in _SKIPPED | _OPENERS.keys():
            return None
        end = match.end()
        if end < len(self._text) and self._text[end] not in WORD_ENDS:
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
                if words and words[0].text == "[[" and redirect.group().endswith("<<"):
                    raise UnreadableCommandError("the command compares with <<, which can not be judged")
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
        if match.group(1) in _RUN_AS_COMMANDS:
            self._ran(piece, self._script_of(value))
        return True

    def _redirect(self, operator: str, redirects: list[Redirect], inputs: list[str]) -> None:
        self._skip_blanks()
        start = self._at
        piece = self._word()
        target = Word("".join(piece.text), commands=tuple(piece.commands))
        if operator in ("<<", "<<-"):
            written = self._text[start : self._at]
            if "$" in written or "`" in written:  # the shell takes it as it stands
                raise UnreadableCommandError("the end of a here-document in the command can not be judged")
            quoted = any(mark in written for mark in "'\"\\")
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

    def _arithmetic(self) -> bool:
        """Step over `((...))`, which calculates; False where it is a group in a group."""
        end = _end_of_arithmetic(self._text, self._at)
        if end is None:
            return False
        reader = _Reader(self._text[self._at + 2 : end], self._depth + 1, self._variables)
        reader._in_quotes(WordPiece(), None)
        self._in_documents += reader._found
        self._at = end + 2
        return True


def _end_of_arithmetic(text: str, at: int) -> int | None:
    """Where the `))` stands that ends the `((` at `at`, or None."""
    if not text.startswith("((", at):
        return None
    depth = 0
    place = at
    while place < len(text):
        character = text[place]
        if character in "'\"":
            place = text.find(character, place + 1)
            if place < 0:
                return None
        elif character == "\\":
            place += 1
        elif character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if depth == 1:
                return place if text.startswith("))", place) else None
        place += 1
    return None
