from __future__ import annotations

import asyncio
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_messages import ToolMessage
from hermes_messages.testing import FunctionTool, InterruptFlag
from hermes_tools import Executor, ExecutorSettings
from hermes_tools.scheduling import plan_groups

CLASSES = st.sampled_from(["parallel", "sequential", "interactive"])


def test_neighbours_share_a_group_and_barriers_stand_alone() -> None:
    plan = plan_groups(["parallel", "parallel", "sequential", "parallel", "interactive", "sequential"])
    assert plan == [(0, 1), (2,), (3,), (4,), (5,)]
    assert plan_groups([]) == []


@given(st.lists(CLASSES, max_size=30))
def test_every_call_is_planned_once_in_order_and_only_parallel_ones_together(classes: list[Any]) -> None:
    plan = plan_groups(classes)
    assert [position for group in plan for position in group] == list(range(len(classes)))
    assert all(classes[position] == "parallel" for group in plan if len(group) > 1 for position in group)


ENDINGS = st.sampled_from(["text", "error", "cancel", "group", "exit", "ignores", "timeout"])
BATCH = st.lists(st.tuples(CLASSES, ENDINGS, st.integers(0, 4)), min_size=1, max_size=14)


@settings(max_examples=60, deadline=None)
@given(batch=BATCH, limit=st.integers(1, 5), stop=st.none() | st.integers(0, 25), cancel=st.booleans())
def test_order_barriers_limit_and_no_surviving_task(
    batch: list[tuple[Any, str, int]], limit: int, stop: int | None, cancel: bool
) -> None:
    """Random classes, delays and failures, now and then with an interrupt or a cancellation in the middle."""
    running: set[int] = set()
    problems: list[str] = []

    async def body(arguments: Any) -> str:
        position = arguments["n"]
        scheduling, ending, delay = batch[position]
        if running and (scheduling != "parallel" or any(batch[other][0] != "parallel" for other in running)):
            problems.append(f"{position} overlaps {running}")
        running.add(position)
        if len(running) > limit:
            problems.append(f"{len(running)} at once")
        try:
            for _ in range(delay):
                await asyncio.sleep(0)
            return await _end(ending, position)
        finally:
            running.discard(position)

    async def main() -> None:
        tools = [
            FunctionTool(kind, body, scheduling=kind) for kind in ("parallel", "sequential", "interactive")
        ]
        executor = Executor(
            (), tools, settings=ExecutorSettings(parallel_limit=limit, timeout_s=0.02, stop_limit_s=0.02)
        )
        interrupt = InterruptFlag()
        stored: list[int] = []

        async def on_result(position: int, _: ToolMessage) -> None:
            await asyncio.sleep(0)
            stored.append(position)

        from hermes_messages import ToolCall
        from hermes_messages.protocols import RoundContext

        context = RoundContext(
            session_id="s", task_id="t", turn_id="u", cwd="/", interrupt=interrupt, on_result=on_result
        )
        calls = [ToolCall(f"c{n}", kind, f'{{"n": {n}}}') for n, (kind, _, _) in enumerate(batch)]
        round_ = asyncio.ensure_future(executor.execute(calls, context))
        if stop is not None:
            for _ in range(stop):
                await asyncio.sleep(0)
            round_.cancel() if cancel else interrupt.request()
        try:
            outcome = await round_
        except asyncio.CancelledError:
            assert cancel
            assert stop is not None
        else:
            results = outcome.results
            assert [result.tool_call_id for result in results if result] == [call.id for call in calls]
            assert sorted(stored) == list(range(len(calls)))
        finally:
            await executor.close()
        assert not running
        assert asyncio.all_tasks() == {asyncio.current_task()}

    random.seed(0)
    asyncio.run(main())
    assert not problems, problems


async def _end(ending: str, position: int) -> str:
    match ending:
        case "error":
            raise ValueError(str(position))
        case "cancel":
            raise asyncio.CancelledError
        case "group":
            raise ExceptionGroup("g", [ValueError("a"), OSError("b")])
        case "exit":
            raise SystemExit(3)
        case "ignores":
            try:
                await asyncio.sleep(0.001)
            except asyncio.CancelledError:
                return "went on"
        case "timeout":
            await asyncio.Event().wait()
        case _:
            pass
    return str(position)
