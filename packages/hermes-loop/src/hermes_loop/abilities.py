"""Whether an object has methods. `isinstance` with a Protocol looks through all of both each time."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

__all__ = ["has_method", "has_methods"]


def _has(thing: object, name: str) -> bool:
    return hasattr(thing, name) and getattr(thing, name) is not None


_class_has: Callable[[type, str], bool] = lru_cache(maxsize=256)(_has)


def has_method(thing: object, name: str) -> bool:
    """Whether `thing` has it, by its class or by itself. None takes back what a class inherits."""
    return _class_has(type(thing), name) or _has(thing, name)


def has_methods(thing: object, *names: str) -> bool:
    """Whether `thing` has all of them."""
    return all(has_method(thing, name) for name in names)
