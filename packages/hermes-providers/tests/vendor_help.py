"""What the types of the vendors' own libraries make of a request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["settled"]


def settled(value: Any) -> Any:
    """What the library's validators gave, with their lazy sequences read to the end."""
    match value:
        case dict():
            return {key: settled(item) for key, item in value.items()}
        case str() | bytes():
            return value
        case _ if isinstance(value, list | tuple | Iterator):
            return [settled(item) for item in value]
        case _:
            return value
