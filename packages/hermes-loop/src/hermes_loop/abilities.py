"""Whether an object has a method. `isinstance` with a Protocol looks through all of it each time."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

__all__ = ["has_method"]

_class_has: Callable[[type, str], bool] = lru_cache(maxsize=256)(hasattr)


def has_method(thing: object, name: str) -> bool:
    """Whether `thing` has it, by its class or by itself."""
    return _class_has(type(thing), name) or hasattr(thing, name)
