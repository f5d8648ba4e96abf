"""The part of the default engine that does not go through the event loop for nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from hermes_providers.engines.hurry import begin, hurried


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_a_turn_for_others_is_not_taken_but_never_refused_for_ever() -> None:
    async def main() -> None:
        order: list[str] = []

        async def polite(turns: int) -> str:
            for _ in range(turns):
                await asyncio.sleep(0)
            order.append("polite")
            return "done"

        async def other() -> None:
            order.append("other")

        beside = asyncio.create_task(other())
        assert await hurried(polite(3)) == "done"
        assert order == ["polite"]
        assert await hurried(polite(1000)) == "done"
        assert order == ["polite", "other", "polite"]
        await beside

    run(main())


@pytest.mark.parametrize("waits", [False, True])
def test_what_the_work_raises_comes_out(waits: bool) -> None:
    async def main() -> None:
        async def failing() -> None:
            await asyncio.sleep(0.001 if waits else 0)
            raise LookupError("here")

        with pytest.raises(LookupError):
            await hurried(failing())
        if waits:
            task = begin(failing())
            assert task is not None
            with pytest.raises(LookupError):
                await task
        else:
            with pytest.raises(LookupError):
                begin(failing())

    run(main())


def test_a_cancellation_reaches_the_work_which_may_clean_up() -> None:
    async def main() -> None:
        cleaned: list[str] = []

        async def stubborn() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.001)
                cleaned.append("yes")

        async def host() -> None:
            await hurried(stubborn())

        begun = begin(stubborn())
        assert begun is not None
        for task in (asyncio.create_task(host()), begun):
            await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert cleaned == ["yes", "yes"]

    run(main())


def test_a_task_is_made_only_where_the_work_waits() -> None:
    async def main() -> None:
        done: list[int] = []
        arrival = asyncio.get_running_loop().create_future()

        async def work(waits: bool) -> None:
            done.append(1)
            if waits:
                await arrival
            await asyncio.sleep(0)
            done.append(2)

        assert begin(work(False)) is None
        assert done == [1, 2]
        task = begin(work(True))
        assert task is not None
        assert done == [1, 2, 1]
        arrival.set_result(None)
        await task
        assert done == [1, 2, 1, 2]

    run(main())
