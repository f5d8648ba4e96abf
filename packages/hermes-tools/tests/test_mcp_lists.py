"""The tools that a server lists: all its pages, its changes, its names, and lists that are broken."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_messages.protocols import ToolSnapshot
from mcp_help import Servers


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
