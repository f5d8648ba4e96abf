"""Work that is cancelled at its k-th resumption, in the several ways in which a program can be cancelled."""

from __future__ import annotations

import asyncio
import inspect
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Final

import anyio

__all__ = ["WAYS", "Way", "Work", "cancel_an_owned_task", "count_resumptions"]

Work = Coroutine[Any, Any, str | None]


@types.coroutine
def resumed(
    coroutine: Coroutine[Any, Any, str | None], on_resume: Callable[[int], None]
) -> Generator[Any, Any, str | None]:
    """Drive `coroutine`, telling `on_resume` the number of each resumption, from 1, before it happens."""
    number = 0
    value: object = None
    error: BaseException | None = None
    while True:
        number += 1
        on_resume(number)
        try:
            wish = coroutine.send(value) if error is None else coroutine.throw(error)
        except StopIteration as stop:
            outcome: str | None = stop.value
            return outcome
        value, error = None, None
        try:
            value = yield wish
        except BaseException as raised:  # noqa: BLE001 - handed to the coroutine that is driven
            error = raised


async def count_resumptions(work: Work) -> tuple[int, str | None]:
    """How often `work` is resumed, and what it gives."""
    count = 0

    def on_resume(number: int) -> None:
        nonlocal count
        count = number

    outcome = await resumed(work, on_resume)
    return count, outcome


async def cancelled_by_task(work: Work, k: int, again_after: int | None = None) -> bool:
    async def turn() -> str | None:
        task = asyncio.current_task()
        assert task is not None

        def on_resume(number: int) -> None:
            if number in {k, k + again_after if again_after is not None else k}:
                task.cancel()

        return await resumed(work, on_resume)

    task = asyncio.create_task(turn())
    await asyncio.wait({task})
    if not task.cancelled():
        assert task.exception() is None
    return task.cancelled()


async def cancelled_twice(work: Work, k: int) -> bool:
    return await cancelled_by_task(work, k, again_after=2)


async def timed_out(work: Work, k: int) -> bool:
    try:
        async with asyncio.timeout(None) as limit:

            def on_resume(number: int) -> None:
                if number == k:
                    limit.reschedule(asyncio.get_running_loop().time())

            await resumed(work, on_resume)
    except TimeoutError:
        return True
    return False


async def scope_cancelled(work: Work, k: int) -> bool:
    with anyio.CancelScope() as scope:

        def on_resume(number: int) -> None:
            if number == k:
                scope.cancel()

        await resumed(work, on_resume)
    return scope.cancelled_caught


Way = Callable[[Work, int], Awaitable[bool]]
WAYS: Final[tuple[Way, ...]] = (cancelled_by_task, cancelled_twice, timed_out, scope_cancelled)
"""Each cancels at the k-th resumption, and says whether the work was cancelled by that."""


async def cancel_an_owned_task(work: Work, k: int) -> int:
    """Do `work`, and cancel the task in which the k-th resumption of all tasks that it makes comes; how many
    resumptions there were."""
    count = 0

    def on_resume(_: int) -> None:
        nonlocal count
        count += 1
        task = asyncio.current_task()
        if count == k and task is not None:
            task.cancel()

    def factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        if asyncio.current_task() is not None and inspect.iscoroutine(coroutine):
            coroutine = _as_coroutine(resumed(coroutine, on_resume))
        return asyncio.Task(coroutine, loop=loop, **options)

    loop = asyncio.get_running_loop()
    loop.set_task_factory(factory)
    try:
        await work
    except asyncio.CancelledError:
        pass
    finally:
        loop.set_task_factory(None)
    return count


async def _as_coroutine(awaitable: Awaitable[object]) -> object:
    return await awaitable
