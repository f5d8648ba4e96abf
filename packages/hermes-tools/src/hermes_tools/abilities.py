"""Whether an object has an optional ability, asked of its class once: a check against a Protocol takes as
long as a small tool runs, and there are several for each agent."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import TypeGuard, TypeVar, cast

__all__ = ["supports"]

P = TypeVar("P")


def supports(thing: object, protocol: Callable[..., P]) -> TypeGuard[P]:
    """`isinstance(thing, protocol)` for a Protocol of methods and properties that has no bases. None takes a
    method back that a class inherits."""
    missing = _not_in_class(cast("type", type(thing)), protocol)
    return not missing or all(_has(thing, name, protocol) for name in missing)


@lru_cache(maxsize=1024)
def _not_in_class(kind: type, protocol: Hashable) -> tuple[str, ...]:
    members = [name for name in vars(protocol) if not name.startswith("_")]
    return tuple(name for name in members if not _has(kind, name, protocol))


def _has(thing: object, name: str, protocol: Hashable) -> bool:
    if not hasattr(thing, name):
        return False
    return getattr(thing, name) is not None or not callable(vars(protocol)[name])
