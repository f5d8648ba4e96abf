"""What wires share that have the system text beside the messages and encode for each model apart."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from hermes_messages import ErrorKind, History, JsonValue, ProviderError, SystemMessage
from hermes_messages.parts import content_text
from hermes_messages.stable_bytes import HistoryJoiner, JoinedHistory

__all__ = ["ModelJoiners", "by_commas", "check_sendable", "count_in", "leading_text", "unsendable"]

_MAX_JOINERS = 16


class ModelJoiners:
    """The joiners of the models used last, each made when its model is first used."""

    __slots__ = ("_joiners", "_make")

    def __init__(self, make: Callable[[str], HistoryJoiner]) -> None:
        self._make = make
        self._joiners: dict[str, HistoryJoiner] = {}

    @property
    def encode_calls(self) -> int:
        """How many segments were encoded so far."""
        return sum(joiner.encode_calls for joiner in self._joiners.values())

    def of(self, model: str) -> HistoryJoiner:
        """The joiner of `model`."""
        joiner = self._joiners.get(model)
        if joiner is None:
            if len(self._joiners) >= _MAX_JOINERS:
                self._joiners.pop(next(iter(self._joiners)))
            joiner = self._joiners[model] = self._make(model)
        return joiner


def by_commas(before: bytes, segment: bytes) -> tuple[bytes, bytes]:
    """The joint of wires whose segments are elements of one list."""
    return (b"," + segment if before else segment), b"."


def leading_text(history: History, joined: JoinedHistory) -> str:
    """The texts of the leading system messages, joined, for a wire that has them beside the messages.

    Raises as `check_sendable`.
    """
    check_sendable(joined)
    messages = history[: len(joined.leading)]
    texts = [content_text(message.content) for message in messages if isinstance(message, SystemMessage)]
    return "\n\n".join(text for text in texts if text.strip())


def check_sendable(joined: JoinedHistory, nothing: str = "nothing to send") -> None:
    """Raises `ProviderError` (format) for a system message that stands behind other messages, and for a
    history that holds `nothing`."""
    if joined.misplaced:
        raise unsendable("a system message stands behind other messages; only the first may be one")
    if not joined.size:
        raise unsendable(f"the conversation holds {nothing}")


def unsendable(reason: str) -> ProviderError:
    """The error for a request that a wire can not carry."""
    return ProviderError(f"{reason}; nothing was sent and nothing was changed", kind=ErrorKind.FORMAT)


def count_in(answer: bytes, name: str) -> int | None:
    """The number of tokens in the field `name` of an answer, or None when it has none."""
    try:
        said: JsonValue = msgspec.json.decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    tokens = said.get(name) if isinstance(said, dict) else None
    return tokens if isinstance(tokens, int) and not isinstance(tokens, bool) else None
