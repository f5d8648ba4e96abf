"""What stands where a message belongs and is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hermes_messages.errors import MessageFormatError

__all__ = ["check_kinds", "no_history", "no_message"]


def no_message(value: object, index: int) -> MessageFormatError:
    """The error to raise for it; `index` is its place among the messages, from 0."""
    hint = "; messages_from_dicts reads dicts" if isinstance(value, Mapping) else ""
    return MessageFormatError(f"a message is needed here, not {type(value).__name__}{hint}", index=index)


def no_history(value: object) -> MessageFormatError:
    """The error to raise for what stands where a `History` belongs, such as a list of dicts."""
    return MessageFormatError(
        f"a History is needed here, not {type(value).__name__}; History.of makes one of messages, and "
        "messages_from_dicts these of dicts"
    )


def check_kinds(values: Sequence[object], kinds: frozenset[type], start: int = 0) -> None:
    """Raise it for the first of `values` that is of none of `kinds`; `start` is the place of the first."""
    if kinds.issuperset(map(type, values)):
        return
    for index, value in enumerate(values, start):
        if not isinstance(value, tuple(kinds)):
            raise no_message(value, index)
