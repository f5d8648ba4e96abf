"""A program on hermes-tools: tools of its own, middleware, an approval policy, and the built-in ones."""

import asyncio
from typing import Annotated, Literal

from msgspec import Meta, Struct

from hermes_messages import ToolCall, ToolMessage
from hermes_messages.protocols import ExecutorOptions, RoundContext, Tool, ToolExecutor
from hermes_messages.testing import InterruptFlag
from hermes_tools import (
    CallContext,
    Executor,
    FunctionTool,
    Handler,
    Invocation,
    Outcome,
    ToolGroup,
    build_executor,
    tool,
)


class Place(Struct):
    """Where it is measured."""

    city: str
    country: str = "DE"


@tool(scheduling="parallel", timeout_s=10)
async def temperature(context: CallContext, place: Place, unit: Literal["C", "F"] = "C") -> str:
    """Measure the temperature."""
    await context.progress(f"asking {place.city}")
    return f"21 {unit} in {place.city}, {place.country}"


@tool
async def add(numbers: Annotated[list[int], Meta(min_length=1)]) -> str:
    """Add numbers."""
    return str(sum(numbers))


DECLARED: FunctionTool = temperature
TOOLS: list[Tool] = [temperature, add]


async def counted(call: Invocation, proceed: Handler) -> Outcome:
    print("called", call.call.name)
    return await proceed(call)


async def run(executor: ToolExecutor, calls: list[ToolCall]) -> list[ToolMessage | None]:
    async def on_result(position: int, message: ToolMessage) -> None:
        print(position, message.status)

    context = RoundContext(
        session_id="s", task_id="t", turn_id="1", cwd=".", interrupt=InterruptFlag(), on_result=on_result
    )
    outcome = await executor.execute(calls, context)
    await executor.close()
    return list(outcome.results)


async def main() -> None:
    calls = [
        ToolCall("c1", "temperature", '{"place": {"city": "Ulm"}}'),
        ToolCall("c2", "add", '{"numbers": [1, 2]}'),
    ]
    results = await run(Executor(own_tools=TOOLS, middleware=[counted]), calls)
    assert [result.content for result in results if result] == ["21 C in Ulm, DE", "3"]
    group = ToolGroup("mine", (add,))
    print(group.name, [member.spec.name for member in group.tools])
    built_in = build_executor(["file", "todo"], ExecutorOptions(cwd=".", own_tools=(temperature,)))
    await built_in.close()


asyncio.run(main())
