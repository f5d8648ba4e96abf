"""Where nothing waits, nothing can be cut short: then no task of its own has to guard the end of a turn."""

from __future__ import annotations

from typing import Protocol

from hermes_messages.abilities import supports

__all__ = ["SupportsIdle", "as_idle"]


class SupportsIdle(Protocol):
    """An executor that knows when it has nothing to release. While it is idle, its `release` and `close`
    return without waiting for anything."""

    def is_idle(self, task_id: str | None = None) -> bool:
        """Whether the task, or no task at all, holds anything now."""
        ...


def as_idle(executor: object) -> SupportsIdle | None:
    """`executor`, if it can tell."""
    return executor if supports(executor, SupportsIdle) else None
