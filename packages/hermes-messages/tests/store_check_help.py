"""How it is seen that the check of stores finds a promise that is broken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from hermes_messages.protocols import SessionStore
from hermes_messages.testing import ConformanceError, check_store

__all__ = ["assert_found", "checks_of"]


def assert_found(make: Callable[[], SessionStore], promise: str) -> None:
    """The check says that the store which `make` makes breaks `promise`, maybe among others."""
    with pytest.raises(ConformanceError) as caught:
        asyncio.run(check_store(make, limit_s=5))
    assert promise in {broken.check for broken in caught.value.broken}


def checks_of(*groups: type) -> set[str]:
    """The names of all checks in these classes."""
    return {name for group in groups for name in vars(group) if not name.startswith("_")}
