"""Work of a session that runs beside the conversation and gives way to it."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Coroutine

__all__ = ["BackgroundWork", "running_turn", "stop_tasks"]

logger: logging.Logger = logging.getLogger(__name__)

running_turn: contextvars.ContextVar[object] = contextvars.ContextVar("running_turn", default=None)
"""The agent in whose turn this code runs, or None."""


class BackgroundWork:
    """Owns the tasks that a host attached to an agent; each is referenced until it is done."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()

    def spawn(self, work: Coroutine[object, object, object], name: str) -> asyncio.Task[object]:
        """Start `work`. It is cancelled before the next turn is admitted, and on close."""
        context = contextvars.copy_context()
        context.run(running_turn.set, None)
        task = asyncio.create_task(work, name=name, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    @property
    def idle(self) -> bool:
        """Whether nothing runs."""
        return not self._tasks

    async def cancel(self, limit_s: float) -> None:
        """Cancel all of it and wait, at most `limit_s` seconds. A task that ignores this is left with a
        warning."""
        if self._tasks:
            await stop_tasks(tuple(self._tasks), limit_s)

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.warning("background work %s failed: %r", task.get_name(), task.exception())


async def stop_tasks(tasks: tuple[asyncio.Task[object], ...], limit_s: float) -> None:
    """Cancel `tasks` and wait until they have ended, at most `limit_s` seconds."""
    if not tasks:
        return
    for task in tasks:
        task.cancel()
    _, still_running = await asyncio.wait(tasks, timeout=limit_s)
    for task in still_running:
        logger.warning(
            "task %s ignored its cancellation for %g s and is left behind", task.get_name(), limit_s
        )
