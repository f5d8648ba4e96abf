"""A model's host on a loopback socket: a test says what it answers."""

from __future__ import annotations

import asyncio
import json
from types import TracebackType
from typing import Any, Self

__all__ = ["SocketHost"]


class SocketHost:
    """Answers each POST on a connection of its own with what `respond` says.

    A body with the status 200 is sent as server-sent events, any other as JSON. `address` and `port` are
    known inside `async with`.
    """

    headers = ""
    """Further ones, each after a line end."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def respond(self, asked: dict[str, Any]) -> tuple[str, str]:
        """Status line and body for the request `asked`."""
        raise NotImplementedError

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.split("content-length:")[1].split("\r\n")[0])
        status, body = await self.respond(json.loads(await reader.readexactly(length)))
        kind = "text/event-stream" if status.startswith("200") else "application/json"
        start = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close{self.headers}"
        writer.write(f"{start}\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()
        await writer.wait_closed()
