"""JSON bytes that every host can read."""

from __future__ import annotations

import msgspec

__all__ = ["dump", "whole_characters"]

_encoder = msgspec.json.Encoder()


def dump(value: object) -> bytes:
    """`value` as JSON bytes. Halves of surrogate pairs, which UTF-8 can not hold, become their character
    where they stand beside each other, else U+FFFD."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(_without_halves(value))


def whole_characters(text: str) -> str:
    """`text` with halves of surrogate pairs joined, and U+FFFD for one alone."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _without_halves(value: object) -> object:
    match value:
        case str():
            return whole_characters(value)
        case dict():
            return {_without_halves(key): _without_halves(item) for key, item in value.items()}
        case list():
            return [_without_halves(item) for item in value]
        case _:
            return value
