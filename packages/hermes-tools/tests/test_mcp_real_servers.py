"""Servers of others: the reference servers (Node, from .ci/node) and mcp-server-time, on both transports."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from quiet_port import quiet_port

from hermes_messages import ToolMessage
from hermes_messages.protocols import ExecutorOptions
from hermes_tools import Executor, build_executor

ROOT = Path(__file__).resolve().parents[3]
MODULES = ROOT / ".cache" / "node" / "node_modules" / "@modelcontextprotocol"
EVERYTHING = MODULES / "server-everything" / "dist" / "index.js"
FILESYSTEM = MODULES / "server-filesystem" / "dist" / "index.js"
TIME = Path(sys.executable).with_name("mcp-server-time")
MARK = "HERMES_TEST_MARK"

needs_node = pytest.mark.skipif(
    not EVERYTHING.is_file() or shutil.which("node") is None,
    reason="needs node and the packages of .ci/node: python3 .ci/node_packages.py installs them",
)
needs_time = pytest.mark.skipif(not TIME.is_file(), reason="needs mcp-server-time (group mcp-servers)")


def executor(bench: Any, **servers: Any) -> Executor:
    for server in servers.values():
        if "command" in server:
            server["env"] = {MARK: bench.mark, **server.get("env", {})}
    built = build_executor([], ExecutorOptions(cwd=str(bench.workspace), settings={"mcp_servers": servers}))
    assert isinstance(built, Executor)
    return built


def results(bench: Any, run_async: Any, built: Executor, *calls: Any, **context: Any) -> list[ToolMessage]:
    async def main() -> list[ToolMessage]:
        try:
            snapshot = await built.refresh(bench.turn())
            assert not snapshot.unavailable
            outcome = await built.execute(calls, bench.context(**context))
            again = await built.refresh(bench.turn())
            assert again.tools == snapshot.tools  # the same bytes in each turn
        finally:
            await built.close()
        return [result for result in outcome.results if result is not None]

    found: list[ToolMessage] = run_async(main())
    return found


async def clarify(question: str, choices: Sequence[str]) -> str:
    if "name" in question:
        return "Ada"
    return choices[0] if choices else ""


class EverythingOverHttp:
    """server-everything on a port of its own; it can be started anew."""

    def __init__(self) -> None:
        self.port = quiet_port()
        self.process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def start_anywhere(self) -> None:
        """For the first time; where another program took the port meanwhile, at another."""
        while not self.start():
            self.port = quiet_port()

    def start(self) -> bool:
        """Whether it listens."""
        self.process = subprocess.Popen(
            ["node", str(EVERYTHING), "streamableHttp"],
            env={**os.environ, "PORT": str(self.port)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        said = ""
        for line in self.process.stderr:
            said += line
            if f"listening on port {self.port}" in line:
                return True
        self.process.wait()
        assert "EADDRINUSE" in said or "already in use" in said, said
        return False

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()


@pytest.fixture
def http_server(bench: Any) -> Iterator[EverythingOverHttp]:
    server = EverythingOverHttp()
    server.start_anywhere()
    yield server
    server.stop()


def everything_calls(bench: Any) -> list[Any]:
    return [
        bench.call("all__echo", {"message": "hi"}),
        bench.call("all__get-sum", {"a": "1", "b": 2}),
        bench.call("all__get-tiny-image"),
        bench.call("all__get-structured-content", {"location": "New York"}),
        bench.call("all__get-resource-links", {"count": 1}),
        bench.call("all__get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
        bench.call("all__trigger-elicitation-request"),
        bench.call("all__trigger-long-running-operation", {"duration": 0.2, "steps": 2}),
        bench.call("all__read_resource", {"uri": "demo://resource/static/document/architecture.md"}),
        bench.call("all__list_resources"),
    ]


def check_everything(found: list[ToolMessage]) -> None:
    texts = [str(result.content) for result in found]
    assert [result.status for result in found] == ["ok"] * len(found), texts
    assert texts[0] == "Echo: hi"
    assert texts[1] == "The sum of 1 and 2 is 3."
    assert "[image: image/png, 4,033 bytes, not shown]" in texts[2]
    assert set(json.loads(texts[3])) == {"temperature", "conditions", "humidity"}
    assert "[resource link: demo://resource/dynamic/" in texts[4]
    assert "[resource demo://resource/dynamic/text/1 (text/plain)]\nResource 1" in texts[5]
    assert '"name": "Ada"' in texts[6]
    assert '"action": "accept"' in texts[6]
    assert texts[7].startswith("Long running operation completed")
    assert texts[8].startswith("[resource demo://resource/static/document/architecture.md")
    assert "demo://resource/static/document/" in texts[9]


@needs_node
def test_everything_over_stdio(bench: Any, run_async: Any) -> None:
    reports: list[str] = []
    server = {"command": "node", "args": [str(EVERYTHING), "stdio"], "tools": {"resources": True}}
    found = results(
        bench, run_async, executor(bench, all=server), *everything_calls(bench), clarify=clarify,
        tool_progress=lambda call, text: reports.append(text),
    )  # fmt: skip
    check_everything(found)
    assert reports == ["1 of 2", "2 of 2"]


@needs_node
def test_everything_over_streamable_http(bench: Any, run_async: Any, http_server: EverythingOverHttp) -> None:
    server = {"url": http_server.url, "tools": {"resources": True}}
    found = results(bench, run_async, executor(bench, all=server), *everything_calls(bench), clarify=clarify)
    check_everything(found)


@needs_node
def test_a_server_over_http_that_is_restarted_is_found_again(
    bench: Any, run_async: Any, http_server: EverythingOverHttp
) -> None:
    async def main() -> list[Any]:
        built = executor(bench, all={"url": http_server.url})

        async def echo(text: str) -> Any:
            outcome = await built.execute([bench.call("all__echo", {"message": text})], bench.context())
            return outcome.results[0]

        try:
            await built.refresh(bench.turn())
            first = await echo("1")
            http_server.stop()
            gone = await echo("2")
            assert http_server.start()
            return [first, gone, await echo("3"), await echo("4")]
        finally:
            await built.close()

    first, gone, _, well = run_async(main())
    assert first.content == "Echo: 1"
    assert gone.status == "error"
    assert "is not repeated" in gone.content
    assert well.content == "Echo: 4"


@needs_node
def test_a_session_that_a_restarted_server_does_not_know_is_begun_anew(
    bench: Any, run_async: Any, http_server: EverythingOverHttp
) -> None:
    async def main() -> list[Any]:
        built = executor(bench, all={"url": http_server.url})
        try:
            await built.refresh(bench.turn())
            http_server.stop()
            assert http_server.start()
            outcomes = [
                await built.execute([bench.call("all__echo", {"message": str(n)})], bench.context())
                for n in range(2)
            ]
            return [outcome.results[0] for outcome in outcomes]
        finally:
            await built.close()

    lost, well = run_async(main())
    assert lost.status == "error"
    assert well.content == "Echo: 1"


@needs_node
def test_files_of_the_workspace_and_no_others(bench: Any, run_async: Any) -> None:
    (bench.workspace / "a.txt").write_text("text of a")
    server = {"command": "node", "args": [str(FILESYSTEM), str(bench.workspace)]}
    read, outside, wrote = results(
        bench,
        run_async,
        executor(bench, fs=server),
        bench.call("fs__read_text_file", {"path": str(bench.workspace / "a.txt")}),
        bench.call("fs__read_text_file", {"path": "/etc/passwd"}),
        bench.call("fs__write_file", {"path": str(bench.workspace / "b.txt"), "content": "b"}),
    )
    assert read.content == "text of a"
    assert outside.status == "error"
    assert "Access denied" in str(outside.content)
    assert wrote.status == "ok"
    assert (bench.workspace / "b.txt").read_text() == "b"


@needs_time
def test_a_server_of_the_newest_protocol(bench: Any, run_async: Any) -> None:
    now, wrong = results(
        bench,
        run_async,
        executor(bench, clock={"command": str(TIME)}),
        bench.call(
            "clock__convert_time",
            {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
        ),
        bench.call("clock__get_current_time", {"timezone": "Mars/Olympus"}),
    )
    assert json.loads(str(now.content))["target"]["datetime"].endswith("T21:00:00+09:00")
    assert wrong.status == "error"


@pytest.mark.parametrize(("way", "protocol"), [("new", "auto"), ("old", "legacy")])
def test_the_sdk_s_own_server_asks_the_user_in_both_ways(
    bench: Any, run_async: Any, way: str, protocol: str
) -> None:
    async def seven(question: str, choices: Sequence[str]) -> str:
        assert question.startswith("The MCP server 'shop' asks: How many?")
        return "7"

    def order(**context: Any) -> str:
        script = str(Path(__file__).with_name("asking_server.py"))
        shop = {"command": sys.executable, "args": [script, way], "protocol": protocol}
        [result] = results(bench, run_async, executor(bench, shop=shop), bench.call("shop__order"), **context)
        return str(result.content)

    answered, unanswered = order(clarify=seven), order()
    if way == "new":
        assert answered == "{'action': 'accept', 'content': {'n': 7}} as it was"
        assert unanswered == "{'action': 'decline'} as it was"
    else:
        assert (answered, unanswered) == ("accept: n=7", "decline: None")


@needs_node
@needs_time
def test_reading_tools_run_together_and_others_alone(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        built = executor(
            bench,
            fs={"command": "node", "args": [str(FILESYSTEM), str(bench.workspace)]},
            clock={"command": str(TIME)},
        )
        try:
            await built.refresh(bench.turn())
            classes = {tool.spec.name: tool.scheduling for tool in built._toolsets[0].tools}
        finally:
            await built.close()
        assert classes["fs__read_text_file"] == classes["clock__get_current_time"] == "parallel"
        assert classes["fs__write_file"] == "sequential"

    run_async(main())
