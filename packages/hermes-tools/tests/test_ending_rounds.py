"""A round that is interrupted, cancelled, or can not store its results."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from hermes_messages import (
    HermesError,
    ToolMessage,
)
from hermes_messages.testing import ToolDouble
from hermes_tools import (
    CallContext,
    tool,
)


def test_interrupted_is_told_apart_from_not_started(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        @tool(description="D.")
        async def talks(context: CallContext) -> str:
            await context.progress("half of it")
            await asyncio.Event().wait()
            return ""

        double = ToolDouble("look", scheduling="sequential")
        executor = bench.executor(tools=(talks, double))
        calls = [bench.call("look"), bench.call("talks"), bench.call("look")]
        started = asyncio.Event()
        round_ = asyncio.ensure_future(
            bench.outcome(executor, *calls, tool_progress=lambda *_: started.set())
        )
        await started.wait()
        bench.interrupt.request()
        done, running, waiting = (await round_).results
        assert (done.status, running.status, waiting.status) == ("ok", "interrupted", "not_started")
        assert "Output so far:\nhalf of it" in running.content
        assert "Not run" in waiting.content
        assert len(double.arguments) == 1
        assert [position for position, _ in bench.stored] == [0, 1, 2]
        await executor.close()

    run_async(main())


def test_an_interrupt_before_the_round_starts_nothing(bench: Any) -> None:
    double = ToolDouble("look")
    bench.interrupt.request()
    results = bench.run(bench.call("look"), bench.call("nope"), tools=(double,))
    assert [result.status for result in results] == ["not_started", "not_started"]
    assert not double.arguments


def test_a_tool_that_finishes_although_it_was_interrupted_keeps_its_words(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        started = asyncio.Event()

        @tool(description="D.")
        async def tidy() -> str:
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return "stopped at line 7"
            return ""

        executor = bench.executor(tools=(tidy,))
        round_ = asyncio.ensure_future(bench.outcome(executor, bench.call("tidy")))
        await started.wait()
        bench.interrupt.request()
        [result] = (await round_).results
        assert result.status == "interrupted"
        assert result.content.endswith("stopped at line 7")

    run_async(main())


def test_cancelling_the_round_stops_every_tool_waits_and_raises(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        ended: list[str] = []
        all_started = asyncio.Barrier(3)

        @tool(description="D.", scheduling="parallel")
        async def works(name: str) -> str:
            await all_started.wait()
            try:
                await asyncio.Event().wait()
            finally:
                for _ in range(5):
                    await asyncio.sleep(0)
                ended.append(name)
            return ""

        executor = bench.executor(tools=(works, ToolDouble("look", scheduling="sequential")))
        calls = [bench.call("look"), bench.call("works", {"name": "a"}), bench.call("works", {"name": "b"})]
        round_ = asyncio.ensure_future(bench.outcome(executor, *calls))
        await all_started.wait()
        round_.cancel()
        await asyncio.sleep(0)
        round_.cancel()  # a second time, while the first is being seen to
        with pytest.raises(asyncio.CancelledError):
            await round_
        assert sorted(ended) == ["a", "b"]
        assert [position for position, _ in bench.stored] == [0]
        await executor.close()

    run_async(main())


def test_a_result_that_is_being_stored_gets_there_although_the_round_is_cancelled(
    bench: Any, run_async: Any
) -> None:
    async def main() -> None:
        storing, go_on = asyncio.Event(), asyncio.Event()
        stored: list[int] = []

        async def on_result(position: int, _: ToolMessage) -> None:
            storing.set()
            await go_on.wait()
            stored.append(position)

        executor = bench.executor(tools=(ToolDouble("look"),))
        round_ = asyncio.ensure_future(bench.outcome(executor, bench.call("look"), on_result=on_result))
        await storing.wait()
        round_.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await round_
        assert stored == [0]

    run_async(main())


def test_a_tool_and_a_store_that_both_hang_do_not_swallow_the_cancellation(
    bench: Any, run_async: Any
) -> None:
    async def main() -> None:
        storing, over = asyncio.Event(), asyncio.Event()

        async def on_result(_: int, __: ToolMessage) -> None:
            storing.set()
            while not over.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await over.wait()

        async def deaf() -> str:
            while not over.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await over.wait()
            return ""

        deaf_tool = tool(name="deaf", description="D.", scheduling="parallel")(deaf)
        executor = bench.executor(tools=(deaf_tool, ToolDouble("look")), settings={"stop_limit_s": 0.05})
        calls = [bench.call("deaf"), bench.call("look")]
        round_ = asyncio.ensure_future(bench.outcome(executor, *calls, on_result=on_result))
        await storing.wait()
        round_.cancel()
        with pytest.raises(asyncio.CancelledError):
            await round_
        over.set()
        await executor.close()

    run_async(main())


def test_storing_that_never_ends_does_not_hold_a_cancelled_round_for_ever(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        storing = asyncio.Event()

        async def on_result(_: int, __: ToolMessage) -> None:
            storing.set()
            await asyncio.Event().wait()

        executor = bench.executor(tools=(ToolDouble("look"),), settings={"stop_limit_s": 0.05})
        round_ = asyncio.ensure_future(bench.outcome(executor, bench.call("look"), on_result=on_result))
        await storing.wait()
        round_.cancel()
        with pytest.raises(asyncio.CancelledError):
            await round_

    run_async(main())


def test_a_result_that_can_not_be_stored_ends_the_round_with_that_error(bench: Any, run_async: Any) -> None:
    class DiskFullError(HermesError):
        pass

    async def main() -> None:
        hanging = ToolDouble("hang", [None])

        async def on_result(_: int, __: ToolMessage) -> None:
            await hanging.started()
            raise DiskFullError("disk full")

        later = ToolDouble("later", scheduling="sequential")
        executor = bench.executor(tools=(hanging, ToolDouble("look"), later))
        calls = [bench.call("look"), bench.call("hang"), bench.call("later")]
        with pytest.raises(DiskFullError):
            await bench.outcome(executor, *calls, on_result=on_result)
        assert hanging.cancelled == 1
        assert not later.arguments

    run_async(main())


def test_timeout_of_the_host_around_a_round_is_raised_as_such(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        hanging = ToolDouble("hang", [None])
        executor = bench.executor(tools=(hanging,))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await bench.outcome(executor, bench.call("hang"))
        assert hanging.cancelled == 1

    run_async(main())


def test_the_end_of_the_loop_in_the_middle_of_a_round_leaves_no_noise(bench: Any) -> None:
    hanging = ToolDouble("hang", [None])

    async def main() -> None:
        executor = bench.executor(tools=(hanging,))
        forgotten = asyncio.ensure_future(bench.outcome(executor, bench.call("hang")))
        await hanging.started()
        del forgotten

    asyncio.run(main())
    assert hanging.cancelled == 1
    assert not bench.stored
