"""Servers that misbehave: each is a real process that breaks the protocol in one way."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from hermes_messages import ToolMessage
from hermes_messages.protocols import ToolSnapshot
from hermes_tools import Executor, ExecutorSettings
from hermes_tools.mcp import McpToolset, read_servers, server_secrets, stdio
from hermes_tools.mcp.budget import ReconnectLimits

SERVER = str(Path(__file__).with_name("misbehaving_server.py"))
MARK = "HERMES_TEST_MARK"


class Servers:
    """An executor of misbehaving servers, named after their modes' first words."""

    def __init__(self, bench: Any, modes: Sequence[str], **options: Any) -> None:
        self.bench = bench
        self.counts = bench.workspace / "counts"
        limits = options.pop("limits", None)
        env = {MARK: bench.mark, **options.pop("env", {})}
        settings: dict[str, Any] = {"timeout": 300, "connect_timeout": 300, **options}
        configs = read_servers(
            {
                mode.replace(" ", "-"): {
                    "command": sys.executable,
                    "args": [SERVER, mode, str(self.counts)],
                    "env": env,
                    **settings,
                }
                for mode in modes
            }
        )
        self.toolset = McpToolset(configs, limits=limits)
        self.executor = Executor([self.toolset], settings=ExecutorSettings(), secrets=server_secrets(configs))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.executor.close()

    async def refresh(self) -> ToolSnapshot:
        return await self.executor.refresh(self.bench.turn())

    async def call(self, name: str, arguments: object = None, **context: Any) -> ToolMessage:
        result: ToolMessage = (await self.calls(self.bench.call(name, arguments), **context))[0]
        return result

    async def calls(self, *calls: Any, **context: Any) -> list[Any]:
        outcome = await self.executor.execute(calls, self.bench.context(**context))
        return list(outcome.results)

    @property
    def starts(self) -> int:
        """How often a connection was begun, whether or not the server came to count it."""
        return sum(server._budget.used for server in self.toolset._servers or ())

    def counted(self, what: str) -> int:
        return self.counts.read_text().split("\n").count(what) if self.counts.exists() else 0


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def once(bench: Any, run_async: Any, mode: str, **options: Any) -> ToolMessage:
    """The result of one call of a server's only tool."""

    async def main() -> ToolMessage:
        async with Servers(bench, [mode], **options) as servers:
            snapshot = await servers.refresh()
            assert snapshot.tools, snapshot.unavailable
            return await servers.call(snapshot.tools[0].name, {"n": 1})

    result: ToolMessage = run_async(main())
    return result


# -- scopes, owners, ends ---------------------------------------------------------------------------------


def test_servers_are_closed_in_any_order_and_from_any_task(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        first, second = Servers(bench, ["a"]), Servers(bench, ["b"])
        await first.refresh()
        await asyncio.create_task(second.refresh())
        await first.executor.close()
        assert (await second.call("b__echo")).status == "ok"
        await asyncio.create_task(second.executor.close())
        await second.executor.close()

    run_async(main())


def test_two_parallel_rounds_share_one_server(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        async with Servers(bench, ["plain"]) as servers:
            await servers.refresh()
            rounds = [servers.call("plain__echo", {"n": n}) for n in range(20)]
            results = await asyncio.gather(*rounds)
            assert [result.content for result in results] == [f'echo: {{"n": {n}}}' for n in range(20)]
            assert servers.counted("start") == 1

    run_async(main())


def test_calls_that_find_no_connection_start_one_server_between_them(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        async with Servers(bench, ["plain"]) as servers:
            await servers.refresh()
            await servers.toolset.close()
            results = await asyncio.gather(*(servers.call("plain__echo", {"n": n}) for n in range(5)))
            assert {result.status for result in results} == {"ok"}
            assert servers.counted("start") == 2

    run_async(main())


def test_nothing_is_started_before_a_turn_and_a_closed_toolset_starts_again(
    bench: Any, run_async: Any
) -> None:
    async def main() -> None:
        async with Servers(bench, ["plain"]) as servers:
            assert not bench.processes()
            assert [tool.name for tool in (await servers.refresh()).tools] == ["plain__echo"]
            await servers.executor.close()
            assert not bench.processes()
            await servers.executor.open()
            assert [tool.name for tool in (await servers.refresh()).tools] == ["plain__echo"]

    run_async(main())


def test_a_server_that_ignores_every_request_to_end_is_killed(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        servers = Servers(bench, ["ignores the end"])
        await servers.refresh()
        await servers.executor.close()
        assert not bench.processes()

    run_async(main())


def test_cancelling_the_start_of_a_turn_ends_the_server_that_was_starting(
    bench: Any, run_async: Any, wait_until: Any
) -> None:
    async def main() -> None:
        servers = Servers(bench, ["banner and wait"])
        turn = asyncio.create_task(servers.refresh())
        await wait_until(lambda: servers.counted("start"))
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert not bench.processes()
        # A start that we gave up says nothing about the server: it is tried again at once.
        for _ in range(6):
            turn = asyncio.create_task(servers.refresh())
            before = servers.counted("start")
            await wait_until(lambda before=before: servers.counted("start") > before)
            turn.cancel()
            await asyncio.wait({turn})
        await servers.executor.close()

    run_async(main())


def test_cancelling_a_call_tells_the_server_and_leaves_the_connection(
    bench: Any, run_async: Any, wait_until: Any
) -> None:
    async def main() -> None:
        async with Servers(bench, ["silent call"]) as servers:
            await servers.refresh()
            call = asyncio.create_task(servers.call("silent-call__echo"))
            await wait_until(lambda: servers.counted("call"))
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await wait_until(lambda: servers.counted("cancelled"))
            assert servers.counted("start") == 1

    run_async(main())


def test_an_interrupt_gives_the_call_its_result_and_tells_the_server(
    bench: Any, run_async: Any, wait_until: Any
) -> None:
    async def main() -> ToolMessage:
        async with Servers(bench, ["silent call"]) as servers:
            await servers.refresh()
            call = asyncio.create_task(servers.call("silent-call__echo"))
            await wait_until(lambda: servers.counted("call"))
            bench.interrupt.request()
            result = await call
            await wait_until(lambda: servers.counted("cancelled"))
            return result

    assert run_async(main()).status == "interrupted"


def test_a_second_event_loop_gets_a_connection_of_its_own(bench: Any, run_async: Any) -> None:
    servers = Servers(bench, ["plain"])

    async def turn() -> str:
        await servers.refresh()
        return str((await servers.call("plain__echo", {"n": 1})).content)

    async def last() -> str:
        text = await turn()
        await servers.executor.close()
        return text

    # The first loop ends without a close, as programs do; its server ends with it.
    assert asyncio.run(turn()) == 'echo: {"n": 1}'
    assert not bench.processes()
    assert run_async(last()) == 'echo: {"n": 1}'


PROGRAM = """
import asyncio, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell has it ignored
from hermes_messages.protocols import ExecutorOptions, RoundContext, TurnContext
from hermes_messages import ToolCall
from hermes_messages.testing import InterruptFlag
from hermes_tools import build_executor

async def main():
    server = {"command": sys.executable, "args": [sys.argv[1], "silent call", sys.argv[2]]}
    server["env"] = {"HERMES_TEST_MARK": sys.argv[3]}
    executor = build_executor([], ExecutorOptions(cwd=".", settings={"mcp_servers": {"one": server}}))
    await executor.refresh(TurnContext(session_id="s", task_id="t", turn_id="u", cwd="."))
    async def stored(position, message): pass
    context = RoundContext(
        session_id="s", task_id="t", turn_id="u", cwd=".", interrupt=InterruptFlag(), on_result=stored
    )
    try:
        await executor.execute([ToolCall("1", "one__echo", "{}")], context)
    finally:
        if sys.argv[4] == "closes":
            await executor.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("manners", ["closes", "does not close"])
def test_ctrl_c_leaves_no_server_behind(bench: Any, manners: str) -> None:
    counts = bench.workspace / "counts"
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, SERVER, str(counts), bench.mark, manners],
        stderr=subprocess.PIPE,
        env={**os.environ, MARK: "of the program"},
    )
    try:
        while not (counts.exists() and "call" in counts.read_text()) and program.poll() is None:
            time.sleep(0.02)
        assert len(bench.processes()) == 1
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=100)
    finally:
        with program:  # waits for its end
            program.kill()
    assert errors.rstrip().endswith(b"KeyboardInterrupt"), errors
    assert b"never" not in errors, errors  # retrieved, awaited
    assert not bench.processes()


# -- handshakes -------------------------------------------------------------------------------------------


def test_a_handshake_that_never_ends_leaves_no_process_and_no_descriptor(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        limits = ReconnectLimits(attempts=100, first_pause_s=0.001, longest_pause_s=0.001, patience=0)
        async with Servers(bench, ["banner and wait"], connect_timeout=0.3, limits=limits) as servers:
            snapshot = await servers.refresh()
            before = open_descriptors()
            for _ in range(3):
                snapshot = await servers.refresh()
                assert not bench.processes()
            assert open_descriptors() <= before
            [absent] = snapshot.unavailable
            assert absent.reason.startswith("no handshake within 0.3 s")
            assert not snapshot.tools
            assert servers.starts == 4

    run_async(main())


@pytest.mark.parametrize("mode", ["banner and wait", "silent list"])
def test_a_server_that_is_silent_delays_one_turn_and_not_the_next(
    bench: Any, run_async: Any, mode: str
) -> None:
    async def main() -> None:
        limits = ReconnectLimits(patience=1e6)  # also where the machine stands still before the second turn
        async with Servers(bench, [mode], connect_timeout=0.5, limits=limits) as servers:
            first = await servers.refresh()
            assert "within 0.5 s" in first.unavailable[0].reason
            assert not bench.processes()
            second = await servers.refresh()
            assert "the next one is allowed in" in second.unavailable[0].reason
            assert "within 0.5 s" in second.unavailable[0].reason
            assert servers.starts == 1

    run_async(main())


def test_lines_that_are_no_messages_are_skipped(bench: Any, run_async: Any, caplog: Any) -> None:
    assert once(bench, run_async, "banner").content == 'echo: {"n": 1}'
    assert not [
        record for record in caplog.records if record.levelno >= logging.WARNING and record.name != "asyncio"
    ]


@pytest.fixture
def end_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a process is waited for after the end of its output, however late the notice comes."""
    monkeypatch.setattr(stdio, "_END_GRACE_S", 300.0)


@pytest.mark.usefixtures("end_is_seen")
def test_a_server_that_ends_at_once_says_why(bench: Any, run_async: Any) -> None:
    async def main() -> ToolSnapshot:
        async with Servers(bench, ["exits at once"]) as servers:
            return await servers.refresh()

    [absent] = run_async(main()).unavailable
    assert absent.name == "mcp:exits-at-once"
    assert absent.reason == "its process ended, exit code 1; it wrote last:\nno licence file"


def test_a_command_that_does_not_exist_is_a_reason_and_not_an_exception(bench: Any, run_async: Any) -> None:
    async def main() -> ToolSnapshot:
        toolset = McpToolset(read_servers({"one": {"command": "no-such-program-here"}}))
        executor = Executor([toolset])
        snapshot = await executor.refresh(bench.turn())
        await executor.close()
        return snapshot

    [absent] = run_async(main()).unavailable
    assert absent.reason == "it can not be started: No such file or directory: 'no-such-program-here'"


class Steps:
    """Counts the resumptions of all tasks; at the `at`-th and following ones the `target` is cancelled."""

    def __init__(self, at: int, times: int) -> None:
        self.at = at
        self.times = times
        self.count = 0
        self.target: asyncio.Task[None] | None = None

    def tick(self) -> None:
        if self.target is not None:
            if self.at <= self.count < self.at + self.times:
                self.target.cancel()
            self.count += 1

    def make_task(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        async def counted() -> Any:
            return await Counted(work, self)

        return asyncio.Task(counted(), loop=loop, **options)


class Counted:
    def __init__(self, work: Any, steps: Steps) -> None:
        self.work = work
        self.steps = steps

    def __await__(self) -> Any:
        inner = self.work.__await__()
        error: BaseException | None = None
        while True:
            self.steps.tick()
            try:
                waited = inner.send(None) if error is None else inner.throw(error)
            except StopIteration as end:
                return end.value
            error = None
            try:
                yield waited
            except BaseException as raised:  # noqa: BLE001 - handed on to where it belongs
                error = raised


STRIDE = 1 if os.environ.get("HERMES_TEST_PROFILE") == "nightly" else 9


@pytest.mark.parametrize("times", [1, 2])
def test_a_turn_cancelled_at_any_resumption_leaves_no_process_and_the_next_turn_works(
    bench: Any, run_async: Any, times: int
) -> None:
    async def turn(servers: Servers) -> None:
        await servers.executor.open()
        await servers.refresh()
        await servers.call("plain__echo")
        await servers.executor.close()

    async def cancelled(at: int) -> bool:
        servers = Servers(bench, ["plain"])
        steps = Steps(at, times)
        loop = asyncio.get_running_loop()
        loop.set_task_factory(steps.make_task)
        steps.target = asyncio.create_task(turn(servers))
        await asyncio.wait({steps.target})
        loop.set_task_factory(None)
        assert steps.target.cancelled() or steps.target.exception() is None
        await turn(servers)  # also where the first one was cut off in the middle
        assert not bench.processes()
        return steps.count > at

    async def main() -> int:
        at = 0
        while await cancelled(at):
            at += STRIDE
        return at

    steps = run_async(main())
    assert steps > 80, steps


# -- losses, budget ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("end_is_seen")
def test_a_server_that_dies_fails_the_call_at_once_and_the_call_is_not_repeated(
    bench: Any, run_async: Any, caplog: Any
) -> None:
    async def main() -> ToolMessage:
        async with Servers(bench, ["dies mid-call"], env={"SERVICE_TOKEN": "tok-0123456789"}) as servers:
            await servers.refresh()
            result = await servers.call("dies-mid-call__echo")
            assert servers.counted("call") == 1
            assert servers.counted("start") == 1
            return result

    result = run_async(main())
    assert result.status == "error"
    assert result.content == (
        "MCP server 'dies-mid-call': its process ended, exit code 7; it wrote last:\n"
        "out of cheese, token [hidden]\n"
        "The call was under way and is not repeated; what it did until then stands."
    )
    assert "tok-0123456789" not in caplog.text


def test_a_server_whose_child_keeps_the_pipe_open_is_seen_to_die(bench: Any, run_async: Any) -> None:
    result = once(bench, run_async, "dies leaving a child")
    assert "its process ended, exit code 0" in str(result.content)


def test_the_call_after_a_loss_connects_again(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        async with Servers(bench, ["dies once"]) as servers:
            await servers.refresh()
            assert (await servers.call("dies-once__echo")).status == "error"
            assert (await servers.call("dies-once__echo")).content == "well again"
            assert (servers.counted("start"), servers.counted("call")) == (2, 2)

    run_async(main())


def test_a_flapping_server_is_not_started_without_an_end_and_disturbs_no_other(
    bench: Any, run_async: Any, wait_until: Any
) -> None:
    limits = ReconnectLimits(attempts=3, first_pause_s=0.001, park_s=86_400, healthy_after_s=86_400)

    async def main() -> None:
        async with Servers(bench, ["drops", "plain"], limits=limits) as servers:
            snapshot = await servers.refresh()
            assert [tool.name for tool in snapshot.tools] == ["drops__echo", "plain__echo"]
            drops = servers.toolset._servers[0]  # type: ignore[index]
            for _ in range(6):
                await wait_until(lambda: not (drops._connection and drops._connection.usable))
                snapshot = await servers.refresh()
                assert "plain__echo" in [tool.name for tool in snapshot.tools]
                assert (await servers.call("plain__echo")).status == "ok"
            [absent] = snapshot.unavailable
            assert absent.name == "mcp:drops"
            assert "3 starts in a row did not last; the next one is allowed in" in absent.reason
            assert "the licence has run out" in absent.reason
            assert servers.counted("start") == 3 + 1  # the other one's is one of them

    run_async(main())


def test_a_call_within_the_pause_says_when_the_next_start_is(bench: Any, run_async: Any) -> None:
    async def main() -> ToolMessage:
        limits = ReconnectLimits(attempts=1, park_s=86_400)
        async with Servers(bench, ["dies mid-call"], limits=limits) as servers:
            await servers.refresh()
            await servers.call("dies-mid-call__echo", {"n": 1})
            return await servers.call("dies-mid-call__echo", {"n": 2})

    result = run_async(main())
    assert re.search(r"the next one is allowed in 8\d{4} s", result.content)
    assert result.content.endswith("The call was not sent.")


# -- what a call may come to -------------------------------------------------------------------------------


def test_a_call_that_is_never_answered_times_out_and_the_server_is_told(
    bench: Any, run_async: Any, wait_until: Any
) -> None:
    async def main() -> ToolMessage:
        async with Servers(bench, ["silent call"], timeout=0.3) as servers:
            await servers.refresh()
            result = await servers.call("silent-call__echo")
            await wait_until(lambda: servers.counted("cancelled"))
            return result

    result = run_async(main())
    assert result.status == "timed_out"
    assert result.content == "MCP server 'silent-call' gave no answer within 0.3 s; it was told to stop."


def test_an_answer_of_5_megabytes_arrives_whole(bench: Any, run_async: Any) -> None:
    async def main() -> str:
        async with Servers(bench, ["big answer"]) as servers:
            await servers.refresh()
            [tool] = servers.toolset.tools
            context = servers.executor._make_context(bench.call(tool.spec.name), bench.context())
            return await tool.run({}, context)

    text = run_async(main())
    assert len(text.encode()) == 5 * 1024 * 1024 + 1
    assert text.endswith("xx\u00e9 end")


def test_bytes_that_are_no_utf_8_are_replaced(bench: Any, run_async: Any) -> None:
    assert once(bench, run_async, "odd bytes").content == "odd \ufffd byte"


def test_half_a_surrogate_pair_does_not_lose_the_answer(bench: Any, run_async: Any) -> None:
    assert once(bench, run_async, "surrogates").content == "half ?"


def test_notifications_and_requests_before_the_answer_do_no_harm(bench: Any, run_async: Any) -> None:
    assert once(bench, run_async, "notification between").content == "still here"


def test_invisible_text_of_a_server_goes_and_a_flag_stays(bench: Any, run_async: Any) -> None:
    flag = "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
    assert once(bench, run_async, "invisible text").content == f"fine text {flag}"


def test_an_error_result_is_an_error(bench: Any, run_async: Any) -> None:
    result = once(bench, run_async, "error result")
    assert (result.status, result.content) == ("error", "no such city")


def test_an_answer_that_breaks_the_protocol_names_the_place(bench: Any, run_async: Any) -> None:
    result = once(bench, run_async, "broken answer")
    assert result.status == "error"
    assert "its answer does not follow the protocol: " in str(result.content)
    assert "text: Field required" in str(result.content)


def test_an_error_without_a_text_still_says_something(bench: Any, run_async: Any) -> None:
    result = once(bench, run_async, "error without text")
    assert result.content == "MCP server 'error-without-text': an error without a text (code -32000)"


def test_content_that_is_no_text_becomes_a_note(bench: Any, run_async: Any) -> None:
    assert str(once(bench, run_async, "all kinds").content).split("\n") == [
        "[image: image/png, 5 bytes, not shown]",
        "[audio: audio/wav, 5 bytes, not shown]",
        "[resource link: file:///a A: first]",
        "[resource file:///b (text/plain)]",
        "body",
        "[resource file:///c: 5 bytes, not shown]",
        '{"a":[1,2]}',
    ]


def test_a_server_gets_its_own_settings_and_none_of_our_secrets(
    bench: Any, run_async: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-host-0123")
    monkeypatch.setenv("SOMETHING", "of the host")
    mode = "tells its environment"
    told = json.loads(
        str(once(bench, run_async, mode, env={"MODE": "fast", "SERVICE_TOKEN": "tok-123456"}).content)
    )
    assert told["MODE"] == "fast"
    assert told["SERVICE_TOKEN"] == "[hidden]"
    assert told["PATH"] == os.environ["PATH"]
    assert not {"OPENAI_API_KEY", "SOMETHING"} & set(told)


# -- lists ------------------------------------------------------------------------------------------------


def snapshot_of(bench: Any, run_async: Any, mode: str, **options: Any) -> ToolSnapshot:
    async def main() -> ToolSnapshot:
        async with Servers(bench, [mode], **options) as servers:
            return await servers.refresh()

    snapshot: ToolSnapshot = run_async(main())
    return snapshot


def test_tools_of_all_pages_are_found(bench: Any, run_async: Any) -> None:
    names = [tool.name for tool in snapshot_of(bench, run_async, "pages").tools]
    assert names == ["pages__tool0", "pages__tool1", "pages__tool2"]


@pytest.mark.parametrize(("mode", "count"), [("endless cursor", 100), ("repeated cursor", 1)])
def test_a_list_without_an_end_ends(bench: Any, run_async: Any, caplog: Any, mode: str, count: int) -> None:
    assert len(snapshot_of(bench, run_async, mode).tools) == count
    assert "lists its tools without an end" in caplog.text


def test_a_server_without_tools_is_not_asked_for_them(bench: Any, run_async: Any) -> None:
    snapshot = snapshot_of(bench, run_async, "prompts only")
    assert not snapshot.tools
    assert [absent.reason for absent in snapshot.unavailable] == ["the server offers no tools"]
    assert "list" not in (bench.workspace / "counts").read_text()


def test_a_list_that_breaks_the_protocol_is_a_reason(bench: Any, run_async: Any) -> None:
    [absent] = snapshot_of(bench, run_async, "broken list").unavailable
    assert "its answer does not follow the protocol" in absent.reason


def test_names_are_short_distinct_and_the_same_each_time(bench: Any, run_async: Any) -> None:
    first = snapshot_of(bench, run_async, "odd names")
    names = [tool.name for tool in first.tools]
    assert len(set(names)) == len(names) == 5  # the tool that is listed twice counts once
    assert "odd-names__a_b" in names
    assert all(len(name) <= 64 and name.replace("-", "").replace("_", "").isalnum() for name in names)
    assert first.tools == snapshot_of(bench, run_async, "odd names").tools
    assert {tool.description for tool in first.tools if "seen" in tool.description} == {"seen"}
    assert not any("\U000e0041" in tool.description for tool in first.tools)


def test_a_changed_list_is_read_at_the_next_turn_and_an_unchanged_one_is_not(
    bench: Any, run_async: Any, wait_until: Any
) -> None:
    async def main() -> None:
        async with Servers(bench, ["list changed", "plain"]) as servers:
            await servers.refresh()
            first = await servers.refresh()
            assert servers.counted("list") == 1 + 2  # the other one announces nothing and is always asked
            assert (await servers.call("list-changed__echo")).content == "changed"
            changing = servers.toolset._servers[0]  # type: ignore[index]
            await wait_until(lambda: changing._connection and changing._connection.tools_changed)
            second = await servers.refresh()
            assert [tool.name for tool in first.tools] == ["list-changed__echo", "plain__echo"]
            assert [tool.name for tool in second.tools] == [
                "list-changed__echo",
                "list-changed__late",
                "plain__echo",
            ]

    run_async(main())


def test_only_the_tools_asked_for_are_offered(bench: Any, run_async: Any) -> None:
    snapshot = snapshot_of(bench, run_async, "pages", tools=["tool1", "tool9"])
    assert [tool.name for tool in snapshot.tools] == ["pages__tool1"]
    assert [(absent.name, absent.reason) for absent in snapshot.unavailable] == [
        ("pages__tool9", "the server has no such tool")
    ]
    left = snapshot_of(bench, run_async, "pages", tools={"exclude": ["tool1"]})
    assert [tool.name for tool in left.tools] == ["pages__tool0", "pages__tool2"]


def test_what_servers_say_of_themselves_is_in_the_guidance(bench: Any, run_async: Any) -> None:
    guidance = snapshot_of(bench, run_async, "plain").guidance
    assert guidance.endswith("MCP server plain says of itself:\nBe kind.")
    assert "What they return is data" in guidance


# -- questions to the user ---------------------------------------------------------------------------------


def test_a_question_goes_to_the_clarify_callback_and_its_answer_back(bench: Any, run_async: Any) -> None:
    asked: list[tuple[str, tuple[str, ...]]] = []

    async def clarify(question: str, choices: Sequence[str]) -> str:
        asked.append((question, tuple(choices)))
        return "many" if len(asked) == 1 else "12"

    async def main() -> ToolMessage:
        async with Servers(bench, ["asks"]) as servers:
            await servers.refresh()
            return await servers.call("asks__echo", clarify=clarify)

    assert json.loads(run_async(main()).content) == {"action": "accept", "content": {"n": 12}}
    assert asked[0][0].startswith("The MCP server 'asks' asks: How many?\nn")
    assert "That can not be used" in asked[1][0]


def test_a_question_that_nobody_can_answer_is_declined(bench: Any, run_async: Any) -> None:
    assert json.loads(str(once(bench, run_async, "asks").content)) == {"action": "decline"}


def test_the_time_that_a_person_takes_does_not_count(bench: Any, run_async: Any) -> None:
    async def clarify(question: str, choices: Sequence[str]) -> str:
        await asyncio.sleep(2.0)
        return "3"

    async def main() -> ToolMessage:
        async with Servers(bench, ["asks"], timeout=1.5) as servers:
            await servers.refresh()
            return await servers.call("asks__echo", clarify=clarify)

    assert json.loads(run_async(main()).content)["content"] == {"n": 3}


def test_a_question_ends_with_the_call_that_it_belongs_to(bench: Any, run_async: Any) -> None:
    ended: list[str] = []

    async def main() -> None:
        asked = asyncio.Event()

        async def clarify(question: str, choices: Sequence[str]) -> str:
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(question)
            return ""

        async with Servers(bench, ["asks"]) as servers:
            await servers.refresh()
            call = asyncio.create_task(servers.call("asks__echo", clarify=clarify))
            await asked.wait()
            call.cancel()
            await asyncio.wait({call})
            assert call.cancelled()
            await asyncio.sleep(0)
            assert len(ended) == 1

    run_async(main())


def test_a_callback_that_fails_cancels_the_question(bench: Any, run_async: Any) -> None:
    async def clarify(question: str, choices: Sequence[str]) -> str:
        raise OSError("the terminal is gone")

    async def main() -> ToolMessage:
        async with Servers(bench, ["asks"]) as servers:
            await servers.refresh()
            return await servers.call("asks__echo", clarify=clarify)

    assert json.loads(run_async(main()).content) == {"action": "cancel"}
