"""Work that is cancelled is given the time that it may take to clean up."""

from __future__ import annotations

import asyncio

import pytest
from hard_times import stand_still

from hermes_batch.supervision import finish


def test_a_process_that_stood_still_gives_work_the_rest_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes_batch.supervision.PATIENCE_S", 300.0)

    async def main() -> None:
        go_on = asyncio.Event()
        done: list[bool] = []

        async def work() -> None:
            await go_on.wait()
            done.append(True)

        task = asyncio.create_task(finish(work(), what="a write"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        await stand_still()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert done == [True]

    asyncio.run(main())
