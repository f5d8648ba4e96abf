"""Servers that never connect, or that are lost: what is said of them, and when they are started again."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest

from hermes_messages import ToolMessage
from hermes_messages.protocols import ToolSnapshot
from hermes_tools import Executor
from hermes_tools.mcp import McpToolset, read_servers, stdio
from hermes_tools.mcp.budget import ReconnectLimits
from mcp_help import Servers, once


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


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
