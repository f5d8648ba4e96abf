"""Short work is finished although the host cancels, and nothing can make the waiter spin or hang."""

from __future__ import annotations

import asyncio
import gc
import logging
from functools import partial

import anyio
import anyio.lowlevel
import pytest
from hard_times import deaf, outlasts_a_standstill

from hermes_loop.shielding import Bounds, abandoned_tasks, finish_despite_cancel

QUICK = Bounds(limit_s=0.2, after_cancel_s=0.1, grace_s=0.05)


class Save:
    """Work that takes a few steps and counts how often it was done."""

    def __init__(self, steps: int = 5) -> None:
        self.steps = steps
        self.done = 0
        self.begun = 0
        self.started = asyncio.Event()

    async def __call__(self) -> str:
        self.begun += 1
        self.started.set()
        for _ in range(self.steps):
            await asyncio.sleep(0)
        self.done += 1
        return "saved"


async def within(timeout: asyncio.Timeout, save: Save) -> None:
    async with timeout:
        await finish_despite_cancel(save)


def test_the_value_of_the_work_comes_back() -> None:
    async def main() -> None:
        assert await finish_despite_cancel(Save()) == "saved"

    asyncio.run(main())


@pytest.mark.parametrize("times", [1, 2, 5])
def test_native_cancels_wait_for_the_work_and_are_raised_once_after_it(times: int) -> None:
    async def main() -> None:
        save = Save(steps=20)
        task = asyncio.create_task(finish_despite_cancel(save))
        await save.started.wait()
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert save.done == 1

    asyncio.run(main())


def test_a_timeout_of_asyncio_stays_a_timeout() -> None:
    async def main() -> None:
        save = Save(steps=2000)
        with pytest.raises(TimeoutError):
            await within(asyncio.timeout(0.001), save)
        assert save.done == 1
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    asyncio.run(main())


def test_a_cancelled_anyio_scope_does_not_reach_the_work() -> None:
    async def main() -> None:
        save = Save(steps=50)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await finish_despite_cancel(save)
            await anyio.lowlevel.checkpoint()
        assert scope.cancelled_caught
        assert save.done == 1

    asyncio.run(main())


def test_a_cancelled_task_group_waits_for_the_work() -> None:
    async def main() -> None:
        save = Save(steps=50)

        async def fail() -> None:
            await save.started.wait()
            raise RuntimeError("sibling")

        async def both() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(finish_despite_cancel(save))
                group.create_task(fail())

        with pytest.raises(ExceptionGroup):
            await both()
        assert save.done == 1

    asyncio.run(main())


def test_the_shutdown_of_the_loop_does_not_lose_the_save() -> None:
    saves: list[Save] = []

    async def main() -> None:
        save = Save(steps=20)
        saves.append(save)
        task = asyncio.create_task(finish_despite_cancel(save))
        await save.started.wait()
        assert not task.done()

    asyncio.run(main())
    assert saves[0].begun == 2
    assert saves[0].done == 1


def test_work_that_ignores_its_cancellation_is_abandoned_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        release = asyncio.Event()
        with pytest.raises(TimeoutError):
            await finish_despite_cancel(partial(deaf, release), QUICK)
        assert abandoned_tasks() == 1
        gc.collect()
        release.set()
        while abandoned_tasks():  # noqa: ASYNC110 - there is nothing to wait for but the loop
            await asyncio.sleep(0)

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert "abandoned" in caplog.text


def test_a_cancel_shortens_the_wait_and_wins_over_the_timeout() -> None:
    async def main() -> None:
        async def hang() -> None:
            await asyncio.get_running_loop().create_future()

        bounds = Bounds(limit_s=60, after_cancel_s=0.05, grace_s=0.05)
        task = asyncio.create_task(finish_despite_cancel(hang, bounds))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert isinstance(caught.value.__cause__, TimeoutError)

    asyncio.run(main())


@pytest.mark.parametrize("cancelled", [True, False])
def test_a_process_that_stood_still_gives_the_work_the_rest_of_its_time(cancelled: bool) -> None:
    bounds = Bounds(limit_s=300, after_cancel_s=300)
    assert asyncio.run(
        outlasts_a_standstill(lambda work: finish_despite_cancel(work, bounds), cancelled=cancelled)
    )


def test_a_failure_of_the_work_is_raised() -> None:
    async def main() -> None:
        async def fail() -> None:
            raise OSError("disk full")

        with pytest.raises(OSError, match="disk full"):
            await finish_despite_cancel(fail)

    asyncio.run(main())


def test_nothing_is_left_running() -> None:
    async def main() -> None:
        save = Save(steps=10)
        task = asyncio.create_task(finish_despite_cancel(save))
        await save.started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
