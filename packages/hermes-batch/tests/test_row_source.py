"""The end of the rows, and a run that is cancelled in the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from hermes_batch.rows import Row
from hermes_batch.workers import StopSignal, run_workers


async def cancelled_after(steps: int) -> None:
    """A run whose rows end, and which is cancelled so many turns of the event loop later."""
    loop = asyncio.get_running_loop()
    asked: asyncio.Future[None] = loop.create_future()
    ended: asyncio.Future[list[Row]] = loop.create_future()

    async def rows() -> AsyncGenerator[Row, None]:
        asked.set_result(None)
        for row in await ended:
            yield row

    async def handle(_row: Row) -> None:
        raise AssertionError("there is no row")

    run = asyncio.create_task(
        run_workers(rows(), {0, 1, 2}, handle, num_workers=3, stop=StopSignal(), grace_s=30)
    )
    await asked
    ended.set_result([])
    for _ in range(steps):
        await asyncio.sleep(0)
    run.cancel()
    await run


def test_a_run_that_is_cancelled_as_its_rows_end_is_cancelled_and_nothing_else() -> None:
    ends = []
    for steps in range(60):
        try:
            asyncio.run(cancelled_after(steps))
        except asyncio.CancelledError:
            ends.append("cancelled")
        else:
            ends.append("done")
    assert ends == sorted(ends)  # cancelled in time, or over before it
    assert {"cancelled", "done"} == set(ends)
