"""What an executor runs: every call gets exactly one result."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable
from typing import Any

import pytest

from hermes_messages import (
    ConfigurationError,
    HermesError,
    ToolCall,
    ToolDeclarationError,
    UnknownNameError,
)
from hermes_messages.protocols import ExecutorOptions, InterruptSignal
from hermes_messages.testing import InterruptFlag, ToolDouble, check_executor
from hermes_tools import (
    CallContext,
    Executor,
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
    run_async(check_executor(lambda tools: Executor((), tuple(tools)), limit_s=600))


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


class Holding:
    """A toolset that holds something open, and may fail to let go of it."""

    tools = ()

    def __init__(self, name: str, failure: Exception | None = None) -> None:
        self.name = name
        self.closed = False
        self._failure = failure

    async def close(self) -> None:
        if self._failure is not None:
            raise self._failure
        self.closed = True


def test_a_toolset_that_can_not_be_closed_keeps_no_other_open(run_async: Any) -> None:
    broken, other = Holding("broken", OSError("it hangs")), Holding("other")
    with pytest.raises(OSError, match="it hangs"):
        run_async(Executor((broken, Holding("worse", ValueError()), other)).close())
    assert other.closed


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
