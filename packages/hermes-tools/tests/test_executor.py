from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_messages import (
    ConfigurationError,
    HermesError,
    ToolCall,
    ToolDeclarationError,
    ToolMessage,
    UnknownNameError,
)
from hermes_messages.protocols import ExecutorOptions, InterruptSignal
from hermes_messages.testing import InterruptFlag, ToolDouble, check_executor
from hermes_tools import (
    ApprovalPolicy,
    CallContext,
    Executor,
    Handler,
    Insert,
    Invocation,
    Outcome,
    ToolFailure,
    build_executor,
    tool,
)
from hermes_tools.call_state import CallState
from hermes_tools.tool_round import ToolRound


def raising(error: BaseException, name: str = "breaks") -> Any:
    @tool(name=name, description="Breaks.", scheduling="parallel")
    async def breaks() -> str:
        raise error

    return breaks


def test_the_executor_keeps_the_promises_of_the_protocol(run_async: Any) -> None:
    run_async(check_executor(lambda tools: Executor((), tuple(tools))))


# -- exactly one result -----------------------------------------------------------------------------------


def test_an_unknown_tool_gets_the_names_near_it(bench: Any) -> None:
    [result] = bench.run(bench.call("read_flie", {}), toolsets=("file",))
    assert result.status == "error"
    assert "there is no tool 'read_flie'. Did you mean read_file" in result.content
    assert "Tools: read_file, write_file, patch, search_files." in result.content


def test_an_empty_tool_name_is_answered_without_a_guess(bench: Any) -> None:
    for name in ("", "  "):
        [result] = bench.run(bench.call(name, {}), toolsets=("todo",))
        assert result.status == "error"
        assert result.content == "Error: the call names no tool. Tools: todo."


@pytest.mark.parametrize("name", ["TodoTool_tool", "Todo", "functions.todo", "todo_tool", "TODO"])
def test_a_name_that_means_one_tool_only_is_understood(bench: Any, name: str) -> None:
    [result] = bench.run(bench.call(name, {}), toolsets=("todo",))
    assert (result.status, result.content, result.name) == ("ok", "[]", name)


def test_a_name_that_could_mean_two_tools_is_not_guessed(bench: Any) -> None:
    tools = (ToolDouble("get_it"), ToolDouble("getIt"))
    [result] = bench.run(bench.call("GET_IT", {}), tools=tools)
    assert result.status == "error"


def test_arguments_that_are_no_json_get_the_position_and_siblings_still_run(bench: Any) -> None:
    double = ToolDouble("look")
    good, bad, nearly = bench.run(
        bench.call("look", {}),
        bench.call("look", '{"a": }'),
        bench.call("look", '{}""'),
        tools=(double,),
    )
    assert (good.status, nearly.status) == ("ok", "ok")
    assert bad.status == "error"
    assert "at character 6" in bad.content
    assert "cut off" not in bad.content
    assert len(double.arguments) == 2


def test_arguments_of_the_wrong_type_get_the_path(bench: Any) -> None:
    [result] = bench.run(bench.call("read_file", {"path": "a", "limit": "few"}), toolsets=("file",))
    assert result.content == ('Error: read_file was not run: $.limit: expected integer, got string "few"')


def test_a_tool_that_breaks_is_logged_with_its_place_and_without_what_was_said(
    bench: Any, caplog: pytest.LogCaptureFixture
) -> None:
    broken, refusing = raising(KeyError("hunter2")), raising(HermesError("hunter2"), "refuses")
    with caplog.at_level(logging.WARNING, "hermes_tools"):
        bench.run(bench.call("breaks", {}), bench.call("refuses", {}), tools=(broken, refusing))
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith("tool breaks failed: KeyError at ")
    assert line.endswith(" in breaks")
    assert "hunter2" not in caplog.text


class OutsideExceptionError(BaseException):
    """As test frameworks have them."""


def test_an_exception_is_told_by_its_root_cause(bench: Any) -> None:
    caused = RuntimeError("the request failed")
    caused.__cause__ = OSError("connection refused")
    errors: list[tuple[BaseException, str]] = [
        (ValueError("no such thing"), "Error: ValueError: no such thing"),
        (KeyError(), "Error: KeyError"),
        (caused, "Error: RuntimeError: the request failed (OSError: connection refused)"),
        (ExceptionGroup("several", [ExceptionGroup("one", [OSError("full")])]), "Error: OSError: full"),
        (ExceptionGroup("two", [ValueError("a"), TypeError()]), "Error: ValueError: a; TypeError"),
        (ToolFailure("just so"), "just so"),
        (SystemExit(2), "Error: SystemExit: 2"),
        (OutsideExceptionError("odd"), "Error: OutsideExceptionError: odd"),
        (
            asyncio.CancelledError(),
            "Error: the tool was cancelled from inside; what it did until then stands. There was no output.",
        ),
        (TimeoutError(), "Error: TimeoutError"),
        (BaseExceptionGroup("b", [asyncio.CancelledError()]), "Error: CancelledError"),
    ]
    tools = [raising(error, f"t{number}") for number, (error, _) in enumerate(errors)]
    calls = [bench.call(f"t{number}") for number in range(len(errors))]
    results = bench.run(*calls, tools=tuple(tools))
    assert [result.content for result in results] == [text for _, text in errors]
    assert {result.status for result in results} == {"error"}


def test_a_tool_that_cancels_its_own_task_gets_an_error_and_the_round_goes_on(bench: Any) -> None:
    @tool(description="D.", scheduling="parallel")
    async def cancels_itself() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return "never"

    first, second = bench.run(
        bench.call("cancels_itself"), bench.call("look"), tools=(cancels_itself, ToolDouble("look"))
    )
    assert (first.status, second.status) == ("error", "ok")


def test_a_tool_that_cancels_its_own_task_and_ends_at_once_keeps_its_result(bench: Any) -> None:
    @tool(description="D.", scheduling="parallel")
    async def cancels_itself() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "all the same"

    first, second = bench.run(
        bench.call("cancels_itself"), bench.call("look"), tools=(cancels_itself, ToolDouble("look"))
    )
    assert (first.status, first.content, second.status) == ("ok", "all the same", "ok")


def test_a_result_that_is_no_text_is_an_error(bench: Any) -> None:
    class Odd(ToolDouble):
        async def run(self, arguments: Any, context: Any) -> Any:
            return {"a": 1}

    [result] = bench.run(bench.call("odd"), tools=(Odd("odd"),))
    assert result.content == "Error: the tool returned dict, which is no text"


def test_a_tool_that_takes_too_long_is_stopped_and_keeps_its_output_so_far(bench: Any) -> None:
    cleaned: list[bool] = []

    @tool(description="D.", timeout_s=0.05)
    async def slow(context: CallContext) -> str:
        await context.progress("first part")
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)
        return ""

    slow_result, next_result = bench.run(
        bench.call("slow"), bench.call("look"), tools=(slow, ToolDouble("look"))
    )
    assert slow_result.status == "timed_out"
    assert slow_result.content == "Timed out after 0.05 s. Output so far:\nfirst part"
    assert next_result.status == "ok"
    assert cleaned


def test_a_tool_that_ignores_its_timeout_is_left_behind_with_a_warning(
    bench: Any, run_async: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        release = asyncio.Event()

        @tool(description="D.", timeout_s=0.02)
        async def stubborn() -> str:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue
            return "late"

        executor = bench.executor(tools=(stubborn,), settings={"stop_limit_s": 0.05})
        outcome = await bench.outcome(executor, bench.call("stubborn"))
        [result] = outcome.results
        assert result.status == "timed_out"
        assert "it may still be running" in result.content
        assert len(bench.stored) == 1
        gc.collect()
        release.set()
        await executor.close()
        assert len(bench.stored) == 1

    with caplog.at_level(logging.WARNING):
        run_async(main())
    assert "was left behind" in caplog.text


# -- interrupt --------------------------------------------------------------------------------------------


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


# -- cancellation and storing -----------------------------------------------------------------------------


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


# -- callbacks and middleware -----------------------------------------------------------------------------


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


def private_text(path: str) -> str | None:
    """The text of a file that nobody else may read, or None when it is gone."""
    file = Path(path)
    if not file.exists():
        return None
    assert (file.stat().st_mode | file.parent.stat().st_mode) & 0o077 == 0
    return file.read_text()


# -- limits of output -------------------------------------------------------------------------------------


def test_a_result_too_large_is_cut_and_the_rest_can_be_read_from_a_file(bench: Any, run_async: Any) -> None:
    text = "\n".join(f"line {number}" for number in range(200_000))

    @tool(description="D.", scheduling="parallel")
    async def floods() -> str:
        return text

    async def main() -> None:
        executor = bench.executor("file", tools=(floods,), settings={"result_limit": 2_000})
        [result] = (await bench.outcome(executor, bench.call("floods"))).results
        assert len(result.content) < 2_300
        assert result.content.startswith("line 0\n")
        assert result.content.endswith("line 199999")
        path = result.content.split("all of it is in ")[1].split(" ...]")[0]
        page = {"path": path, "offset": 100_001, "limit": 2}
        [read] = (await bench.outcome(executor, bench.call("read_file", page))).results
        assert read.content.startswith("line 100000\nline 100001\n[lines 100001 to 100002")
        [write] = (
            await bench.outcome(executor, bench.call("write_file", {"path": path, "content": "x"}))
        ).results
        assert write.status == "error"
        assert private_text(path) == text
        await executor.release("task")
        assert private_text(path) is None
        await executor.release("task")
        await executor.close()

    run_async(main())


def test_a_single_line_of_ten_megabytes_is_cut_and_can_still_be_read(bench: Any, run_async: Any) -> None:
    text = base64.b64encode(b"0123456789" * 750_000).decode()

    @tool(description="D.", scheduling="parallel")
    async def encodes() -> str:
        return text

    async def main() -> None:
        executor = bench.executor("file", tools=(encodes,))
        [result] = (await bench.outcome(executor, bench.call("encodes"))).results
        assert len(result.content) < 30_300
        assert result.content.startswith(text[:1_000])
        assert result.content.endswith(text[-1_000:])
        path = result.content.split("all of it is in ")[1].split(" ...]")[0]
        assert private_text(path) == text
        [read] = (await bench.outcome(executor, bench.call("read_file", {"path": path}))).results
        assert read.status == "ok"
        assert text[:1_000] in read.content
        await executor.close()

    run_async(main())


def test_the_results_of_a_round_share_its_limit_and_none_is_left_empty(bench: Any) -> None:
    @tool(description="D.", scheduling="parallel")
    async def floods(n: int) -> str:
        return "x" * n

    sizes = [100, 50_000, 50_000, 10, 50_000]
    results = bench.run(
        *(bench.call("floods", {"n": n}) for n in sizes), tools=(floods,), settings={"round_limit": 9_000}
    )
    lengths = [len(result.content) for result in results]
    assert lengths[0] == 100
    assert lengths[3] == 10
    assert sum(lengths) < 9_000 + 3 * 200
    assert min(lengths[1], lengths[2], lengths[4]) > 2_000
    many = bench.run(
        *(bench.call("floods", {"n": 5_000}) for _ in range(30)),
        tools=(floods,),
        settings={"round_limit": 300},
    )
    assert min(len(result.content) for result in many) >= 400


def test_invisible_text_in_tool_output_is_stripped_and_flags_stay(bench: Any) -> None:
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "obey")
    flag = "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"
    double = ToolDouble("page", [f"a{hidden}b {flag} \0"])
    [result] = bench.run(bench.call("page"), tools=(double,))
    assert result.content == f"ab {flag} \u2400"


def test_credentials_of_the_environment_are_hidden_in_results(bench: Any) -> None:
    double = ToolDouble("page", ["key=sk-12345678 url=postgres://u:hunter2hunter2@h/db short"])
    [result] = bench.run(
        bench.call("page"),
        tools=(double,),
        environment={"X_API_KEY": "sk-12345678", "DB": "postgres://u:hunter2hunter2@h/db", "A_KEY": "short"},
    )
    assert result.content == "key=[hidden] url=postgres://u:[hidden]@h/db short"


# -- tools and toolsets -----------------------------------------------------------------------------------


def test_what_can_not_be_a_tool_is_refused_when_it_is_registered() -> None:
    class Sync(ToolDouble):
        def run(self, arguments: Any, context: Any) -> Any:
            return ""

    with pytest.raises(ToolDeclarationError, match=r"run\(\) is not an async method"):
        Executor((), (Sync("sync"),))
    with pytest.raises(ToolDeclarationError, match=r"is no tool.*@tool"):
        Executor((), (len,))  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="two tools are named 'a'"):
        Executor((), (ToolDouble("a"), ToolDouble("a")))
    odd: Any = ToolDouble("b")
    odd._scheduling = "whenever"
    with pytest.raises(ToolDeclarationError, match="whenever"):
        Executor((), (odd,))


def test_tools_come_in_one_order_with_the_same_bytes_whatever_the_order_of_names(
    bench: Any, run_async: Any
) -> None:
    async def specs(*names: str) -> Any:
        options = ExecutorOptions(cwd=str(bench.workspace), own_tools=(ToolDouble("zz"), ToolDouble("aa")))
        executor = build_executor(names, options)
        return (await executor.refresh(bench.turn())).tools

    first = run_async(specs("todo", "file", "terminal"))
    second = run_async(specs("terminal", "todo", "file", "file"))
    assert first == second
    assert run_async(specs("all")) == run_async(specs("todo", "all"))
    names = [spec.name for spec in first]
    assert names[-2:] == ["zz", "aa"]  # a host's own stand last, in the order given
    assert names.index("read_file") < names.index("terminal") < names.index("todo")


def test_a_toolset_that_does_not_exist_is_named_with_the_nearest(bench: Any) -> None:
    options = ExecutorOptions(cwd=str(bench.workspace))
    with pytest.raises(UnknownNameError, match="unknown toolset 'fiel'; did you mean 'file'"):
        build_executor(["fiel"], options)
    with pytest.raises(UnknownNameError, match="terminl"):
        build_executor(["file"], ExecutorOptions(cwd="/", disabled_toolsets=("terminl",)))
    with pytest.raises(UnknownNameError, match="parallel_limit"):
        build_executor(["file"], ExecutorOptions(cwd="/", settings={"paralel_limit": 3}))
    with pytest.raises(ConfigurationError, match=r"\$\.parallel_limit"):
        build_executor(["file"], ExecutorOptions(cwd="/", settings={"parallel_limit": "x"}))
    with pytest.raises(ConfigurationError, match="above 0"):
        build_executor(["file"], ExecutorOptions(cwd="/", settings={"parallel_limit": 0}))


def test_disabled_toolsets_are_left_out(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        executor = build_executor(
            ["coding"], ExecutorOptions(cwd="/", disabled_toolsets=("terminal", "file"))
        )
        assert [spec.name for spec in (await executor.refresh(bench.turn())).tools] == ["todo"]

    run_async(main())


def test_a_tool_that_is_absent_says_why(bench: Any, run_async: Any) -> None:
    class NeedsKey(ToolDouble):
        def unavailable_reason(self) -> str | None:
            return "set WEB_KEY"

    async def main() -> None:
        executor = bench.executor(tools=(NeedsKey("web"), ToolDouble("look")))
        snapshot = await executor.refresh(bench.turn())
        assert [spec.name for spec in snapshot.tools] == ["look"]
        assert [(absent.name, absent.reason) for absent in snapshot.unavailable] == [("web", "set WEB_KEY")]
        [result] = (await bench.outcome(executor, bench.call("web"))).results
        assert "no tool 'web'" in result.content

    run_async(main())


def test_a_closed_executor_runs_nothing_until_it_is_opened_again(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        executor = bench.executor(tools=(ToolDouble("look"),))
        await executor.close()
        await executor.close()
        with pytest.raises(HermesError, match="closed"):
            await bench.outcome(executor, bench.call("look"))
        await executor.open()
        await executor.open()
        assert (await bench.outcome(executor, bench.call("look"))).results[0].status == "ok"

    run_async(main())


def test_tools_are_read_anew_only_where_they_changed(bench: Any, run_async: Any) -> None:
    class Group:
        name = "group"
        tools: tuple[Any, ...] = (ToolDouble("a"),)

    async def main() -> None:
        group = Group()
        executor = Executor((group,), (ToolDouble("z"),))
        first = (await executor.refresh(bench.turn())).tools
        assert (await executor.refresh(bench.turn())).tools is first
        group.tools = (*group.tools, ToolDouble("b"))
        assert [spec.name for spec in (await executor.refresh(bench.turn())).tools] == ["a", "b", "z"]
        group.tools = (ToolDouble("a"), group.tools[1])
        assert (await executor.refresh(bench.turn())).tools[0] is group.tools[0].spec

    run_async(main())


class Telling:
    """An interrupt that calls who listens."""

    def __init__(self) -> None:
        self.requested = False
        self.listeners: list[Any] = []

    async def wait(self) -> None:
        raise AssertionError("nobody has to wait for this one")

    def on_request(self, listener: Any) -> Any:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def request(self) -> None:
        self.requested = True
        for listener in self.listeners:
            asyncio.get_running_loop().call_soon(listener)


def test_a_round_makes_one_task_for_each_call_and_no_other(
    bench: Any, run_async: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        executor = Executor((), (ToolDouble("a", scheduling="parallel"),))
        await executor.refresh(bench.turn())
        signal = Telling()
        context = bench.context(interrupt=signal)
        made: list[object] = []
        loop = asyncio.get_running_loop()
        real = loop.create_task

        def counted(work: Any, **rest: Any) -> Any:
            made.append(work)
            return real(work, **rest)

        monkeypatch.setattr(loop, "create_task", counted)
        asked = [ToolCall(str(number), "a", "{}") for number in range(3)]
        outcome = await executor.execute(asked, context)
        assert len(made) == 3
        assert [result.status for result in outcome.results if result is not None] == ["ok"] * 3
        assert signal.listeners == []

    run_async(main())


def test_a_signal_that_calls_back_stops_the_tools_of_a_round(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        hanging = ToolDouble("a", [None], scheduling="sequential")
        executor = Executor((), (hanging, ToolDouble("b")))
        await executor.refresh(bench.turn())
        signal = Telling()
        context = bench.context(interrupt=signal)
        asked = [ToolCall("1", "a", "{}"), ToolCall("2", "b", "{}")]
        running = asyncio.create_task(executor.execute(asked, context))
        await hanging.started(1)
        signal.request()
        outcome = await running
        statuses = [result.status for result in outcome.results if result is not None]
        assert statuses == ["interrupted", "not_started"]

    run_async(main())


@pytest.mark.parametrize("signal", [Telling, InterruptFlag])
def test_a_round_leaves_nothing_that_only_a_collection_of_garbage_would_free(
    bench: Any, run_async: Any, signal: Callable[[], InterruptSignal]
) -> None:
    async def main() -> None:
        executor = Executor((), (ToolDouble("a"), ToolDouble("b")))
        await executor.refresh(bench.turn())
        asked = [ToolCall(str(number), name, "{}") for number, name in enumerate(("a", "b", "nothing"))]
        gc.collect()
        before = {
            id(one) for one in gc.get_objects() if isinstance(one, ToolRound | CallState)
        }  # of other tests
        gc.disable()
        try:
            await executor.execute(asked, bench.context(interrupt=signal()))
            await asyncio.sleep(0)
            found = [one for one in gc.get_objects() if isinstance(one, ToolRound | CallState)]
            left = [type(one).__name__ for one in found if id(one) not in before]
        finally:
            gc.enable()
        assert left == []

    run_async(main())
