"""What stands where a message belongs and is none."""

from __future__ import annotations

from collections.abc import Mapping

from hermes_messages.errors import MessageFormatError

__all__ = ["no_message"]


def no_message(value: object, index: int) -> MessageFormatError:
    """The error to raise for it; `index` is its place among the messages, from 0."""
    hint = "; messages_from_dicts reads dicts" if isinstance(value, Mapping) else ""
    return MessageFormatError(f"a message is needed here, not {type(value).__name__}{hint}", index=index)
