"""Waiting for clean-up that a cancellation must not tear in two.

A second `task.cancel()` interrupts clean-up that awaits. So such work runs in a task of its own, which is
waited for, whoever cancels the waiting one meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import anyio

from hermes_messages.patience import Patience

__all__ = ["finish", "join"]

logger: logging.Logger = logging.getLogger(__name__)
_abandoned: set[asyncio.Task[None]] = set()
"""Tasks that did not end in time; held so that they are not collected while they run."""


async def finish(work: Coroutine[Any, Any, None], limit_s: float) -> None:
    """Run `work` to its end whoever cancels the caller meanwhile, then raise that cancellation again.

    Past `limit_s` seconds it is cancelled, and left behind with a warning when it ignores that as well.
    """
    await join(asyncio.create_task(work), limit_s)


async def join(task: asyncio.Task[None], limit_s: float) -> None:
    """`finish` for a task that runs already and ends by itself."""
    cancelled = await _wait(task, limit_s)
    if not task.done():
        task.cancel()
        await _outlast(task, limit_s)
    if cancelled is not None:
        raise cancelled
    if not task.cancelled() and task.done():
        task.result()


async def _outlast(task: asyncio.Task[None], limit_s: float) -> None:
    cancelled = await _wait(task, limit_s)
    if not task.done():
        logger.warning("clean-up of a connection did not end within %s s; it was left behind", limit_s)
        _abandoned.add(task)
        task.add_done_callback(_abandoned.discard)
    if cancelled is not None:
        raise cancelled


async def _wait(task: asyncio.Task[None], limit_s: float) -> asyncio.CancelledError | None:
    """Wait for `task`, at most `limit_s` seconds in which the loop runs; returns a cancellation that came
    meanwhile."""
    if task.done():
        return None
    clock = asyncio.get_running_loop().time
    patience = Patience(limit_s)
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):  # holds off anyio's scopes; the loop holds off task.cancel()
        while not task.done() and patience.left_s > 0:
            try:
                await asyncio.wait({task}, timeout=patience.begin(clock()))
            except asyncio.CancelledError as error:
                cancelled = error
            patience.end(clock())
    return cancelled
