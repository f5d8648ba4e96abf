"""What a host asks for with a turn, read and checked before any side effect. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hermes_loop.checks import check_callback, check_text, check_user_message
from hermes_loop.phases.normalize import usable_calls
from hermes_loop.turn_state import ResumeRequest, TurnRequest
from hermes_messages import ConfigurationError, JsonValue, ToolCall, UserMessage
from hermes_messages.approvals import ApprovalAnswer, read_decision
from hermes_messages.hygiene import clean_text
from hermes_messages.openai_shape import messages_from_dicts
from hermes_messages.protocols import StreamCallback

__all__ = ["check_turn_arguments", "read_decisions", "read_request"]


def read_request(
    user_message: str | UserMessage,
    system_message: str | None,
    history: Sequence[Mapping[str, JsonValue]] | None,
    prelude: Sequence[ToolCall] = (),
) -> TurnRequest:
    """Raises `ConfigurationError`, `MessageFormatError`."""
    if isinstance(user_message, str):
        user_message = UserMessage(clean_text(user_message))
    check_user_message(user_message)
    check_text("system_message", system_message)
    if history is not None and (
        isinstance(history, str | bytes | Mapping) or not isinstance(history, Iterable)
    ):
        raise ConfigurationError(
            f"conversation_history must be a list of message dicts, not {type(history).__name__}"
        )
    return TurnRequest(
        user_message=user_message,
        system_message=system_message,
        history=None if history is None else messages_from_dicts(history),
        prelude=_read_prelude(prelude),
    )


def _read_prelude(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """Calls that may stand in one round, each with an id of its own. Raises `ConfigurationError`."""
    given = tuple(calls)
    others: list[object] = [call for call in given if not _is_named_call(call)]
    if others:
        raise ConfigurationError(f"prelude must hold ToolCalls with a name and texts, not {others[0]!r:.100}")
    return usable_calls(given)


def _is_named_call(value: object) -> bool:
    if not isinstance(value, ToolCall):
        return False
    texts: tuple[object, ...] = (value.id, value.name, value.arguments)
    return all(isinstance(text, str) for text in texts) and bool(value.name.strip())


def read_decisions(decisions: Mapping[str, ApprovalAnswer | Mapping[str, JsonValue]]) -> ResumeRequest:
    """Raises `ConfigurationError`."""
    given: object = decisions
    if not isinstance(given, Mapping) or not given:
        raise ConfigurationError("decisions must be a dict of call ids and decisions, with at least one")
    return ResumeRequest(decisions={call_id: read_decision(value) for call_id, value in decisions.items()})


def check_turn_arguments(task_id: str | None, stream_callback: StreamCallback | None) -> None:
    """Raises `ConfigurationError`."""
    check_text("task_id", task_id, filled=True)
    check_callback("stream_callback", stream_callback)
