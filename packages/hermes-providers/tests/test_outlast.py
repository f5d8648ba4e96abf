"""Clean-up of connections is waited for as long as it may take, and no longer."""

from __future__ import annotations

import asyncio

import pytest

from hermes_providers.outlast import finish, join


def test_a_process_that_stood_still_gives_clean_up_the_rest_of_its_time() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        stood_still_s, before = 0.0, loop.time
        loop.time = lambda: before() + stood_still_s  # type: ignore[method-assign]
        go_on = asyncio.Event()
        done: list[bool] = []

        async def work() -> None:
            await go_on.wait()
            done.append(True)

        task = asyncio.create_task(finish(work(), 300))
        await asyncio.sleep(0)
        stood_still_s = 3600.0
        for _ in range(10):
            await asyncio.sleep(0)
        go_on.set()
        await task
        assert done == [True]

    asyncio.run(main())


def test_clean_up_that_ignores_everything_is_left_behind_and_told(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        over = asyncio.Event()

        async def deaf() -> None:
            while not over.is_set():
                try:
                    await over.wait()
                except asyncio.CancelledError:
                    continue

        task = asyncio.create_task(deaf())
        await join(task, 0.05)
        assert not task.done()
        over.set()
        await task

    asyncio.run(main())
    assert "left behind" in caplog.text
