"""The check passes for a good executor and names each promise that a bad one breaks."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hermes_messages import ToolCall, ToolMessage, ToolSpec
from hermes_messages.argument_text import JsonObject
from hermes_messages.protocols import (
    RoundContext,
    RoundOutcome,
    Scheduling,
    Tool,
    ToolCallContext,
    ToolExecutor,
    ToolSnapshot,
    TurnContext,
)
from hermes_messages.testing import ConformanceError, InterruptFlag, SimpleExecutor, check_executor
from hermes_messages.testing.conformance import executor_checks


class Wrapped:
    """A tool that a bad executor puts something around."""

    def __init__(self, tool: Tool) -> None:
        self.inner = tool

    @property
    def spec(self) -> ToolSpec:
        return self.inner.spec

    @property
    def scheduling(self) -> Scheduling:
        return self.inner.scheduling

    async def run(self, arguments: JsonObject, context: ToolCallContext) -> str:
        return await self.inner.run(arguments, context)


class OpensOnce(SimpleExecutor):
    async def open(self) -> None:
        await super().open()
        if self.open_count > 1:
            raise RuntimeError("already open")


class ListsNothing(SimpleExecutor):
    async def refresh(self, context: TurnContext) -> ToolSnapshot:
        return ToolSnapshot()


class ListsBackwards(SimpleExecutor):
    async def refresh(self, context: TurnContext) -> ToolSnapshot:
        snapshot = await super().refresh(context)
        tools = snapshot.tools[::-1] if len(self.turns) % 2 else snapshot.tools
        return ToolSnapshot(tools=tools)


class AsTheyEnd(SimpleExecutor):
    """Results in the order in which the calls ended."""

    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        ended: list[ToolMessage] = []

        async def on_result(position: int, result: ToolMessage) -> None:
            ended.append(result)
            await context.on_result(position, result)

        await super().execute(calls, msgspec.structs.replace(context, on_result=on_result))
        return RoundOutcome(results=tuple(ended))


class NoEmptyRound(SimpleExecutor):
    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        if not calls:
            raise ValueError("no calls")
        return await super().execute(calls, context)


class TellsAtTheEnd(SimpleExecutor):
    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        told: list[tuple[int, ToolMessage]] = []

        async def on_result(position: int, result: ToolMessage) -> None:
            told.append((position, result))

        outcome = await super().execute(calls, msgspec.structs.replace(context, on_result=on_result))
        for position, result in told:
            await context.on_result(position, result)
        return outcome


class TellsTwice(SimpleExecutor):
    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        async def on_result(position: int, result: ToolMessage) -> None:
            await context.on_result(position, result)
            await context.on_result(position, result)

        return await super().execute(calls, msgspec.structs.replace(context, on_result=on_result))


class AllAtOnce(SimpleExecutor):
    def may_overlap(self, call: ToolCall) -> bool:
        return True


class UnknownIsFatal(SimpleExecutor):
    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        for call in calls:
            if self.find(call.name) is None:
                raise KeyError(call.name)
        return await super().execute(calls, context)


class RunsWithNothing(SimpleExecutor):
    """Broken arguments are read as an empty object."""

    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        mended = [ToolCall(call.id, call.name, readable(call.arguments)) for call in calls]
        return await super().execute(mended, context)


def readable(arguments: str) -> str:
    return arguments if arguments.startswith("{") and arguments.endswith("}") else "{}"


class DropsArguments(SimpleExecutor):
    def __init__(self, tools: Sequence[Tool] = ()) -> None:
        class Without(Wrapped):
            async def run(self, arguments: JsonObject, context: ToolCallContext) -> str:
                return await self.inner.run({}, context)

        super().__init__([Without(tool) for tool in tools])


class FailuresEscape(SimpleExecutor):
    def __init__(self, tools: Sequence[Tool] = ()) -> None:
        self.failures: list[BaseException] = []
        failures = self.failures

        class Noting(Wrapped):
            async def run(self, arguments: JsonObject, context: ToolCallContext) -> str:
                try:
                    return await self.inner.run(arguments, context)
                except Exception as error:
                    failures.append(error)
                    raise

        super().__init__([Noting(tool) for tool in tools])

    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        outcome = await super().execute(calls, context)
        for failure in self.failures:
            raise failure
        return outcome


class SilentErrors(SimpleExecutor):
    """The model is not told why a tool failed."""

    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        async def on_result(position: int, result: ToolMessage) -> None:
            await context.on_result(position, mute(result))

        outcome = await super().execute(calls, msgspec.structs.replace(context, on_result=on_result))
        return RoundOutcome(results=tuple(result and mute(result) for result in outcome.results))


def mute(result: ToolMessage) -> ToolMessage:
    return msgspec.structs.replace(result, content="failed") if result.status == "error" else result


class InTheSameTask(SimpleExecutor):
    """Runs one call after the other in the task that awaits it: a cancellation of a tool's own gets out, an
    interrupt is not seen, and a cancelled round is swallowed."""

    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        results: list[ToolMessage] = []
        for position, call in enumerate(calls):
            tool = self.find(call.name)
            assert tool is not None
            text = await tool.run({}, None)  # type: ignore[arg-type]
            results.append(ToolMessage(call.id, text))
            await context.on_result(position, results[-1])
        return RoundOutcome(results=tuple(results))


class NoInterrupt(SimpleExecutor):
    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        return await super().execute(calls, msgspec.structs.replace(context, interrupt=InterruptFlag()))


class InterruptIsRefusal(SimpleExecutor):
    """Says of every interrupted call that it never ran."""

    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        async def on_result(position: int, result: ToolMessage) -> None:
            await context.on_result(position, never_ran(result))

        outcome = await super().execute(calls, msgspec.structs.replace(context, on_result=on_result))
        return RoundOutcome(results=tuple(result and never_ran(result) for result in outcome.results))


def never_ran(result: ToolMessage) -> ToolMessage:
    return msgspec.structs.replace(result, status="not_started") if result.status == "interrupted" else result


class LeavesToolsRunning(SimpleExecutor):
    """Cancelling a round does not reach its tools."""

    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        return await asyncio.shield(asyncio.ensure_future(super().execute(calls, context)))


class SwallowsCancellation(SimpleExecutor):
    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        try:
            return await super().execute(calls, context)
        except asyncio.CancelledError:
            return RoundOutcome(results=(None,) * len(calls))


class IgnoresOnResult(SimpleExecutor):
    """An exception of `on_result` is swallowed."""

    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        async def on_result(position: int, result: ToolMessage) -> None:
            try:
                await context.on_result(position, result)
            except Exception:  # noqa: BLE001 - a bad executor
                context.interrupt.request()  # type: ignore[attr-defined]

        return await super().execute(calls, msgspec.structs.replace(context, on_result=on_result))


class NamesAnotherTool(SimpleExecutor):
    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        async def on_result(position: int, result: ToolMessage) -> None:
            await context.on_result(position, replace(result, name="another"))

        outcome = await super().execute(calls, replace(context, on_result=on_result))
        named = tuple(result and replace(result, name="another") for result in outcome.results)
        return RoundOutcome(results=named)


class MakesUpTheRound(SimpleExecutor):
    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        return await super().execute(calls, replace(context, task_id="another"))


class TellsNobody(SimpleExecutor):
    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        return await super().execute(calls, replace(context, tool_progress=None))


class ReleasesForGood(SimpleExecutor):
    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        if self.released:
            raise RuntimeError("released")
        return await super().execute(calls, context)


class LeavesATask(SimpleExecutor):
    async def open(self) -> None:
        await super().open()
        self.task = asyncio.ensure_future(asyncio.Event().wait())


BROKEN: list[tuple[Callable[[Sequence[Tool]], ToolExecutor], str]] = [
    (OpensOnce, "open_release_and_close_are_idempotent"),
    (ReleasesForGood, "open_release_and_close_are_idempotent"),
    (LeavesATask, "open_release_and_close_are_idempotent"),
    (ListsNothing, "refresh_lists_the_tools"),
    (ListsBackwards, "refresh_lists_the_tools"),
    (AsTheyEnd, "every_call_gets_one_result_in_order"),
    (NamesAnotherTool, "every_call_gets_one_result_in_order"),
    (MakesUpTheRound, "a_tool_knows_its_call_and_its_round"),
    (TellsNobody, "the_callbacks_of_the_round_are_called"),
    (TellsTwice, "every_call_gets_one_result_in_order"),
    (NoEmptyRound, "an_empty_round_is_nothing"),
    (TellsAtTheEnd, "results_are_told_as_soon_as_they_are_there"),
    (AllAtOnce, "sequential_calls_never_overlap"),
    (UnknownIsFatal, "an_unknown_tool_is_an_error_result"),
    (RunsWithNothing, "bad_arguments_are_an_error_result"),
    (DropsArguments, "arguments_arrive"),
    (FailuresEscape, "a_failing_tool_is_an_error_result"),
    (SilentErrors, "a_failing_tool_is_an_error_result"),
    (InTheSameTask, "a_tool_that_cancels_itself_cancels_nothing_else"),
    (NoInterrupt, "nothing_starts_once_interrupted"),
    (InterruptIsRefusal, "an_interrupt_stops_what_runs"),
    (LeavesToolsRunning, "cancelling_stops_every_tool_and_is_passed_on"),
    (SwallowsCancellation, "cancelling_stops_every_tool_and_is_passed_on"),
    (LeavesToolsRunning, "cancelling_anywhere_leaves_nothing"),
    (IgnoresOnResult, "a_failing_on_result_ends_the_round"),
]


def test_the_simple_executor_passes() -> None:
    asyncio.run(check_executor(SimpleExecutor, limit_s=600))


def test_an_executor_may_be_made_asynchronously() -> None:
    async def make(tools: Sequence[Tool]) -> ToolExecutor:
        await asyncio.sleep(0)
        return SimpleExecutor(tools)

    asyncio.run(check_executor(make, limit_s=600))


@pytest.mark.parametrize(("make", "promise"), BROKEN)
def test_a_broken_promise_is_found(make: Callable[[Sequence[Tool]], ToolExecutor], promise: str) -> None:
    async def main() -> None:
        try:
            await check_executor(make, limit_s=2)
        finally:
            await end_left_tasks()

    with pytest.raises(ConformanceError) as caught:
        asyncio.run(main())
    assert promise in {broken.check for broken in caught.value.broken}


async def end_left_tasks() -> None:
    left: set[asyncio.Task[Any]] = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


def test_every_check_was_seen_to_fail() -> None:
    names = {name for name in vars(executor_checks._ExecutorChecks) if not name.startswith("_")}
    assert names == {promise for _, promise in BROKEN}
