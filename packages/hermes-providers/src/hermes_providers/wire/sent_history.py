"""What wires share that have the system text beside the messages and encode for each model apart."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from hermes_messages import ErrorKind, History, JsonValue, ProviderError, SystemMessage
from hermes_messages.parts import content_text
from hermes_messages.stable_bytes import EncodedHistory, HistoryEncoder

__all__ = ["ModelEncoders", "count_in", "split_system", "unsendable"]

_MAX_ENCODERS = 16


class ModelEncoders:
    """The encoders of the models used last, each made when its model is first used."""

    __slots__ = ("_encoders", "_make")

    def __init__(self, make: Callable[[str], HistoryEncoder]) -> None:
        self._make = make
        self._encoders: dict[str, HistoryEncoder] = {}

    @property
    def encode_calls(self) -> int:
        """How many segments were encoded so far."""
        return sum(encoder.encode_calls for encoder in self._encoders.values())

    def of(self, model: str) -> HistoryEncoder:
        """The encoder of `model`."""
        encoder = self._encoders.get(model)
        if encoder is None:
            if len(self._encoders) >= _MAX_ENCODERS:
                self._encoders.pop(next(iter(self._encoders)))
            encoder = self._encoders[model] = self._make(model)
        return encoder


def split_system(history: History, encoded: EncodedHistory, mark: bytes) -> tuple[str, list[bytes]]:
    """The texts of the leading system messages, joined, and the segments of everything behind them.

    `mark` is what the encoder puts in the place of a system message. Raises `ProviderError` (format) for one
    that stands behind other messages, and for a history with nothing to send.
    """
    segments = [*encoded.closed, encoded.open_tail]
    leading: list[str] = []
    for message in history:
        if not isinstance(message, SystemMessage):
            break
        leading.append(content_text(message.content))
    del segments[: len(leading)]
    if mark in segments:
        raise unsendable("a system message stands behind other messages; only the first may be one")
    sent = [segment for segment in segments if segment]
    if not sent:
        raise unsendable("the conversation holds nothing to send")
    return "\n\n".join(text for text in leading if text.strip()), sent


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
