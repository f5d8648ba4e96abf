"""What stands in a column of another program's SQLite file, as the type it should have.

SQLite keeps any type in any column, so a row may hold a number where a text belongs, or bytes.
"""

from __future__ import annotations

import math

from hermes_messages import JsonValue
from hermes_store.rows import LARGEST_NUMBER

__all__ = ["as_count", "as_json", "as_number", "as_text", "text_from_bytes"]


def text_from_bytes(data: bytes) -> str:
    """The text, with bytes that are no UTF-8 kept as lone surrogates."""
    return data.decode("utf-8", "surrogateescape")


def as_text(value: object) -> str | None:
    """The value as a text; None for none."""
    if value is None or isinstance(value, str):
        return value
    return text_from_bytes(value) if isinstance(value, bytes) else str(value)


def as_number(value: object) -> float | None:
    """The value as a finite number; None where it is none."""
    if not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def as_count(value: object) -> int | None:
    """The value as a whole number that can be stored; None where it is none."""
    number = value if isinstance(value, int) else as_number(value)
    if number is None or number != int(number) or abs(number) > LARGEST_NUMBER:
        return None
    return int(number)


def as_json(value: object) -> JsonValue:
    """The value as it is, or as a text where JSON has no such value."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, int | float) else as_text(value)
