"""HTTP servers that misbehave: each a real socket that answers by hand."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hermes_messages.protocols import ExecutorOptions
from hermes_tools import Executor, build_executor

TOKEN = "head-secret-0123456789"


class HandmadeServer:
    """Answers the protocol of 2025-11-25 in JSON; `mode` says what it does to a call."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.calls = 0
        self.connections: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> str:
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/mcp"

    async def __aexit__(self, *_: object) -> None:
        self.server.close()
        for connection in self.connections:
            connection.cancel()
        if self.connections:
            await asyncio.wait(self.connections)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self.connections.add(connection)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(
                    (
                        int(line.split(b":")[1])
                        for line in head.lower().split(b"\r\n")
                        if b"content-length" in line
                    ),
                    0,
                )
                body = await reader.readexactly(length)
                await self.answer(head, json.loads(body) if body else {}, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client has gone, or the test is over
        finally:
            writer.close()

    async def answer(self, head: bytes, message: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        method = message.get("method", "")
        if self.mode == "401":
            self.reply(writer, "401 Unauthorized", {"token": TOKEN})
        elif not head.startswith(b"POST"):
            self.reply(writer, "405 Method Not Allowed", {})
        elif "id" not in message:
            self.reply(writer, "202 Accepted", None)
        elif method == "initialize":
            info = {"name": "handmade", "version": "1"}
            self.result(
                writer, message, protocolVersion="2025-11-25", capabilities={"tools": {}}, serverInfo=info
            )
        elif method == "tools/list":
            self.result(writer, message, tools=[{"name": "echo", "inputSchema": {"type": "object"}}])
        elif method == "tools/call":
            await self.call(message, writer)
        else:
            error = {"code": -32601, "message": "Method not found"}
            self.reply(writer, "200 OK", {"jsonrpc": "2.0", "id": message["id"], "error": error})

    async def call(self, message: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        self.calls += 1
        if self.mode == "dies":
            writer.transport.abort()
        elif self.mode == "silent":
            await asyncio.Event().wait()
        elif self.mode == "not json":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi")
        else:
            text = "x" * (5 * 1024 * 1024) if self.mode == "big" else "well"
            self.result(writer, message, content=[{"type": "text", "text": text}])

    def result(self, writer: asyncio.StreamWriter, message: dict[str, Any], **result: Any) -> None:
        self.reply(writer, "200 OK", {"jsonrpc": "2.0", "id": message["id"], "result": result})

    def reply(self, writer: asyncio.StreamWriter, status: str, body: dict[str, Any] | None) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        writer.write(head.encode() + data)


def executor(url: str, **settings: Any) -> Executor:
    server = {"url": url, "headers": {"Authorization": f"Bearer {TOKEN}"}, **settings}
    built = build_executor([], ExecutorOptions(cwd=".", settings={"mcp_servers": {"one": server}}))
    assert isinstance(built, Executor)
    return built


def call(bench: Any, run_async: Any, server: HandmadeServer, **settings: Any) -> Any:
    async def main() -> Any:
        async with server as url:
            built = executor(url, **settings)
            try:
                snapshot = await built.refresh(bench.turn())
                assert not snapshot.unavailable
                outcome = await built.execute([bench.call("one__echo")], bench.context())
            finally:
                await built.close()
            return outcome.results[0]

    return run_async(main())


def test_a_connection_that_breaks_under_a_call_fails_it_once(bench: Any, run_async: Any) -> None:
    server = HandmadeServer("dies")
    result = call(bench, run_async, server)
    assert result.status == "error"
    assert "Server disconnected" in result.content or "ReadError" in result.content
    assert "TaskGroup" not in result.content
    assert server.calls == 1


def test_a_call_over_http_that_is_never_answered_times_out(bench: Any, run_async: Any) -> None:
    result = call(bench, run_async, HandmadeServer("silent"), timeout=0.3)
    assert result.status == "timed_out"


def test_5_megabytes_over_http_arrive(bench: Any, run_async: Any) -> None:
    result = call(bench, run_async, HandmadeServer("big"))
    assert result.status == "ok"
    assert "characters left out" in result.content


def test_an_answer_that_is_no_json_is_an_error(bench: Any, run_async: Any) -> None:
    result = call(bench, run_async, HandmadeServer("not json"))
    assert result.content == "MCP server 'one': Unexpected content type: text/html (code -32600)"


def test_a_refusal_says_its_status_and_no_credential(bench: Any, run_async: Any, caplog: Any) -> None:
    async def main() -> Any:
        async with HandmadeServer("401") as url:
            built = executor(url)
            snapshot = await built.refresh(bench.turn())
            await built.close()
            return snapshot

    with caplog.at_level("DEBUG"):
        [absent] = run_async(main()).unavailable
    assert "HTTP 401 Unauthorized" in absent.reason
    assert TOKEN not in absent.reason
    assert TOKEN not in caplog.text  # at the lowest level, the SDK's and the client's loggers included


def test_a_port_where_nobody_listens_is_a_reason(bench: Any, run_async: Any) -> None:
    async def main() -> Any:
        async with HandmadeServer("") as url:
            pass
        built = executor(url)
        snapshot = await built.refresh(bench.turn())
        await built.close()
        return snapshot

    [absent] = run_async(main()).unavailable
    assert absent.reason.startswith("ConnectError: All connection attempts failed")
    assert "TaskGroup" not in absent.reason


def test_closing_does_not_wait_for_a_server_that_is_silent(
    bench: Any, run_async: Any, wait_until: Any
) -> None:
    async def main() -> None:
        server = HandmadeServer("silent")
        async with server as url:
            built = executor(url)
            await built.refresh(bench.turn())
            running = asyncio.create_task(built.execute([bench.call("one__echo")], bench.context()))
            await wait_until(lambda: server.calls)
            running.cancel()
            await asyncio.wait({running})
            await built.close()

    run_async(main())
