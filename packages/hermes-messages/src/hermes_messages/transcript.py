"""An append-only conversation that can not become invalid.

>>> from hermes_messages import Transcript, UserMessage, AssistantMessage
>>> transcript = Transcript([UserMessage("hi")])
>>> transcript.append(AssistantMessage("hello"))
>>> transcript.state
<State.ANSWERED: 'answered'>
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hermes_messages.errors import InvariantError
from hermes_messages.history import History, MessageLog
from hermes_messages.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage
from hermes_messages.transcript_rules import TRANSITIONS, Event, Rule, State, event_of, is_blank

__all__ = ["Transcript", "validate"]


class Transcript:
    """Messages in an order that every provider accepts. `append` costs the same at any length."""

    __slots__ = ("_log", "_open", "_state")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        """Raises `InvariantError` at the first message that may not stand where it stands."""
        self._log = MessageLog()
        self._state = State.EMPTY
        self._open: dict[str, ToolCall] = {}
        self.extend(messages)

    @property
    def state(self) -> State:
        """Where the conversation stands."""
        return self._state

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls whose results are owed, in the model's order."""
        return tuple(self._open.values())

    def append(self, message: Message) -> None:
        """Add `message`. Raises `InvariantError` (rule, index, call id), changing nothing, if it may not follow."""
        error = self._broken_rule(message)
        if error is not None:
            raise error
        event = event_of(message, len(self._open))
        self._state = TRANSITIONS[self._state][event]
        match message:
            case AssistantMessage():
                self._open = {call.id: call for call in message.tool_calls}
            case ToolMessage():
                del self._open[message.tool_call_id]
            case _:
                pass
        self._log.append(message)

    def extend(self, messages: Iterable[Message]) -> None:
        """Append each of `messages`; those before the first bad one stay."""
        for message in messages:
            self.append(message)

    def history(self) -> History:
        """The conversation so far as an immutable view, for a request."""
        return self._log.view()

    def __len__(self) -> int:
        return len(self._log)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._log.view())

    def _broken_rule(self, message: Message) -> InvariantError | None:
        index = len(self._log)
        match message:
            case ToolMessage():
                if message.tool_call_id not in self._open:
                    return InvariantError(
                        Rule.RESULT_NEEDS_CALL,
                        "a tool result that answers no open call of the latest assistant message",
                        index=index,
                        call_id=message.tool_call_id,
                    )
                return None
            case AssistantMessage():
                broken = _broken_in_assistant(message, index)
                if broken is not None:
                    return broken
            case _:
                pass
        event = event_of(message, len(self._open))
        if event in TRANSITIONS[self._state]:
            return None
        return _not_here(self._state, event, index, next(iter(self._open), None))


def _broken_in_assistant(message: AssistantMessage, index: int) -> InvariantError | None:
    if is_blank(message):
        return InvariantError(
            Rule.NO_EMPTY_ANSWER, "an assistant message with neither text nor calls", index=index
        )
    seen: set[str] = set()
    for call in message.tool_calls:
        if not call.id:
            return InvariantError(
                Rule.CALL_NEEDS_ID, "a tool call without an id", index=index, call_id=call.id
            )
        if not call.name:
            return InvariantError(
                Rule.CALL_NEEDS_NAME, "a tool call without a tool name", index=index, call_id=call.id
            )
        if call.id in seen:
            return InvariantError(
                Rule.UNIQUE_CALL_IDS,
                "two calls of one message have the same id",
                index=index,
                call_id=call.id,
            )
        seen.add(call.id)
    return None


def _not_here(state: State, event: Event, index: int, open_id: str | None) -> InvariantError:
    if state is State.RESULTS_OWED:
        return InvariantError(
            Rule.RESULTS_OWED,
            f"a {event} message while the results of tool calls are owed",
            index=index,
            call_id=open_id,
        )
    if event is Event.SYSTEM:
        return InvariantError(
            Rule.ONE_SYSTEM_FIRST, "a system message that is not the first message", index=index
        )
    if state is State.ANSWERED:
        return InvariantError(
            Rule.ANSWER_ONCE, "an assistant message right after a final answer", index=index
        )
    return InvariantError(
        Rule.USER_BEFORE_ANSWER, "an assistant message before any user message", index=index
    )


def validate(messages: Iterable[Message]) -> list[InvariantError]:
    """Every broken rule of `messages`, in order; an empty list for a valid transcript.

    A broken message is taken for what it was meant to be, so that one mistake is reported once.
    """
    violations: list[InvariantError] = []
    state = State.EMPTY
    open_ids: set[str] = set()
    index = -1
    for index, message in enumerate(messages):
        checker = _Checker(state, open_ids, index)
        violations.extend(checker.violations(message))
        state, open_ids = checker.after(message)
    return violations


class _Checker:
    """One step of `validate`: what is wrong with a message here, and where the transcript stands after it."""

    __slots__ = ("_index", "_open_ids", "_state")

    def __init__(self, state: State, open_ids: set[str], index: int) -> None:
        self._state = state
        self._open_ids = open_ids
        self._index = index

    def violations(self, message: Message) -> Iterator[InvariantError]:
        match message:
            case ToolMessage():
                if message.tool_call_id not in self._open_ids:
                    yield InvariantError(
                        Rule.RESULT_NEEDS_CALL,
                        "a tool result that answers no open call of the latest assistant message",
                        index=self._index,
                        call_id=message.tool_call_id,
                    )
                return
            case AssistantMessage():
                broken = _broken_in_assistant(message, self._index)
                if broken is not None:
                    yield broken
            case _:
                pass
        event = event_of(message, len(self._open_ids))
        if event not in TRANSITIONS[self._state]:
            yield _not_here(self._state, event, self._index, next(iter(sorted(self._open_ids)), None))

    def after(self, message: Message) -> tuple[State, set[str]]:
        match message:
            case SystemMessage():
                return (State.PRIMED if self._state is State.EMPTY else self._state), self._open_ids
            case AssistantMessage():
                if message.tool_calls:
                    return State.RESULTS_OWED, {call.id for call in message.tool_calls}
                return State.ANSWERED, set()
            case ToolMessage():
                left = self._open_ids - {message.tool_call_id}
                if self._state is State.RESULTS_OWED and not left:
                    return State.RESULTS_GIVEN, left
                return self._state, left
            case _:
                return State.ASKED, set()
