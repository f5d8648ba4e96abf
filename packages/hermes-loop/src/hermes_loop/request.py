"""What a host asks for with a turn, read and checked before any side effect. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hermes_loop.turn_state import TurnRequest
from hermes_messages import ConfigurationError, JsonValue, UserMessage
from hermes_messages.hygiene import clean_text
from hermes_messages.openai_shape import messages_from_dicts

__all__ = ["read_request"]


def read_request(
    user_message: str | UserMessage,
    system_message: str | None,
    history: Sequence[Mapping[str, JsonValue]] | None,
) -> TurnRequest:
    """Raises `ConfigurationError`, `MessageFormatError`."""
    if isinstance(user_message, str):
        user_message = UserMessage(clean_text(user_message))
    if not isinstance(user_message, UserMessage):
        raise ConfigurationError(
            f"the user message must be text or a UserMessage, not {type(user_message).__name__}"
        )
    if isinstance(user_message.content, str) and not user_message.content.strip():
        raise ConfigurationError("the user message is empty")
    return TurnRequest(
        user_message=user_message,
        system_message=system_message,
        history=None if history is None else messages_from_dicts(history),
    )
