"""Making any list of messages a valid transcript, and saying what was changed.

>>> from hermes_messages import ToolMessage, UserMessage
>>> from hermes_messages.repair import repair
>>> repair([UserMessage("hi"), ToolMessage("call_9", "late news")]).changes
(RepairChange(kind=<RepairKind.ORPHAN_DROPPED: 'orphan_result_dropped'>, index=1, call_id='call_9'),)

No user text and no result of a call in the list is lost, a valid list comes back as it is (the same message
objects), and a repaired list needs no further repair. Ids pair inside a round only, because some servers
use one id for ever: a result belongs to the latest earlier round that still owes one of its id.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from hermes_messages.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_messages.parts import Content, TextPart, content_text
from hermes_messages.repair_merging import merge_answers, merge_content
from hermes_messages.repair_pairing import Round, pair_results
from hermes_messages.transcript import Transcript, validate
from hermes_messages.transcript_rules import is_blank

__all__ = ["RepairChange", "RepairKind", "RepairResult", "repair"]

UNKNOWN_OUTCOME = (
    "The outcome of this call is unknown: its result was not recorded. "
    "It may or may not have taken effect; check before doing it again."
)
MISSING_START = "(What came before is not available.)"
NAMELESS_TOOL = "unnamed_tool"


class RepairKind(StrEnum):
    """What `repair` can do; a closed list."""

    SYSTEM_JOINED = "system_joined"
    """A further leading system message; its text was joined to the first."""
    SYSTEM_TO_NOTE = "system_to_note"
    """A late system message; it became a user message that says so."""
    SYSTEM_DROPPED = "system_dropped"
    """A late system message without content."""
    ORPHAN_DROPPED = "orphan_result_dropped"
    """A result of no call at all."""
    DUPLICATE_DROPPED = "duplicate_result_dropped"
    """A further result of a call that has one."""
    RESULT_MOVED = "result_moved"
    """A result that came late; it was moved to its round."""
    RESULT_ID_CHANGED = "result_id_changed"
    """A result that follows the new id of its call."""
    RESULT_ADDED = "result_added"
    """A call without a result; one of status `unknown` was added."""
    CALL_ID_CHANGED = "call_id_changed"
    """A call with an empty id or that of a sibling."""
    CALL_NAMED = "call_named"
    """A call without a tool name; it got that of its result, or a stand-in."""
    BLANK_DROPPED = "blank_answer_dropped"
    """An assistant message with neither text nor calls."""
    ANSWERS_MERGED = "answers_merged"
    """An assistant message right after an answer; it was merged into it."""
    USER_ADDED = "user_added"
    """An assistant message before any user message; a user message was put before it."""


class RepairChange(Struct, frozen=True):
    """One change: its `kind`, the `index` of the message in the list given (from 0), and the `call_id` as it
    was there (None: no call is concerned)."""

    kind: RepairKind
    index: int
    call_id: str | None = None


class RepairResult(Struct, frozen=True):
    """A valid list of `messages`, and the `changes` made for it, by index; none: it was valid already."""

    messages: tuple[Message, ...]
    changes: tuple[RepairChange, ...] = ()


def repair(messages: Iterable[Message], *, close_round: bool = False) -> RepairResult:
    """Make `messages` a list that `validate` accepts. The messages given are not changed.

    A last round whose results are still owed is valid and stays open, as a suspended turn needs it. With
    `close_round` its missing results are added as well, so that a user message may follow. Raises
    `MessageFormatError` for what is no message at all.
    """
    given = tuple(messages)
    if not validate(given) and not (close_round and Transcript(given).open_calls):
        return RepairResult(given)
    repairer = _Repairer(given)
    for index, message in enumerate(given):
        repairer.take(index, message)
    if close_round:
        repairer.settle()
    return RepairResult(tuple(repairer.out), tuple(sorted(repairer.changes, key=lambda change: change.index)))


class _Repairer:
    """Takes the messages one by one. `out` is a valid transcript whose last round `settle` closes."""

    __slots__ = ("_given", "_missing", "_rounds", "_saw_user", "changes", "out")

    def __init__(self, given: tuple[Message, ...]) -> None:
        self._given = given
        self._rounds = pair_results(given)
        self._missing: list[tuple[int, str, ToolCall]] = []
        self._saw_user = False
        self.out: list[Message] = []
        self.changes: list[RepairChange] = []

    def take(self, index: int, message: Message) -> None:
        match message:
            case SystemMessage():
                self._system(index, message)
            case UserMessage():
                self._user(message)
            case AssistantMessage():
                self._assistant(index, message)
            case ToolMessage():
                if index in self._rounds.duplicates:
                    self._changed(RepairKind.DUPLICATE_DROPPED, index, message.tool_call_id)
                elif index in self._rounds.orphans:
                    self._changed(RepairKind.ORPHAN_DROPPED, index, message.tool_call_id)

    def settle(self) -> None:
        """Add the results that the last round still owes."""
        for index, given_id, call in self._missing:
            self._changed(RepairKind.RESULT_ADDED, index, given_id)
            self.out.append(ToolMessage(call.id, UNKNOWN_OUTCOME, name=call.name, status="unknown"))
        self._missing = []

    def _system(self, index: int, message: SystemMessage) -> None:
        if not self.out:
            self.out.append(message)
            return
        first = self.out[0]
        if len(self.out) == 1 and isinstance(first, SystemMessage):
            joined = merge_content(first.content, message.content)
            self.out[0] = replace(first, content="" if joined is None else joined)
            self._changed(RepairKind.SYSTEM_JOINED, index)
        elif _has_no_content(message.content):
            self._changed(RepairKind.SYSTEM_DROPPED, index)
        else:
            self._user(UserMessage(_as_note(message.content), message.name, message.extra))
            self._changed(RepairKind.SYSTEM_TO_NOTE, index)

    def _user(self, message: UserMessage) -> None:
        self.settle()
        self._saw_user = True
        self.out.append(message)

    def _assistant(self, index: int, message: AssistantMessage) -> None:
        if is_blank(message):
            self._changed(RepairKind.BLANK_DROPPED, index)
            return
        self.settle()
        if not self._saw_user:
            self._changed(RepairKind.USER_ADDED, index)
            self._user(UserMessage(MISSING_START))
        round_ = self._rounds.by_index.get(index)
        fixed = message if round_ is None else self._with_good_calls(index, message, round_)
        previous = self.out[-1]
        if isinstance(previous, AssistantMessage):
            self.out[-1] = merge_answers(previous, fixed)
            self._changed(RepairKind.ANSWERS_MERGED, index)
        else:
            self.out.append(fixed)
        if round_ is not None:
            self._results(index, fixed, round_)

    def _with_good_calls(self, index: int, message: AssistantMessage, round_: Round) -> AssistantMessage:
        """`message` with a name and an id of its own for each call; the same object when all is well."""
        taken = {call.id for call in message.tool_calls}
        seen: set[str] = set()
        numbers: dict[str, int] = {}
        calls: list[ToolCall] = []
        for position, given in enumerate(message.tool_calls):
            call = given
            if not call.name:
                call = replace(call, name=self._name_of_result(round_, position) or NAMELESS_TOOL)
                self._changed(RepairKind.CALL_NAMED, index, given.id)
            if not call.id or call.id in seen:
                call = replace(call, id=_free_id(call.id or "call", taken, numbers))
                self._changed(RepairKind.CALL_ID_CHANGED, index, given.id)
            taken.add(call.id)
            seen.add(call.id)
            calls.append(call)
        if all(new is old for new, old in zip(calls, message.tool_calls, strict=True)):
            return message
        return replace(message, tool_calls=tuple(calls))

    def _name_of_result(self, round_: Round, position: int) -> str | None:
        result = self._given[round_.results[position]] if position in round_.results else None
        return result.name if isinstance(result, ToolMessage) else None

    def _results(self, index: int, message: AssistantMessage, round_: Round) -> None:
        """Put the round's results behind it in the order in which they came, and note what is missing."""
        given_calls = round_.calls
        for position, place in sorted(round_.results.items(), key=lambda item: item[1]):
            result = self._given[place]
            assert isinstance(result, ToolMessage)
            call = message.tool_calls[position]
            if place in self._rounds.late:
                self._changed(RepairKind.RESULT_MOVED, place, result.tool_call_id)
            if result.tool_call_id != call.id:
                self._changed(RepairKind.RESULT_ID_CHANGED, place, result.tool_call_id)
                result = replace(result, tool_call_id=call.id)
            self.out.append(result)
        self._missing = [
            (index, given_calls[position].id, call)
            for position, call in enumerate(message.tool_calls)
            if position not in round_.results
        ]

    def _changed(self, kind: RepairKind, index: int, call_id: str | None = None) -> None:
        self.changes.append(RepairChange(kind, index, call_id))


def _free_id(stem: str, taken: set[str], numbers: dict[str, int]) -> str:
    """The first id of `stem` that is not taken; `numbers` remembers up to where all of a stem's are."""
    number = numbers.get(stem) or (2 if stem in taken else 1)
    while f"{stem}_{number}" in taken:
        number += 1
    numbers[stem] = number
    return f"{stem}_{number}"


def _has_no_content(content: Content) -> bool:
    only_text = isinstance(content, str) or all(isinstance(part, TextPart) for part in content)
    return only_text and not content_text(content).strip()


def _as_note(content: Content) -> Content:
    mark = "[System note] "
    return mark + content if isinstance(content, str) else (TextPart(mark), *content)
