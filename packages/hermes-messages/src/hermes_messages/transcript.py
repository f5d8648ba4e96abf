"""An append-only conversation that can not become invalid.

>>> from hermes_messages import Transcript, UserMessage, AssistantMessage
>>> transcript = Transcript([UserMessage("hi")])
>>> transcript.append(AssistantMessage("hello"))
>>> transcript.state
<TranscriptState.ANSWERED: 'answered'>
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from hermes_messages.errors import InvariantError
from hermes_messages.history import History, MessageLog
from hermes_messages.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_messages.strangers import no_message
from hermes_messages.transcript_rules import (
    TRANSITIONS,
    TranscriptEvent,
    TranscriptRule,
    TranscriptState,
    event_of,
    is_blank,
)

__all__ = ["Transcript", "validate"]


class Transcript:
    """Messages in an order that every provider accepts. `append` costs the same at any length."""

    __slots__ = ("_log", "_open", "_state")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        """Raises `InvariantError` at the first message that may not stand where it stands."""
        self._log = MessageLog()
        self._state = TranscriptState.EMPTY
        self._open: dict[str, ToolCall] = {}
        self.extend(messages)

    @property
    def state(self) -> TranscriptState:
        """Where the conversation stands."""
        return self._state

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls whose results are owed, in the model's order."""
        return tuple(self._open.values())

    def append(self, message: Message) -> None:
        """Add `message`.

        Raises `InvariantError` (rule, index, call id), changing nothing, if it may not follow, and
        `MessageFormatError` if it is no message at all (a dict: `messages_from_dicts` reads those).
        """
        after = TRANSITIONS[self._state].get(event_of(message, len(self._open)))
        answered: str | None = None
        opened: dict[str, ToolCall] = {}
        match message:
            case ToolMessage(tool_call_id=answered):
                is_sound = answered in self._open
            case AssistantMessage(tool_calls=calls) if calls:
                opened = {call.id: call for call in calls if call.id and call.name}
                is_sound = len(opened) == len(calls)
            case AssistantMessage():
                is_sound = not is_blank(message)
            case _:
                is_sound = True
        if after is None or not is_sound:
            raise next(_violations(message, len(self), self._state, self._open))
        self._log.append(message)
        self._state = after
        if answered is None:
            self._open = opened
        else:
            del self._open[answered]

    def extend(self, messages: Iterable[Message]) -> None:
        """Append each of `messages`; those before the first bad one stay."""
        for message in messages:
            self.append(message)

    def history(self) -> History:
        """The conversation so far as an immutable view, for a request."""
        return self._log.view()

    def since(self, start: int) -> tuple[Message, ...]:
        """The messages from the position `start` (from 0) on."""
        return self._log.since(start)

    def __copy__(self) -> Transcript:
        """A transcript with a log of its own: what is appended to one is not seen in the other."""
        return Transcript(self)

    def __len__(self) -> int:
        return len(self._log)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._log.view())


def validate(messages: Iterable[Message]) -> list[InvariantError]:
    """Every broken rule of `messages`, in order; an empty list for a valid transcript.

    A broken message is taken for what it was meant to be, so that one mistake is reported once. Raises
    `MessageFormatError` for what is no message at all.
    """
    found: list[InvariantError] = []
    state = TranscriptState.EMPTY
    owed: dict[str, int] = {}  # by id, how many; in the model's order
    for index, message in enumerate(messages):
        found.extend(_violations(message, index, state, owed))
        match message:
            case SystemMessage():
                state = TranscriptState.PRIMED if state is TranscriptState.EMPTY else state
            case UserMessage():
                state, owed = TranscriptState.ASKED, {}
            case AssistantMessage() if not is_blank(message):
                owed = {}
                for call in message.tool_calls:
                    owed[call.id] = owed.get(call.id, 0) + 1
                state = TranscriptState.RESULTS_OWED if owed else TranscriptState.ANSWERED
            case ToolMessage() if message.tool_call_id in owed:
                owed[message.tool_call_id] -= 1
                if not owed[message.tool_call_id]:
                    del owed[message.tool_call_id]
                state = state if owed else TranscriptState.RESULTS_GIVEN
            case _:
                pass
    return found


def _violations(
    message: Message, index: int, state: TranscriptState, owed: Collection[str]
) -> Iterator[InvariantError]:
    """What is wrong with `message` itself, then with its place, given the calls whose results are `owed`."""
    match message:
        case ToolMessage():
            if message.tool_call_id not in owed:
                text = "a tool result that answers no open call of the latest assistant message"
                yield InvariantError(
                    TranscriptRule.RESULT_NEEDS_CALL, text, index=index, call_id=message.tool_call_id
                )
            return
        case AssistantMessage():
            if is_blank(message):
                text = "an assistant message with neither text nor calls"
                yield InvariantError(TranscriptRule.NO_EMPTY_ANSWER, text, index=index)
                return
            yield from _broken_calls(message, index)
        case SystemMessage() | UserMessage():
            pass
        case _:
            raise no_message(message, index)
    event = event_of(message, len(owed))
    if event not in TRANSITIONS[state]:
        yield _not_here(state, event, index, next(iter(owed), None))


def _broken_calls(message: AssistantMessage, index: int) -> Iterator[InvariantError]:
    seen: set[str] = set()
    for call in message.tool_calls:
        broken: list[tuple[TranscriptRule, str]] = []
        if not call.id:
            broken.append((TranscriptRule.CALL_NEEDS_ID, "a tool call without an id"))
        elif call.id in seen:
            broken.append((TranscriptRule.UNIQUE_CALL_IDS, "two calls of one message have the same id"))
        if not call.name:
            broken.append((TranscriptRule.CALL_NEEDS_NAME, "a tool call without a tool name"))
        for rule, text in broken:
            yield InvariantError(rule, text, index=index, call_id=call.id)
        seen.add(call.id)


def _not_here(
    state: TranscriptState, event: TranscriptEvent, index: int, owed_id: str | None
) -> InvariantError:
    match state, event:
        case _, TranscriptEvent.SYSTEM:
            text = "a system message that is not the first message"
            return InvariantError(TranscriptRule.ONE_SYSTEM_FIRST, text, index=index)
        case TranscriptState.RESULTS_OWED, _:
            text = f"{_SPOKEN[event]} while the results of tool calls are owed"
            return InvariantError(TranscriptRule.RESULTS_OWED, text, index=index, call_id=owed_id)
        case TranscriptState.ANSWERED, _:
            text = "an assistant message right after a final answer"
            return InvariantError(TranscriptRule.ANSWER_ONCE, text, index=index)
        case _:
            text = "an assistant message before any user message"
            return InvariantError(TranscriptRule.USER_BEFORE_ANSWER, text, index=index)


_SPOKEN: dict[TranscriptEvent, str] = {
    TranscriptEvent.USER: "a user message",
    TranscriptEvent.TEXT: "an answer",
    TranscriptEvent.CALLS: "an assistant message with further calls",
}
