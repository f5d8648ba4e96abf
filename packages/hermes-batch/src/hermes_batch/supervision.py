"""Owning work that may not obey: bounded in time, cancelled with its owner, and never left unobserved."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from types import CoroutineType
from typing import Any, TypeVar

from hermes_messages.patience import Patience

__all__ = ["OverrunError", "SelfCancelledError", "StoppedError", "finish", "supervised", "until_done"]

logger: logging.Logger = logging.getLogger(__name__)

T = TypeVar("T")

PATIENCE_S = 10.0
"""How long cancelled work may clean up, in seconds in which the loop runs."""
_abandoned: set[asyncio.Future[Any]] = set()


class OverrunError(Exception):
    """The work took longer than it may; it was cancelled."""


class StoppedError(Exception):
    """The event for which the work may be given up came first; the work was cancelled."""


class SelfCancelledError(Exception):
    """The work ended as cancelled although nobody cancelled it."""


async def supervised(
    work: Awaitable[T],
    *,
    what: str,
    limit_s: float | None = None,
    until: asyncio.Event | None = None,
) -> T:
    """The result of `work`, run as a task of its own; `what` names it in the log.

    Past `limit_s` seconds, when `until` is set, or when we are cancelled, the work is cancelled and has
    `PATIENCE_S` seconds to clean up; then it is left to itself with a warning. What it returns in spite of
    that is still its result. Raises what the work raises, `OverrunError`, `StoppedError`,
    `SelfCancelledError`, and `CancelledError` only for a cancellation of our own.
    """
    task = _begun(work)
    try:
        if until is None:
            await until_done(task, limit_s)
        else:
            await _until_done_or_set(task, until, limit_s)
    except asyncio.CancelledError:
        await _end(task, what)
        raise
    by_itself = task.done()
    if not by_itself:
        await _end(task, what)
    if not by_itself and (not task.done() or task.cancelled()):
        raise StoppedError if until is not None and until.is_set() else OverrunError
    if task.cancelled():
        raise SelfCancelledError(f"{what} ended as cancelled, which nobody asked for")
    return await task  # it is done: this does not wait


async def _until_done_or_set(task: asyncio.Future[Any], event: asyncio.Event, limit_s: float | None) -> None:
    watcher = asyncio.get_running_loop().create_task(_wait_for(event))
    try:
        await asyncio.wait({task, watcher}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _end(watcher, "watching for a stop")


async def _wait_for(event: asyncio.Event) -> None:
    await event.wait()


async def until_done(task: asyncio.Future[Any], limit_s: float | None = None) -> None:
    """Wait until `task` is done, at most so many seconds; it goes on when we are cancelled.

    `asyncio.wait` does the same for any number of tasks, with four times the calls, and every row waits for
    one task or another several times.
    """
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()

    def wake(_: object = None) -> None:
        if not waiter.done():
            waiter.set_result(None)

    timer = None if limit_s is None else loop.call_later(limit_s, wake)
    task.add_done_callback(wake)
    try:
        await waiter
    finally:
        task.remove_done_callback(wake)
        if timer is not None:
            timer.cancel()


def _begun(work: Awaitable[T]) -> asyncio.Future[T]:
    """`asyncio.ensure_future`, which asks coroutines, too, what they are."""
    if isinstance(work, CoroutineType):
        return asyncio.get_running_loop().create_task(work)
    return asyncio.ensure_future(work)


async def finish(work: Awaitable[T], *, what: str) -> T:
    """The result of `work`, which is brought to its end although we are cancelled meanwhile.

    The cancellation is raised after the work, or after `PATIENCE_S` seconds, when the work is left to itself
    with a warning. For short work that must not stop half-way: a write, a rename.
    """
    task = _begun(work)
    try:
        await until_done(task)
    except asyncio.CancelledError:
        await _await_end(task, what)
        raise
    return await task  # it is done: this does not wait


async def _end(task: asyncio.Future[Any], what: str) -> None:
    task.cancel()
    await _await_end(task, what)


async def _await_end(task: asyncio.Future[Any], what: str) -> None:
    """Wait for `task`, at most `PATIENCE_S` seconds in which the loop runs; a cancellation that comes
    meanwhile is raised at the end."""
    patience_s = PATIENCE_S
    clock, patience = asyncio.get_running_loop().time, Patience(patience_s)
    cancelled: asyncio.CancelledError | None = None
    while not task.done() and patience.left_s > 0:
        try:
            await asyncio.wait({task}, timeout=patience.begin(clock()))
        except asyncio.CancelledError as error:
            cancelled = error
        patience.end(clock())
    if not task.done():
        logger.warning("%s did not end %g s after its cancellation; it is left to itself", what, patience_s)
        _abandoned.add(task)
        task.add_done_callback(_abandoned.discard)
    task.add_done_callback(_observe)
    if cancelled is not None:
        raise cancelled


def _observe(task: asyncio.Future[Any]) -> None:
    """Look at how a task ended, so that no failure is reported as one that nobody saw."""
    if not task.cancelled() and task.exception() is not None:
        logger.debug("a cancelled task failed", exc_info=task.exception())
