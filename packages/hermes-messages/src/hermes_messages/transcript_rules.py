"""The states of a transcript, the events that messages are, and the table of what may follow what.

Nothing outside this module decides what may follow what.
"""

from __future__ import annotations

from enum import StrEnum

from hermes_messages.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from hermes_messages.parts import TextPart, content_text

__all__ = ["TRANSITIONS", "Event", "Rule", "State", "event_of", "is_blank"]


class State(StrEnum):
    """Where a transcript stands."""

    EMPTY = "empty"
    PRIMED = "primed"
    ASKED = "asked"
    RESULTS_OWED = "results_owed"
    RESULTS_GIVEN = "results_given"
    ANSWERED = "answered"


class Event(StrEnum):
    """What a message is to the table."""

    SYSTEM = "system"
    USER = "user"
    TEXT = "text"
    CALLS = "calls"
    RESULT = "result"
    LAST_RESULT = "last_result"


TRANSITIONS: dict[State, dict[Event, State]] = {
    State.EMPTY: {Event.SYSTEM: State.PRIMED, Event.USER: State.ASKED},
    State.PRIMED: {Event.USER: State.ASKED},
    State.ASKED: {Event.USER: State.ASKED, Event.TEXT: State.ANSWERED, Event.CALLS: State.RESULTS_OWED},
    State.RESULTS_OWED: {Event.RESULT: State.RESULTS_OWED, Event.LAST_RESULT: State.RESULTS_GIVEN},
    State.RESULTS_GIVEN: {
        Event.USER: State.ASKED,
        Event.TEXT: State.ANSWERED,
        Event.CALLS: State.RESULTS_OWED,
    },
    State.ANSWERED: {Event.USER: State.ASKED},
}


class Rule(StrEnum):
    """The rules of a transcript, as `InvariantError.rule` names them."""

    ONE_SYSTEM_FIRST = "one_system_message_first"
    USER_BEFORE_ANSWER = "user_before_answer"
    RESULTS_OWED = "results_owed"
    ANSWER_ONCE = "one_answer_at_a_time"
    NO_EMPTY_ANSWER = "no_empty_answer"
    RESULT_NEEDS_CALL = "result_needs_open_call"
    UNIQUE_CALL_IDS = "unique_call_ids_in_round"
    CALL_NEEDS_NAME = "call_needs_name"
    CALL_NEEDS_ID = "call_needs_id"


def is_blank(message: AssistantMessage) -> bool:
    """Whether an assistant message has neither calls nor anything to show."""
    if message.tool_calls or message.refusal:
        return False
    if isinstance(message.content, tuple) and not all(isinstance(part, TextPart) for part in message.content):
        return False
    return not content_text(message.content).strip()


def event_of(message: Message, open_calls: int) -> Event:
    """The event that `message` is when `open_calls` results are still owed."""
    match message:
        case SystemMessage():
            return Event.SYSTEM
        case UserMessage():
            return Event.USER
        case AssistantMessage():
            return Event.CALLS if message.tool_calls else Event.TEXT
        case ToolMessage():
            return Event.LAST_RESULT if open_calls <= 1 else Event.RESULT
