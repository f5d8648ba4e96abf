import asyncio
import logging

import pytest

from hermes_messages import ConfigurationError, ToolCall, ToolDeclarationError, ToolMessage
from hermes_messages.argument_text import JsonObject
from hermes_messages.protocols import (
    ApprovalAnswer,
    InterruptSignal,
    Later,
    RoundContext,
    Tool,
    ToolCallContext,
    ToolExecutor,
    TurnContext,
)
from hermes_messages.testing import FunctionTool, InterruptFlag, SimpleExecutor, StepGate, ToolDouble

A, B = ToolCall("a", "echo", '{"x": 1}'), ToolCall("b", "echo", "{}")


def _is_executor(executor: SimpleExecutor) -> ToolExecutor:
    return executor


def _is_tool(tool: FunctionTool) -> Tool:
    return tool


def _double_is_tool(tool: ToolDouble) -> Tool:
    return tool


def _is_signal(flag: InterruptFlag) -> InterruptSignal:
    return flag


class Host:
    """A host's side of a round."""

    def __init__(self) -> None:
        self.heard: list[object] = []
        self.interrupt = InterruptFlag()

    async def on_result(self, position: int, result: ToolMessage) -> None:
        self.heard.append((position, result.status))

    def context(self, **more: object) -> RoundContext:
        fields = {"session_id": "s", "task_id": "t", "turn_id": "u", "cwd": "/", **more}
        return RoundContext(interrupt=self.interrupt, on_result=self.on_result, **fields)  # type: ignore[arg-type]


async def echo(arguments: JsonObject) -> str:
    return str(arguments)


def test_functions_by_name() -> None:
    async def main() -> None:
        executor = SimpleExecutor({"echo": echo})
        snapshot = await executor.refresh(TurnContext(session_id="s", task_id="t", turn_id="u", cwd="/"))
        assert [spec.name for spec in snapshot.tools] == ["echo"]
        outcome = await executor.execute([A, B], Host().context())
        assert outcome.results == (
            ToolMessage("a", "{'x': 1}", name="echo"),
            ToolMessage("b", "{}", name="echo"),
        )
        assert executor.rounds == [(A, B)]

    asyncio.run(main())


def test_near_json_arguments_run_and_broken_ones_do_not() -> None:
    async def main() -> None:
        calls = [ToolCall("a", "echo", '{}""'), ToolCall("b", "echo", "[1]"), ToolCall("c", "echo", "")]
        outcome = await SimpleExecutor({"echo": echo}).execute(calls, Host().context())
        assert [result.status for result in outcome.results if result] == ["ok", "error", "ok"]

    asyncio.run(main())


def test_an_unknown_tool_is_told_the_real_names() -> None:
    async def main() -> None:
        executor = SimpleExecutor({"echo": echo})
        [result] = (await executor.execute([ToolCall("a", "ech", "{}")], Host().context())).results
        assert result is not None
        assert result.content == "error: there is no tool 'ech'; the tools are: echo"

    asyncio.run(main())


def test_what_a_tool_returns_must_be_text() -> None:
    async def number(arguments: JsonObject) -> str:
        return 3  # type: ignore[return-value]

    async def main() -> None:
        [result] = (await SimpleExecutor({"echo": number}).execute([A], Host().context())).results
        assert result is not None
        assert (result.status, result.content) == ("error", "error: the tool returned int instead of text")

    asyncio.run(main())


def test_a_plain_function_is_refused() -> None:
    def plain(arguments: JsonObject) -> str:
        return ""

    with pytest.raises(ToolDeclarationError, match="async def"):
        SimpleExecutor({"plain": plain})  # type: ignore[arg-type]


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="echo"):
        SimpleExecutor([ToolDouble("echo"), ToolDouble("echo")])


def test_host_callbacks_hear_of_each_call() -> None:
    class Talker(ToolDouble):
        async def run(self, arguments: JsonObject, context: ToolCallContext) -> str:
            await context.progress(f"at {context.call.id} in {context.round.turn_id}")
            return await super().run(arguments, context)

    async def main() -> None:
        host = Host()

        async def start(call: ToolCall) -> None:
            host.heard.append(("start", call.id))

        context = host.context(
            tool_start=start,
            tool_progress=lambda call, text: host.heard.append(text),
            tool_complete=lambda call, result: host.heard.append(("complete", result.status)),
        )
        await SimpleExecutor([Talker("echo")]).execute([A], context)
        assert host.heard == [("start", "a"), "at a in u", (0, "ok"), ("complete", "ok")]

    asyncio.run(main())


def test_a_failing_host_callback_costs_no_result(caplog: pytest.LogCaptureFixture) -> None:
    def start(call: ToolCall) -> None:
        raise RuntimeError("host")

    async def main() -> None:
        outcome = await SimpleExecutor({"echo": echo}).execute([A], Host().context(tool_start=start))
        assert [result.status for result in outcome.results if result] == ["ok"]

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert "a tool callback failed" in caplog.text


def test_approvals() -> None:
    async def yes(call: ToolCall, reason: str) -> bool:
        return True

    async def no(call: ToolCall, reason: str) -> bool:
        return False

    async def broken(call: ToolCall, reason: str) -> bool:
        raise RuntimeError("nobody there")

    async def main() -> None:
        executor = SimpleExecutor({"echo": echo, "rm": echo}, needs_approval=["rm"])
        calls = [A, ToolCall("r", "rm", "{}"), B]
        for approval, status in ((yes, "ok"), (no, "denied"), (broken, "denied")):
            outcome = await executor.execute(calls, Host().context(approval=approval))
            assert [result.status for result in outcome.results if result] == ["ok", status, "ok"]

        async def later(call: ToolCall, reason: str) -> ApprovalAnswer:
            return Later()

        host = Host()
        outcome = await executor.execute(calls, host.context(approval=later))
        assert [result.status if result else None for result in outcome.results] == ["ok", None, "ok"]
        assert [(waiting.call.id, waiting.position) for waiting in outcome.pending] == [("r", 1)]
        assert host.heard == [(0, "ok"), (2, "ok")]

    asyncio.run(main())


def test_an_interrupt_ends_the_wait_for_an_approval() -> None:
    async def main() -> None:
        host, asked = Host(), asyncio.Event()

        async def never(call: ToolCall, reason: str) -> bool:
            asked.set()
            await asyncio.Event().wait()
            return True

        executor = SimpleExecutor({"echo": echo}, needs_approval=["echo"])
        task = asyncio.create_task(executor.execute([A], host.context(approval=never)))
        await asked.wait()
        host.interrupt.request()
        assert [result.status for result in (await task).results if result] == ["not_started"]

    asyncio.run(main())


def test_parallel_calls_overlap_and_sequential_ones_do_not() -> None:
    async def main() -> None:
        gate = StepGate()
        together, alone = ToolDouble("together", gate=gate), ToolDouble("alone", scheduling="sequential")
        calls = [ToolCall(str(number), "together", "{}") for number in range(3)]
        calls += [ToolCall("x", "alone", "{}"), ToolCall("y", "alone", "{}")]
        task = asyncio.create_task(SimpleExecutor([together, alone]).execute(calls, Host().context()))
        await together.started(3)
        assert together.running == 3
        assert alone.arguments == []
        gate.open()
        await task
        assert (together.most_running, alone.most_running) == (3, 1)

    asyncio.run(main())


def test_a_second_cancellation_does_not_leave_a_slow_tool_behind() -> None:
    async def main() -> None:
        cleaning, cleaned = asyncio.Event(), asyncio.Event()

        async def slow_to_stop(arguments: JsonObject) -> str:
            try:
                await asyncio.Event().wait()
            finally:
                cleaning.set()
                for _ in range(10):
                    await asyncio.sleep(0)
                cleaned.set()
            return ""

        task = asyncio.create_task(SimpleExecutor({"echo": slow_to_stop}).execute([A], Host().context()))
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        await cleaning.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cleaned.is_set()

    asyncio.run(main())


def test_tool_double_plays_its_results_and_repeats_the_last() -> None:
    async def main() -> None:
        tool = ToolDouble("echo", ["one", ValueError("two"), "three"])
        executor = SimpleExecutor([tool])
        texts = []
        for _ in range(4):
            [result] = (await executor.execute([B], Host().context())).results
            assert result is not None
            texts.append(result.content)
        assert texts == ["one", "error: ValueError: two", "three", "three"]
        assert (len(tool.arguments), tool.finished, tool.cancelled, tool.running) == (4, 4, 0, 0)

    asyncio.run(main())


def test_counts_of_open_release_and_close() -> None:
    async def main() -> None:
        executor = SimpleExecutor()
        await executor.open()
        await executor.release("t")
        await executor.close()
        await executor.close()
        assert (executor.open_count, executor.released, executor.close_count) == (1, ["t"], 2)

    asyncio.run(main())
