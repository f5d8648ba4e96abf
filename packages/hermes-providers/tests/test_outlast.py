"""Clean-up of connections is waited for as long as it may take, and no longer."""

from __future__ import annotations

import asyncio

import pytest
from hard_times import deaf, outlasts_a_standstill

from hermes_providers.outlast import finish, join


def test_clean_up_runs_to_its_end_however_often_it_is_cancelled() -> None:
    async def main() -> None:
        steps: list[str] = []

        async def clean_up() -> None:
            for number in range(5):
                await asyncio.sleep(0)
                steps.append(str(number))

        task = asyncio.ensure_future(finish(clean_up(), 5))
        for _ in range(4):
            await asyncio.sleep(0)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert steps == ["0", "1", "2", "3", "4"]

    asyncio.run(main())


def test_error_of_the_clean_up_is_raised() -> None:
    async def broken() -> None:
        raise ValueError("no")

    async def main() -> None:
        await finish(broken(), 5)

    with pytest.raises(ValueError, match="no"):
        asyncio.run(main())


def test_a_process_that_stood_still_gives_clean_up_the_rest_of_its_time() -> None:
    assert asyncio.run(outlasts_a_standstill(lambda work: finish(work(), 300), cancelled=False))


def test_clean_up_that_ignores_everything_is_left_behind_and_told(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        over = asyncio.Event()
        task = asyncio.create_task(deaf(over))
        await join(task, 0.05)
        assert not task.done()
        over.set()
        await task

    asyncio.run(main())
    assert "left behind" in caplog.text
