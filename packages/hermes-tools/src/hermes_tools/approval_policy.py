"""Which calls run, which are asked about and which are refused: rules as frozen data. Pure.

>>> policy = ApprovalPolicy(rules=(
...     ApprovalRule("allow", pattern="git push --force origin scratch"),
...     ApprovalRule("deny", tool="write_file", pattern="*.lock"),
...     ApprovalRule("ask", tool="mail_*", reason="mail leaves the house"),
... ))
>>> policy.judge("terminal", {"command": "git push --force origin scratch && git push -f"}).reason
'it overwrites history that others have: git push -f'
>>> policy.judge("write_file", {"path": "uv.lock", "content": ""}).action
'deny'
>>> policy.judge("read_file", {"path": "uv.lock"}).action
'allow'
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from hermes_messages import ConfigurationError, JsonObject

if TYPE_CHECKING:
    from hermes_tools.commands import Command

__all__ = ["ApprovalAction", "ApprovalPolicy", "ApprovalRule", "Judgement"]

ApprovalAction = Literal["allow", "ask", "deny"]
"""What becomes of a call: it runs, a person is asked, or it is refused."""
_STRICTNESS: dict[ApprovalAction, int] = {"allow": 0, "ask": 1, "deny": 2}
_SHOWN = 300


class Judgement(Struct, frozen=True):
    """What the policy says of one call, and why."""

    action: ApprovalAction
    """What is done with the call."""
    reason: str = ""
    """In words, for the host and the model; may be empty where the call is allowed."""


class ApprovalRule(Struct, frozen=True, forbid_unknown_fields=True):
    """What to do with calls of some tools, or with some commands.

    `tool` and `pattern` are shell patterns (`*`, `?`, `[...]`), compared as a whole and with regard to case.
    `pattern` is compared with each command that a command line comes to (quotes and wrappers taken off: `git
    push -f`), for a call without a command line with each of its text arguments. Without it the rule is for
    every call of the tool.
    """

    action: ApprovalAction
    """`allow`, `ask` or `deny`."""
    tool: str = "*"
    pattern: str | None = None
    reason: str = ""
    """What the model and who is asked are told; "": a text is made from the rule."""


class ApprovalPolicy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rules of one executor.

    For each command of a call the first rule that fits decides; where none does, `dangerous` for what the
    table of dangers knows (`hermes_tools.commands.dangers`), else `default`. Of several commands in one call
    the strictest decides. `command_arguments` are the names of arguments that hold command lines;
    `typed_arguments` are those, as `tool.argument`, whose text is typed into a program that runs, which may
    be a shell: it is judged as a command line as well.
    """

    rules: tuple[ApprovalRule, ...] = ()
    """In the order in which they are tried."""
    dangerous: ApprovalAction = "ask"
    default: ApprovalAction = "allow"
    command_arguments: tuple[str, ...] = ("command", "cmd")
    typed_arguments: tuple[str, ...] = ("process.text",)

    def judge(self, tool: str, arguments: JsonObject) -> Judgement:
        """What is to be done with a call of `tool`."""
        lines = []
        if not arguments.keys().isdisjoint(self.command_arguments):
            named = [name for name in self.command_arguments if name in arguments]
            lines = [line for name in named if (line := _command_line(arguments[name]))]
        if not lines:
            plain = self._judge_plain(tool, arguments) if self.rules else _DEFAULTS[self.default]
            typed = _arguments_of(tool, self.typed_arguments)
            return _strictest([plain, *self._judge_typed(tool, typed, arguments)]) if typed else plain
        return _strictest([judgement for line in lines for judgement in self._judge_line(tool, line)])

    def checked(self) -> ApprovalPolicy:
        """This policy. Raises `ConfigurationError` for a rule that can never fit."""
        for rule in self.rules:
            if not rule.tool or rule.pattern == "":
                raise ConfigurationError(f"approval rule {rule!r} can never fit: an empty pattern")
        return self

    def _judge_plain(self, tool: str, arguments: JsonObject) -> Judgement:
        texts = [value for value in arguments.values() if isinstance(value, str)]
        for rule in self.rules:
            if fnmatchcase(tool, rule.tool) and (
                rule.pattern is None or any(fnmatchcase(text, rule.pattern) for text in texts)
            ):
                return Judgement(rule.action, rule.reason or _because(rule))
        return _DEFAULTS[self.default]

    def _judge_typed(self, tool: str, typed: tuple[str, ...], arguments: JsonObject) -> Iterator[Judgement]:
        """What is written to a process may be a command for a shell. Most of it is not, so what can not be
        read as one is no reason to ask."""
        for name in typed:
            text = arguments.get(name)
            if not isinstance(text, str):
                continue
            lines = [line for line in text.splitlines() if line.strip()]
            commands = _readable(text) or [command for line in lines for command in _words_of_prose(line)]
            for command in commands:
                judged = self._judge_command(tool, command)
                reason = f"as a command, {judged.reason}" if judged.reason else ""
                yield Judgement(judged.action, reason)

    def _judge_line(self, tool: str, line: str) -> Iterator[Judgement]:
        if not self.rules and self.dangerous == "allow":
            yield _DEFAULTS[self.default]
            return
        from hermes_tools.commands import UnreadableCommandError, commands_of
        from hermes_tools.commands.questions import is_fork_bomb

        try:
            commands = commands_of(line)
        except UnreadableCommandError as error:
            # Nothing is known of it, so the strictest of what it could be counts, and it is never just run.
            strictest = max([self.dangerous, "ask", *self._actions(tool)], key=_STRICTNESS.__getitem__)
            yield Judgement(strictest, str(error))
            return
        if is_fork_bomb(line):
            yield Judgement(self.dangerous, f"it multiplies itself: {line[:_SHOWN]}")
        for command in commands:
            yield self._judge_command(tool, command)

    def _actions(self, tool: str) -> list[ApprovalAction]:
        """What rules for every command of `tool` say; those for some commands can not be applied."""
        return [rule.action for rule in self.rules if rule.pattern is None and fnmatchcase(tool, rule.tool)][
            :1
        ]

    def _judge_command(self, tool: str, command: Command) -> Judgement:
        from hermes_tools.commands import danger_of, shown

        text = shown(command) if self.rules else ""
        for rule in self.rules:
            if fnmatchcase(tool, rule.tool) and (rule.pattern is None or fnmatchcase(text, rule.pattern)):
                return Judgement(rule.action, rule.reason or f"{_because(rule)}: {text[:_SHOWN]}")
        kind = danger_of(command)
        if kind is not None:
            return Judgement(self.dangerous, f"it {kind}: {shown(command)[:_SHOWN]}")
        return _DEFAULTS[self.default]


_DEFAULTS: dict[ApprovalAction, Judgement] = {
    "allow": Judgement("allow"),
    "ask": Judgement("ask", "every call is asked about"),
    "deny": Judgement("deny", "only what a rule allows is run"),
}


@lru_cache(maxsize=512)
def _arguments_of(tool: str, named: tuple[str, ...]) -> tuple[str, ...]:
    """The arguments of `tool` among those that are named as `tool.argument`."""
    parts = [name.rpartition(".") for name in named]
    return tuple(argument for owner, _, argument in parts if owner == tool)


def _readable(text: str) -> Sequence[Command]:
    from hermes_tools.commands import UnreadableCommandError, commands_of

    try:
        return commands_of(text)
    except UnreadableCommandError:
        return ()


def _words_of_prose(line: str) -> Sequence[Command]:
    """The commands of a line in which a quote may be an apostrophe."""
    return _readable(line) or _readable(re.sub("['\"`]", " ", line))


def _command_line(value: object) -> str:
    """A command line given as text, or as the list of its words."""
    if isinstance(value, list):
        import shlex  # rare

        return shlex.join(word for word in value if isinstance(word, str))
    return value if isinstance(value, str) else ""


def _strictest(judgements: list[Judgement]) -> Judgement:
    return max(judgements, key=lambda judgement: _STRICTNESS[judgement.action], default=_DEFAULTS["allow"])


@cache
def _because(rule: ApprovalRule) -> str:
    subject = f"{rule.tool} {rule.pattern}" if rule.pattern else rule.tool
    return {"allow": "allowed", "ask": "to be asked about", "deny": "not allowed"}[
        rule.action
    ] + f" ({subject})"
