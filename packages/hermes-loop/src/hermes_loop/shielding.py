"""Finish short work although the host cancels us meanwhile.

`anyio.CancelScope(shield=True)` holds off anyio scopes but no `task.cancel()`; so the work runs in a task of
its own, and the waiter remembers a cancellation and raises it afterwards.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Final, TypeVar

import anyio
from msgspec import Struct
from msgspec.structs import replace

from hermes_messages.patience import Patience

__all__ = ["DEFAULT_BOUNDS", "Bounds", "abandoned_tasks", "finish_despite_cancel", "is_being_cancelled"]

logger: logging.Logger = logging.getLogger(__name__)
T = TypeVar("T")


class Bounds(Struct, frozen=True, kw_only=True):
    """How long work may take, in seconds: `limit_s` in all, `after_cancel_s` once a cancellation came,
    and `grace_s` to react to being cancelled itself before it is abandoned.

    Only time in which the event loop runs counts: of a moment in which the process stands still (it was
    stopped, its machine slept), the first half second."""

    limit_s: float = 30.0
    after_cancel_s: float = 5.0
    grace_s: float = 1.0

    def cancelled(self) -> Bounds:
        """The bounds of work that begins when a cancellation has come already."""
        return replace(self, limit_s=min(self.limit_s, self.after_cancel_s))


DEFAULT_BOUNDS: Final = Bounds()

_abandoned: set[asyncio.Task[object]] = set()
_runs: set[asyncio.Task[object]] = set()


def abandoned_tasks() -> int:
    """How many tasks ignored their cancellation and are still running; they are kept alive until done."""
    return len(_abandoned)


class _Waiter:
    """Waits for one task at a time, remembers cancellations, keeps to the limit."""

    def __init__(self, bounds: Bounds) -> None:
        self._clock = asyncio.get_running_loop().time
        self._bounds = bounds
        self._patience = Patience(bounds.limit_s)
        self.cancelled: asyncio.CancelledError | None = None

    async def wait(self, task: asyncio.Task[T]) -> bool:
        """Wait until `task` is done or no time is left; whether it is done."""
        while not task.done() and self._patience.left_s > 0:
            await self._wait_once(task)
        return task.done()

    async def stop(self, task: asyncio.Task[T]) -> bool:
        """Cancel `task` once and wait one grace for it; whether it is done."""
        task.cancel()
        self._patience = Patience(self._bounds.grace_s)
        return await self.wait(task)

    async def _wait_once(self, task: asyncio.Task[T]) -> None:
        is_first = False
        try:
            await asyncio.wait({task}, timeout=self._patience.begin(self._clock()))
        except asyncio.CancelledError as error:
            is_first, self.cancelled = self.cancelled is None, error
        self._patience.end(self._clock())
        if is_first:
            self._patience.shorten(self._bounds.after_cancel_s)


async def finish_despite_cancel(
    work: Callable[[], Coroutine[object, object, T]], bounds: Bounds = DEFAULT_BOUNDS
) -> T:
    """Run `work()` to its end within `bounds`, whoever cancels us meanwhile; its value.

    `work` must be idempotent: when its task is cancelled by others before the deadline (the shutdown of the
    event loop cancels every task), it is run once more. Work that ignores its own cancellation past the
    deadline is abandoned with a warning and kept referenced until it ends.

    Raises CancelledError after the work if a cancellation came, TimeoutError past the deadline, and
    whatever the work raises.
    """
    with anyio.CancelScope(shield=True):
        waiter = _Waiter(bounds)
        task = _start(work)
        in_time = await waiter.wait(task)
        if in_time and task.cancelled():
            task = _start(work)
            in_time = await waiter.wait(task)
        if not in_time and not await waiter.stop(task):
            _abandon(task)
    failure = _failure_of(task, in_time=in_time)
    if waiter.cancelled is not None:
        raise waiter.cancelled from failure
    if failure is None and task.done():
        return task.result()
    assert failure is not None
    raise failure


def is_being_cancelled() -> bool:
    """Whether somebody cancelled the task that runs. A CancelledError without it is a failure of what was
    awaited: of another task that was cancelled, for example."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _start(work: Callable[[], Coroutine[object, object, T]]) -> asyncio.Task[T]:
    task = asyncio.create_task(work())
    _runs.add(task)
    task.add_done_callback(_runs.discard)
    return task


def _abandon(task: asyncio.Task[T]) -> None:
    _abandoned.add(task)
    task.add_done_callback(_forget)
    logger.warning("work that must be short ignored its cancellation and was abandoned: %r", task.get_coro())


def _forget(task: asyncio.Task[T]) -> None:
    _abandoned.discard(task)
    if not task.cancelled() and task.exception() is not None:
        logger.warning("abandoned work failed in the end: %r", task.exception())


def _failure_of(task: asyncio.Task[T], *, in_time: bool) -> BaseException | None:
    if not in_time:
        if task.done() and not task.cancelled():
            task.exception()  # looked at, so that asyncio does not report it as never retrieved
        return TimeoutError("the work did not finish within its time limit")
    if task.cancelled():
        return asyncio.CancelledError()
    return task.exception()
