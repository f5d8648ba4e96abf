"""Finishing a short clean-up although the task that needs it is being cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import anyio

from hermes_messages.patience import Patience

__all__ = ["finish_despite_cancel"]

logger: logging.Logger = logging.getLogger(__name__)

_GRACE_S = 0.5
_abandoned: set[asyncio.Task[None]] = set()


async def finish_despite_cancel(work: Callable[[], Coroutine[Any, Any, None]], limit_s: float) -> None:
    """Run `work()` to its end, at most `limit_s` seconds in which the loop runs, whoever cancels us
    meanwhile.

    `work` must be safe to run twice: when the loop's shutdown cancels it, it is started once more. Past the
    limit it is cancelled, given a moment, and then left behind with a warning. Raises CancelledError after
    the work if a cancellation came meanwhile, TimeoutError past the limit, else what the work raised.
    """
    clock = asyncio.get_running_loop().time
    patience = Patience(limit_s)
    task = asyncio.create_task(work())
    cancelled: asyncio.CancelledError | None = None
    started_again = False
    with anyio.CancelScope(shield=True):  # holds off anyio's scopes; the `except` holds off task.cancel()
        while not task.done() and patience.left_s > 0:
            try:
                await asyncio.wait({task}, timeout=patience.begin(clock()))
            except asyncio.CancelledError as error:
                cancelled = error
            patience.end(clock())
            if task.done() and task.cancelled() and not started_again:
                started_again = True
                task = asyncio.create_task(work())
        if not task.done():
            task.cancel()
            try:
                await asyncio.wait({task}, timeout=_GRACE_S)
            except asyncio.CancelledError as error:
                cancelled = error
    failure = _failure_of(task, limit_s)
    if cancelled is not None:
        raise cancelled from failure
    if failure is not None:
        raise failure


def _failure_of(task: asyncio.Task[None], limit_s: float) -> BaseException | None:
    if not task.done():
        _abandoned.add(task)
        task.add_done_callback(_forget)
        logger.warning("a clean-up did not end within %g s and was left behind: %r", limit_s, task)
        return TimeoutError(f"a clean-up did not end within {limit_s:g} s")
    if task.cancelled():
        return TimeoutError(f"a clean-up was cancelled before its end (limit {limit_s:g} s)")
    return task.exception()


def _forget(task: asyncio.Task[None]) -> None:
    _abandoned.discard(task)
    if not task.cancelled() and task.exception() is not None:
        logger.warning("a clean-up that was left behind failed: %r", task.exception())
