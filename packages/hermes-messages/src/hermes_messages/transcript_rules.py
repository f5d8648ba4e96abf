"""The states of a transcript, the events that messages are, and the table of what may follow what.

Nothing outside this module decides what may follow what.
"""

from __future__ import annotations

from enum import StrEnum

from hermes_messages.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from hermes_messages.parts import TextPart

__all__ = ["TRANSITIONS", "TranscriptEvent", "TranscriptRule", "TranscriptState", "event_of", "is_blank"]


class TranscriptState(StrEnum):
    """Where a transcript stands: which role may come next (see `Transcript`)."""

    EMPTY = "empty"
    """No message yet: system or user may come."""
    PRIMED = "primed"
    """A system message: a user message has to come."""
    ASKED = "asked"
    """A user message: an answer, calls, or one more user message may come."""
    RESULTS_OWED = "results_owed"
    """Calls without all of their results: only those may come."""
    RESULTS_GIVEN = "results_given"
    """All results are there: an answer, more calls, or a user message may come."""
    ANSWERED = "answered"
    """An answer: a user message has to come."""


class TranscriptEvent(StrEnum):
    """What a message is to the table."""

    SYSTEM = "system"
    """A system message."""
    USER = "user"
    """A user message."""
    TEXT = "text"
    """An assistant message without calls."""
    CALLS = "calls"
    """An assistant message with calls."""
    RESULT = "result"
    """The result of a call, with more to come."""
    LAST_RESULT = "last_result"
    """The result of the only call that was still open."""


TRANSITIONS: dict[TranscriptState, dict[TranscriptEvent, TranscriptState]] = {
    TranscriptState.EMPTY: {
        TranscriptEvent.SYSTEM: TranscriptState.PRIMED,
        TranscriptEvent.USER: TranscriptState.ASKED,
    },
    TranscriptState.PRIMED: {TranscriptEvent.USER: TranscriptState.ASKED},
    TranscriptState.ASKED: {
        TranscriptEvent.USER: TranscriptState.ASKED,
        TranscriptEvent.TEXT: TranscriptState.ANSWERED,
        TranscriptEvent.CALLS: TranscriptState.RESULTS_OWED,
    },
    TranscriptState.RESULTS_OWED: {
        TranscriptEvent.RESULT: TranscriptState.RESULTS_OWED,
        TranscriptEvent.LAST_RESULT: TranscriptState.RESULTS_GIVEN,
    },
    TranscriptState.RESULTS_GIVEN: {
        TranscriptEvent.USER: TranscriptState.ASKED,
        TranscriptEvent.TEXT: TranscriptState.ANSWERED,
        TranscriptEvent.CALLS: TranscriptState.RESULTS_OWED,
    },
    TranscriptState.ANSWERED: {TranscriptEvent.USER: TranscriptState.ASKED},
}
"""The whole rule: in which states an event may come, and where it leads. What is not here may not come."""


class TranscriptRule(StrEnum):
    """The rules of a transcript, as `InvariantError.rule` names them."""

    ONE_SYSTEM_FIRST = "one_system_message_first"
    """A system message may only be the first message."""
    USER_BEFORE_ANSWER = "user_before_answer"
    """The assistant does not speak before a user did."""
    RESULTS_OWED = "results_owed"
    """Until all results are there, nothing else may come."""
    ANSWER_ONCE = "one_answer_at_a_time"
    """No assistant message right behind an answer."""
    NO_EMPTY_ANSWER = "no_empty_answer"
    """An assistant message has something in it."""
    RESULT_NEEDS_CALL = "result_needs_open_call"
    """A result answers a call of the last round that is still open."""
    UNIQUE_CALL_IDS = "unique_call_ids_in_round"
    """No two calls of one message have the same id."""
    CALL_NEEDS_NAME = "call_needs_name"
    """A call names a tool."""
    CALL_NEEDS_ID = "call_needs_id"
    """A call has an id."""


def is_blank(message: AssistantMessage) -> bool:
    """Whether an assistant message has neither calls nor anything to show."""
    if message.tool_calls or message.refusal:
        return False
    content = message.content
    if isinstance(content, tuple):
        return all(isinstance(part, TextPart) and not part.text.strip() for part in content)
    return content is None or not content.strip()


def event_of(message: Message, open_calls: int) -> TranscriptEvent:
    """The event that `message` is when `open_calls` results are still owed."""
    match message:
        case AssistantMessage():
            return TranscriptEvent.CALLS if message.tool_calls else TranscriptEvent.TEXT
        case ToolMessage():
            return TranscriptEvent.LAST_RESULT if open_calls <= 1 else TranscriptEvent.RESULT
        case UserMessage():
            return TranscriptEvent.USER
        case SystemMessage():
            return TranscriptEvent.SYSTEM
