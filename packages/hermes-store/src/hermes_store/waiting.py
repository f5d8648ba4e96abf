"""Waiting for an outcome although the waiter is cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from hermes_messages.patience import Patience

__all__ = ["carry_out", "finish", "if_it_fails", "retrieve", "settle"]

T = TypeVar("T")
logger: logging.Logger = logging.getLogger(__name__)


async def settle(outcome: asyncio.Future[T], limit_s: float) -> bool:
    """Wait until `outcome` is there, at most `limit_s` seconds, however often the waiter is cancelled.

    For use while handling a CancelledError, which the caller raises again. `outcome` must not depend on a
    task of this loop (here a database's thread sets it), so nothing can cancel it meanwhile. Whether it came.
    """
    await _wait(outcome, limit_s)
    return outcome.done()


async def finish(work: Awaitable[object], limit_s: float = 5.0) -> None:
    """Run clean-up to its end, at most `limit_s` seconds. A failure of it is logged: the exception that may
    be on its way matters more. Raises only CancelledError, after the work, if a cancellation came meanwhile.
    """
    task = asyncio.ensure_future(work)
    cancelled = await _wait(task, limit_s)
    if not task.done():
        task.cancel()
    elif not task.cancelled() and task.exception() is not None:
        logger.warning("clean-up failed: %s", task.exception())
    if cancelled is not None:
        raise cancelled


async def _wait(outcome: asyncio.Future[T], limit_s: float) -> asyncio.CancelledError | None:
    """Wait until `outcome` is there, at most `limit_s` seconds in which the loop runs; a cancellation that
    came meanwhile."""
    clock = asyncio.get_running_loop().time
    patience = Patience(limit_s)
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not outcome.done() and patience.left_s > 0:
            try:
                await asyncio.wait({outcome}, timeout=patience.begin(clock()))
            except asyncio.CancelledError as error:
                cancelled = error
            patience.end(clock())
    if outcome.done():
        retrieve(outcome)
    else:
        logger.warning("gave up waiting after %.1f s; what comes later is dropped", limit_s)
        outcome.add_done_callback(retrieve)
    return cancelled


async def carry_out(work: Awaitable[T], limit_s: float) -> T:
    """Run `work` to its end although the caller is cancelled meanwhile: then at most `limit_s` seconds, and
    CancelledError is raised."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not await settle(task, limit_s):
            task.cancel()
        raise


def if_it_fails(task: asyncio.Task[None], undo: Callable[[], None]) -> None:
    """Call `undo` when `task` has failed, or was cancelled, if only before its first step."""

    def ended(task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is not None:
            undo()

    task.add_done_callback(ended)


def retrieve(outcome: asyncio.Future[T]) -> None:
    """Take note of an exception that nobody is left to raise it to."""
    if not outcome.cancelled():
        outcome.exception()
