"""Ratios for hermes-tools: what the executor costs per call, against a bare TaskGroup that does the same.

Run with `uv run benchmarks/bench_tools.py`. Each figure is the least of some runs, in processor time of this
process, so that what else the machine does plays no part; both sides run in one process, one after the other.

"The same" is: at most 8 calls at once, the arguments read as JSON, the tool run with them, its result handed
to an async function. The executor also fits arguments to the schema, applies the policy, counts failures,
limits, cleans and orders results, and can stop any call at any moment. For comparison the last rows say what
a TaskGroup takes that only awaits the tool's function, without a limit, arguments, results or anybody who is
told of them, and one whose tasks do nothing: against these the executor's ratio is larger.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Awaitable, Callable
from functools import partial

from hermes_messages import ToolCall, ToolMessage
from hermes_messages.protocols import RoundContext, ToolCallContext
from hermes_messages.testing import InterruptFlag
from hermes_tools import CallContext, Executor, FunctionTool, tool

CALLS = 10_000
RUNS = 7
LIMIT = 8


@tool(description="Do nothing.", scheduling="parallel")
async def nothing() -> str:
    return "done"


@tool(description="Look at some arguments.", scheduling="parallel")
async def look(path: str, limit: int = 200, deep: bool = False) -> str:  # noqa: ARG001 - they are read, not used
    return "done"


async def on_result(position: int, message: ToolMessage) -> None:
    """Where a result would become durable."""


def context() -> RoundContext:
    return RoundContext(
        session_id="s", task_id="t", turn_id="u", cwd="/", interrupt=InterruptFlag(), on_result=on_result
    )


async def bare(used: FunctionTool, calls: list[ToolCall]) -> None:
    """A TaskGroup that does the same."""
    limit = asyncio.Semaphore(LIMIT)
    results: list[ToolMessage | None] = [None] * len(calls)
    given = context()

    async def one(position: int, call: ToolCall) -> None:
        async with limit:
            where: ToolCallContext = CallContext(call, given, resources=None)  # type: ignore[arg-type]
            text = await used.run(json.loads(call.arguments), where)
            result = results[position] = ToolMessage(call.id, text, name=call.name)
            await on_result(position, result)

    async with asyncio.TaskGroup() as group:
        for position, call in enumerate(calls):
            group.create_task(one(position, call))


async def empty(count: int) -> None:
    async def one() -> str:
        return "done"

    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(one())


async def only_awaited(used: FunctionTool, arguments: dict[str, object]) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(CALLS):
            group.create_task(used.function(**arguments))  # type: ignore[arg-type]


async def least(work: Callable[[], Awaitable[object]]) -> float:
    """Microseconds per call."""
    best = float("inf")
    for _ in range(RUNS):
        gc.collect()
        began = time.process_time()
        await work()
        best = min(best, time.process_time() - began)
    return best / CALLS * 1e6


async def main() -> None:
    """Print the table."""
    executor = Executor((), (nothing, look))
    print(f"{CALLS} parallel-safe calls, microseconds per call")
    for used, typed, given in (
        (nothing, "{}", "{}"),
        (look, '{"path": "a.py", "limit": 200}', '{"path": "a.py", "limit": "200"}'),
    ):
        name = used.spec.name
        base = await least(partial(bare, used, [ToolCall(f"c{n}", name, typed) for n in range(CALLS)]))
        calls = [ToolCall(f"c{n}", name, given) for n in range(CALLS)]
        ours = await least(partial(executor.execute, calls, context()))
        print(f"{name:<10} bare {base:6.1f}   executor {ours:6.1f}   ratio {ours / base:.2f}")
    awaited = await least(partial(only_awaited, look, {"path": "a.py", "limit": 200}))
    print(f"{'(awaited)':<10} only  {awaited:5.1f}")
    tasks = await least(partial(empty, CALLS))
    print(f"{'(tasks)':<10} empty {tasks:5.1f}")
    await executor.close()


if __name__ == "__main__":
    asyncio.run(main())
