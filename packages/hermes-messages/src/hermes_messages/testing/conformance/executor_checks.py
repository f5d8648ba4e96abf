"""What every `ToolExecutor` must do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec.structs import replace

from hermes_messages.argument_text import JsonObject
from hermes_messages.messages import ToolCall, ToolMessage
from hermes_messages.protocols.tools import (
    RoundContext,
    RoundOutcome,
    Tool,
    ToolCallContext,
    ToolExecutor,
)
from hermes_messages.testing.conformance.report import (
    CANCEL_POINTS,
    UnmetError,
    cancel_after,
    expect,
    finish_within,
    made,
    run_checks,
)
from hermes_messages.testing.conformance.rounds import (
    OnResultError,
    RoundUnderCheck,
    check_outcome,
    no_new_tasks,
    statuses_of,
    texts_of,
    tool_call,
    turn_context,
)
from hermes_messages.testing.interrupt import StepGate
from hermes_messages.testing.tools import ToolDouble

__all__ = ["MakeExecutor", "check_executor"]

MakeExecutor = Callable[[Sequence[Tool]], ToolExecutor | Awaitable[ToolExecutor]]
"""Makes an executor with these tools."""


async def check_executor(make_executor: MakeExecutor, *, limit_s: float = 20.0) -> None:
    """Check the promises of `ToolExecutor`. Raises `ConformanceError`, which lists the broken ones.

    `make_executor` makes a new executor that runs at least the tools it is given, without asking for
    approvals. Each check takes at most `limit_s` seconds.
    """
    await run_checks("ToolExecutor", _ExecutorChecks(make_executor, limit_s), limit_s)


class _CancelsItself(ToolDouble):
    """A tool that ends with a cancellation that nobody asked for."""

    async def run(self, arguments: JsonObject, context: ToolCallContext) -> str:
        await super().run(arguments, context)
        raise asyncio.CancelledError


class _Asks(ToolDouble):
    """A tool that looks at its context and tells of progress."""

    def __init__(self, name: str) -> None:
        super().__init__(name, scheduling="sequential")
        self.calls: list[ToolCall] = []
        self.rounds: list[RoundContext] = []

    async def run(self, arguments: JsonObject, context: ToolCallContext) -> str:
        self.calls.append(context.call)
        self.rounds.append(context.round)
        await context.progress("half")
        return await super().run(arguments, context)


class _ExecutorChecks:
    def __init__(self, make_executor: MakeExecutor, limit_s: float) -> None:
        self._make = make_executor
        self._limit_s = limit_s

    async def _opened(self, *tools: Tool) -> ToolExecutor:
        executor = await made(self._make(tools))
        await executor.open()
        await executor.refresh(turn_context())
        return executor

    async def _execute(
        self, executor: ToolExecutor, round_: RoundUnderCheck, *calls: ToolCall
    ) -> RoundOutcome:
        work = executor.execute(calls, round_.context)
        outcome = await finish_within(work, self._limit_s / 2, "execute()")
        round_.returned = True
        check_outcome(calls, outcome, round_)
        return outcome

    async def open_release_and_close_are_idempotent(self) -> None:
        before = asyncio.all_tasks()
        executor = await self._opened(ToolDouble("echo"))
        await executor.open()
        for task_id in ("never seen", "never seen", "check-task", "check-task"):
            await executor.release(task_id)
        outcome = await self._execute(executor, RoundUnderCheck(), tool_call("a", "echo"))
        expect(statuses_of(outcome) == ["ok"], f"after release() a call came to {statuses_of(outcome)}")
        await executor.close()
        await executor.close()
        await no_new_tasks(before, "close()")

    async def refresh_lists_the_tools(self) -> None:
        tools = [ToolDouble("alpha", description="first"), ToolDouble("beta")]
        executor = await made(self._make(tools))
        await executor.open()
        first, again = await executor.refresh(turn_context()), await executor.refresh(turn_context())
        names = [spec.name for spec in first.tools]
        expect({"alpha", "beta"} <= set(names), f"the tools given are not all listed: {names}")
        expect(first.tools == again.tools, "the list of tools differs from one refresh to the next")
        await executor.close()

    async def every_call_gets_one_result_in_order(self) -> None:
        gate = StepGate()
        slow, fast = ToolDouble("slow", ["from slow"], gate=gate), ToolDouble("fast", ["from fast"])
        executor = await self._opened(slow, fast)
        round_ = RoundUnderCheck()
        calls = [tool_call("a", "slow"), tool_call("b", "fast"), tool_call("c", "fast")]
        asyncio.get_running_loop().call_later(0.05, gate.open)
        outcome = await self._execute(executor, round_, *calls)
        expect(texts_of(outcome) == ["from slow", "from fast", "from fast"], f"results: {texts_of(outcome)}")
        expect(statuses_of(outcome) == ["ok", "ok", "ok"], f"statuses: {statuses_of(outcome)}")
        expect((slow.finished, fast.finished) == (1, 2), "not every call was run exactly once")
        await executor.close()

    async def an_empty_round_is_nothing(self) -> None:
        executor = await self._opened(ToolDouble("echo"))
        await self._execute(executor, RoundUnderCheck())
        await executor.close()

    async def results_are_told_as_soon_as_they_are_there(self) -> None:
        gate = StepGate()
        last = ToolDouble("last", gate=gate, scheduling="sequential")
        executor = await self._opened(ToolDouble("first"), last)
        round_ = RoundUnderCheck()
        work = asyncio.ensure_future(
            self._execute(executor, round_, tool_call("a", "first"), tool_call("b", "last"))
        )
        try:
            await finish_within(round_.results_told(1), self._limit_s / 4, "on_result of an ended call")
            expect(not work.done(), "execute() returned before all calls had ended")
        finally:
            gate.open()
            await asyncio.wait({work})
        await work
        await executor.close()

    async def sequential_calls_never_overlap(self) -> None:
        alone = ToolDouble("alone", scheduling="sequential")
        executor = await self._opened(alone, ToolDouble("beside"))
        calls = [
            tool_call("a", "alone"),
            tool_call("b", "alone"),
            tool_call("c", "beside"),
            tool_call("d", "alone"),
        ]
        await self._execute(executor, RoundUnderCheck(), *calls)
        expect(alone.most_running == 1, f"{alone.most_running} sequential calls ran at once")
        expect(alone.finished == 3, f"{alone.finished} of 3 sequential calls ran")
        await executor.close()

    async def an_unknown_tool_is_an_error_result(self) -> None:
        echo = ToolDouble("echo")
        executor = await self._opened(echo)
        outcome = await self._execute(
            executor, RoundUnderCheck(), tool_call("a", "no_such_tool"), tool_call("b", "echo")
        )
        expect(statuses_of(outcome) == ["error", "ok"], f"statuses: {statuses_of(outcome)}")
        expect("no_such_tool" in texts_of(outcome)[0], "the error does not name the unknown tool")
        await executor.close()

    async def bad_arguments_are_an_error_result(self) -> None:
        echo = ToolDouble("echo")
        executor = await self._opened(echo)
        calls = [ToolCall("a", "echo", '{"n": '), ToolCall("b", "echo", "[1]"), tool_call("c", "echo")]
        outcome = await self._execute(executor, RoundUnderCheck(), *calls)
        expect(statuses_of(outcome) == ["error", "error", "ok"], f"statuses: {statuses_of(outcome)}")
        expect(echo.arguments == [{}], f"the tool was run with {echo.arguments}")
        await executor.close()

    async def arguments_arrive(self) -> None:
        echo = ToolDouble("echo")
        executor = await self._opened(echo)
        await self._execute(
            executor, RoundUnderCheck(), ToolCall("a", "echo", '{"text": "x\\u0000y", "n": [1, null]}')
        )
        expect(
            echo.arguments == [{"text": "x\0y", "n": [1, None]}], f"the tool was run with {echo.arguments}"
        )
        await executor.close()

    async def a_tool_knows_its_call_and_its_round(self) -> None:
        asks = _Asks("asks")
        executor = await self._opened(asks)
        round_ = RoundUnderCheck()
        calls = [tool_call("a", "asks"), tool_call("b", "asks")]
        await self._execute(executor, round_, *calls)
        expect(asks.calls == calls, f"the tool was told of the calls {asks.calls!r:.300}")
        for field in ("session_id", "task_id", "turn_id", "cwd"):
            wanted = getattr(round_.context, field)
            found = [getattr(told, field) for told in asks.rounds]
            expect(found == [wanted] * 2, f"{field} is {found} instead of {wanted!r}")
        await executor.close()

    async def the_callbacks_of_the_round_are_called(self) -> None:
        executor = await self._opened(_Asks("asks"))
        round_, call, told = RoundUnderCheck(), tool_call("a", "asks"), list[object]()

        async def complete(of: ToolCall, result: ToolMessage) -> None:
            told.append((of.id, result.status))

        round_.context = replace(
            round_.context,
            tool_start=lambda of: told.append(of.id),
            tool_progress=lambda of, text: told.append((of.id, text)),
            tool_complete=complete,
        )
        await self._execute(executor, round_, call)
        expect(told == ["a", ("a", "half"), ("a", "ok")], f"start, progress and end were told as {told}")
        await executor.close()

    async def a_failing_tool_is_an_error_result(self) -> None:
        bad, good = ToolDouble("bad", [ValueError("it broke")]), ToolDouble("good")
        executor = await self._opened(bad, good)
        outcome = await self._execute(
            executor, RoundUnderCheck(), tool_call("a", "bad"), tool_call("b", "good")
        )
        expect(statuses_of(outcome) == ["error", "ok"], f"statuses: {statuses_of(outcome)}")
        expect("it broke" in texts_of(outcome)[0], f"the error's text is missing: {texts_of(outcome)[0]!r}")
        await executor.close()

    async def a_tool_that_cancels_itself_cancels_nothing_else(self) -> None:
        executor = await self._opened(_CancelsItself("odd"), ToolDouble("good"))
        outcome = await self._execute(
            executor, RoundUnderCheck(), tool_call("a", "odd"), tool_call("b", "good")
        )
        statuses = statuses_of(outcome)
        expect(statuses[0] != "ok" and statuses[1] == "ok", f"statuses: {statuses}")
        await executor.close()

    async def nothing_starts_once_interrupted(self) -> None:
        echo = ToolDouble("echo")
        executor = await self._opened(echo)
        round_ = RoundUnderCheck()
        round_.interrupt.request()
        outcome = await self._execute(executor, round_, tool_call("a", "echo"), tool_call("b", "echo"))
        expect(statuses_of(outcome) == ["not_started"] * 2, f"statuses: {statuses_of(outcome)}")
        expect(echo.arguments == [], "a call was started after the interrupt")
        await executor.close()

    async def an_interrupt_stops_what_runs(self) -> None:
        hangs = ToolDouble("hangs", [None], scheduling="sequential")
        executor = await self._opened(hangs, ToolDouble("quick"))
        round_ = RoundUnderCheck()
        calls = [tool_call("a", "quick"), tool_call("b", "hangs"), tool_call("c", "hangs")]
        work = asyncio.ensure_future(self._execute(executor, round_, *calls))
        await self._begun(hangs, work)
        round_.interrupt.request()
        outcome = await work
        wanted = ["ok", "interrupted", "not_started"]
        expect(statuses_of(outcome) == wanted, f"statuses: {statuses_of(outcome)} instead of {wanted}")
        expect(hangs.running == 0, "the interrupted tool is still running")
        again = await self._execute(executor, RoundUnderCheck(), tool_call("a", "quick"))
        expect(statuses_of(again) == ["ok"], "the next round does not work")
        await executor.close()

    async def cancelling_stops_every_tool_and_is_passed_on(self) -> None:
        for times in (1, 2):
            hangs = ToolDouble("hangs", [None])
            executor = await self._opened(hangs, ToolDouble("quick"))
            round_ = RoundUnderCheck()
            before = asyncio.all_tasks()
            calls = [tool_call("a", "quick"), tool_call("b", "hangs"), tool_call("c", "hangs")]
            work = asyncio.ensure_future(executor.execute(calls, round_.context))
            await self._begun(hangs, work)
            for _ in range(times):
                work.cancel()
                await asyncio.sleep(0)
            await finish_within(asyncio.wait({work}), self._limit_s / 4, "a cancelled execute()")
            round_.returned = True
            expect(work.cancelled(), "a cancelled execute() did not raise CancelledError")
            expect(hangs.running == 0, f"{hangs.running} tools are still running after the cancellation")
            await no_new_tasks(before, "a cancelled execute()")
            expect(round_.late == 0, "on_result was called after execute() had ended")
            await self._execute(executor, RoundUnderCheck(), tool_call("a", "quick"))
            await executor.close()

    async def cancelling_anywhere_leaves_nothing(self) -> None:
        work_tool, alone = ToolDouble("work"), ToolDouble("alone", scheduling="sequential")
        executor = await self._opened(work_tool, alone)
        calls = [tool_call("a", "work"), tool_call("b", "work"), tool_call("c", "alone")]
        for turns in CANCEL_POINTS:
            round_ = RoundUnderCheck()
            before = asyncio.all_tasks()
            await cancel_after(executor.execute(calls, round_.context), turns, self._limit_s / 4)
            running = work_tool.running + alone.running
            expect(running == 0, f"cancelled after {turns} turns, {running} tools are still running")
            await no_new_tasks(before, f"execute() cancelled after {turns} turns")
            positions = [position for position, _ in round_.told]
            expect(len(set(positions)) == len(positions), "on_result was called twice for one call")
        await self._execute(executor, RoundUnderCheck(), *calls)
        await executor.close()

    async def a_failing_on_result_ends_the_round(self) -> None:
        hangs = ToolDouble("hangs", [None])
        executor = await self._opened(ToolDouble("quick"), hangs)
        round_ = RoundUnderCheck(fails_at=0)
        before = asyncio.all_tasks()
        work = executor.execute([tool_call("a", "quick"), tool_call("b", "hangs")], round_.context)
        try:
            await finish_within(work, self._limit_s / 4, "execute() after on_result failed")
        except OnResultError:
            expect(hangs.running == 0, "a tool is still running after on_result failed")
            await no_new_tasks(before, "a failed on_result")
        else:
            raise UnmetError("an exception of on_result was not raised by execute()")
        await executor.close()

    async def _begun(self, tool: ToolDouble, work: asyncio.Future[Any]) -> None:
        """Wait until `tool` runs; `work` ending first is told as it ended."""
        begun = asyncio.ensure_future(tool.started())
        try:
            await asyncio.wait({begun, work}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            begun.cancel()
            await asyncio.wait({begun})
        if work.done():
            raise UnmetError(f"execute() ended while a call should be running: {work.result()!r:.300}")
