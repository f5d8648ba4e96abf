"""How a round hears of an interrupt: it is told by the signal, or a task waits for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from hermes_messages.abilities import supports
from hermes_messages.protocols import InterruptSignal

__all__ = ["InterruptWatch"]

logger: logging.Logger = logging.getLogger(__name__)


class _TellsListeners(Protocol):
    """An `InterruptSignal` that calls whoever wants to know, so that no task has to wait for it."""

    def on_request(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have `listener` called, once, soon after an interrupt is asked for; what takes that back."""
        ...


def _nothing() -> None:
    pass


class InterruptWatch:
    """Calls `listener` once when `signal` is set, until `stop`."""

    __slots__ = ("_forget", "_listener", "_task")

    def __init__(self, signal: InterruptSignal, listener: Callable[[], None]) -> None:
        self._listener = listener
        self._task: asyncio.Task[None] | None = None
        self._forget: Callable[[], object]
        if supports(signal, _TellsListeners):
            self._forget = signal.on_request(listener)
        else:
            self._task = asyncio.create_task(self._wait(signal))
            self._forget = self._task.cancel

    @property
    def waits(self) -> bool:
        """Whether a task has to be awaited when it is over."""
        return self._task is not None

    def stop(self) -> None:
        """Nobody wants to know any more."""
        self._forget()

    async def join(self, limit_s: float) -> None:
        """Wait, at most so long, until nothing of it runs. Safe to run twice."""
        task = self._task
        if task is None:
            return
        await asyncio.wait({task}, timeout=limit_s)
        if task.done() and not task.cancelled() and task.exception() is not None:
            logger.error("waiting for an interrupt failed: %r", task.exception())
        if task.done():
            self._task = None  # it refers to this watch
            self._forget = _nothing

    async def _wait(self, signal: InterruptSignal) -> None:
        await signal.wait()
        self._listener()
