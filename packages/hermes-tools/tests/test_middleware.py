"""What stands between a call and its tool: callbacks, budgets, middleware of the host."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hermes_messages import (
    ConfigurationError,
    UnknownNameError,
)
from hermes_messages.testing import ToolDouble
from hermes_tools import (
    ApprovalPolicy,
    CallContext,
    Executor,
    Handler,
    Insert,
    Invocation,
    Outcome,
    tool,
)


@pytest.mark.parametrize("place", ["tool_start", "tool_complete"])
def test_a_callback_that_awaits_what_was_cancelled_stops_no_call(
    place: str, bench: Any, run_async: Any
) -> None:
    async def callback(*_: object) -> None:
        other = asyncio.get_running_loop().create_future()
        other.cancel()
        await other

    @tool(description="D.")
    async def speaks() -> str:
        return "whole"

    async def main() -> None:
        outcome = await bench.outcome(
            bench.executor(tools=(speaks,)), bench.call("speaks"), **{place: callback}
        )
        assert [(result.status, result.content) for result in outcome.results] == [("ok", "whole")]

    run_async(main())


def test_callbacks_follow_each_call_and_their_failure_costs_no_result(bench: Any, run_async: Any) -> None:
    events: list[tuple[str, ...]] = []

    async def started(call: Any) -> None:
        events.append(("start", call.name))

    def progressed(call: Any, text: str) -> None:
        events.append(("progress", text))

    def completed(call: Any, message: Any) -> None:
        events.append(("complete", message.status, str(len(bench.stored))))
        raise ValueError("the host's display is broken")

    @tool(description="D.")
    async def speaks(context: CallContext) -> str:
        await context.progress("half")
        return "whole"

    async def main() -> None:
        executor = bench.executor(tools=(speaks,))
        outcome = await bench.outcome(
            executor,
            bench.call("speaks"),
            bench.call("nothing"),
            tool_start=started,
            tool_progress=progressed,
            tool_complete=completed,
        )
        assert [result.content[:6] for result in outcome.results] == ["whole", "Error:"]

    run_async(main())
    assert events == [
        ("start", "speaks"),
        ("progress", "half"),
        ("complete", "ok", "1"),
        ("complete", "error", "2"),
    ]


def test_the_users_middleware_stands_inside_ours_and_may_change_everything(bench: Any) -> None:
    seen: list[str] = []

    class Loud:
        async def __call__(self, call: Invocation, following: Handler, /) -> Outcome:
            seen.append(call.tool.spec.name)
            outcome = await following(call)
            return Outcome(outcome.text.upper() + " sk-verysecret", outcome.status)

    class Denies:
        async def __call__(self, call: Invocation, following: Handler, /) -> Outcome:
            if call.arguments.get("n") == 2:
                return Outcome("denied by the house", "denied")
            return await following(call)

    class Breaks:
        async def __call__(self, call: Invocation, following: Handler, /) -> Outcome:
            if call.arguments.get("n") == 3:
                raise RuntimeError("middleware broke")
            return await following(call)

    results = bench.run(
        *(bench.call("look", {"n": n}) for n in (1, 2, 3)),
        tools=(ToolDouble("look"),),
        middleware=(Loud(), Denies(), Breaks()),
        secrets=("sk-verysecret",),
    )
    assert seen == ["look"] * 3
    assert results[0].content == "DONE [hidden]"
    assert (results[1].status, results[1].content) == ("denied", "DENIED BY THE HOUSE [hidden]")
    assert (results[2].status, results[2].content) == ("error", "Error: RuntimeError: middleware broke")


def test_a_credential_that_comes_with_a_round_is_hidden_from_then_on(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        double = ToolDouble("look", ["token-one-1 token-two-2"] * 3)
        executor = bench.executor(tools=(double,), secrets=("token-zero-0",))
        shown = []
        for secrets in ((), ("token-one-1",), ("token-two-2",)):
            outcome = await bench.outcome(executor, bench.call("look", {}), secrets=secrets)
            shown.append(outcome.results[0].content)
        assert shown == ["token-one-1 token-two-2", "[hidden] token-two-2", "[hidden] [hidden]"]
        assert "token-two-2" not in repr(bench.context(secrets=("token-two-2",)))
        await executor.close()

    run_async(main())


def test_the_same_failing_call_is_refused_after_some_times_in_a_row(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        double = ToolDouble("look", [ValueError("no")], scheduling="sequential")
        fine = ToolDouble("fine", scheduling="sequential")
        executor = bench.executor(tools=(double, fine), settings={"repeat_limit": 2})
        same = [bench.call("look", {"a": 1}) for _ in range(4)]
        outcome = await bench.outcome(executor, *same)
        assert len(double.arguments) == 2
        assert "has now failed 2 times in a row; it will not be run again" in outcome.results[1].content
        assert "failed 2 times in a row with the same arguments" in outcome.results[3].content
        await bench.outcome(executor, bench.call("look", {"a": 2}))
        assert len(double.arguments) == 3
        await bench.outcome(executor, bench.call("fine"), same[0])
        assert len(double.arguments) == 4  # something else went well: it may be tried again
        await bench.outcome(executor, *same[:2])
        await executor.refresh(bench.turn())
        await bench.outcome(executor, same[0])
        assert len(double.arguments) == 6  # a new turn counts anew
        reordered = [
            bench.call("look", text) for text in ('{"b": 1, "c": 2}', '{"c":2,"b":1}', '{"c": 2, "b": 1}')
        ]
        await bench.outcome(executor, *reordered)
        assert len(double.arguments) == 8  # written in another way it is the same call

    run_async(main())


def test_names_that_no_tool_has_are_told_to_stop_after_some_in_a_row(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        executor = bench.executor(tools=(ToolDouble("fine"),), settings={"repeat_limit": 3})
        first = await bench.outcome(executor, bench.call("nope"), bench.call(""), bench.call("fine"))
        assert "in a row" not in first.results[1].content
        calls = [bench.call(name) for name in ("a", "", "b", "c")]
        outcome = await bench.outcome(executor, *calls)
        told = ["in a row" in result.content for result in outcome.results]
        assert told == [False, False, True, True]
        assert "3 calls in a row named a tool that does not exist" in outcome.results[2].content

    run_async(main())


def test_calls_beyond_the_budget_of_a_turn_are_refused(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        double = ToolDouble("look")
        executor = bench.executor(tools=(double,), settings={"turn_call_limit": 2})
        outcome = await bench.outcome(executor, *[bench.call("look", {"n": n}) for n in range(3)])
        assert [result.status for result in outcome.results] == ["ok", "ok", "error"]
        assert "the 2 tool calls of this turn are used up" in outcome.results[2].content
        await executor.refresh(bench.turn())
        await bench.outcome(executor, bench.call("look"))
        assert len(double.arguments) == 3

    run_async(main())


def test_middleware_stands_where_it_is_put(bench: Any) -> None:
    heard: list[str] = []

    def says(name: str) -> Any:
        class Says:
            async def __call__(self, call: Invocation, following: Handler, /) -> Outcome:
                heard.append(name)
                return await following(call)

        return Says()

    path = [
        says("last"),
        Insert(says("first"), before="budgets"),
        Insert(says("asks"), before="approval"),
        Insert(says("asked"), after="approval"),
        says("very last"),
        Insert(says("asked too"), after="approval"),
    ]
    double = ToolDouble("look")
    bench.run(bench.call("look"), tools=(double,), middleware=path)
    assert heard == ["first", "asks", "asked", "asked too", "last", "very last"]
    heard.clear()
    policy = ApprovalPolicy(default="deny")
    bench.run(bench.call("look"), tools=(double,), middleware=path, settings={"approval_policy": policy})
    assert heard == ["first", "asks"]


def test_middleware_that_can_not_work_is_refused_at_once() -> None:
    async def fine(call: Invocation, following: Handler, /) -> Outcome:
        return await following(call)

    def plain(call: Invocation, following: Handler, /) -> Any:
        return following(call)

    with pytest.raises(UnknownNameError, match="approval"):
        Executor(middleware=[Insert(fine, before="aproval")])
    with pytest.raises(ConfigurationError, match="not both"):
        Executor(middleware=[Insert(fine, before="approval", after="budgets")])
    with pytest.raises(ConfigurationError, match="async"):
        Executor(middleware=[plain])
