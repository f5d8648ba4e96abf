"""Waiting for an outcome although the waiter is cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import TypeVar

import anyio

__all__ = ["carry_out", "finish", "retrieve", "settle"]

T = TypeVar("T")
_log = logging.getLogger(__name__)


async def settle(outcome: asyncio.Future[T], limit_s: float) -> bool:
    """Wait until `outcome` is there, at most `limit_s` seconds, however often the waiter is cancelled.

    For use while handling a CancelledError, which the caller raises again. `outcome` must not depend on a
    task of this loop (here a database's thread sets it), so nothing can cancel it meanwhile. Whether it came.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + limit_s
    with anyio.CancelScope(shield=True):
        while not outcome.done():
            left = deadline - clock()
            if left <= 0:
                _log.warning("gave up waiting for the database after %.1f s; its answer is dropped", limit_s)
                outcome.add_done_callback(retrieve)
                return False
            try:
                await asyncio.wait({outcome}, timeout=left)
            except asyncio.CancelledError:
                continue  # the first cancellation is on its way already: the caller raises it
    retrieve(outcome)
    return True


async def finish(work: Awaitable[object], limit_s: float = 5.0) -> None:
    """Run clean-up to its end, at most `limit_s` seconds, while an exception is on its way. A failure of it
    is logged: the exception matters more."""
    task = asyncio.ensure_future(work)
    if not await settle(task, limit_s):
        task.cancel()
    elif not task.cancelled() and task.exception() is not None:
        _log.warning("clean-up failed: %s", task.exception())


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


def retrieve(outcome: asyncio.Future[T]) -> None:
    """Take note of an exception that nobody is left to raise it to."""
    if not outcome.cancelled():
        outcome.exception()
