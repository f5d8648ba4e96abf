"""A server on a real loopback socket that answers each request with an exact script of bytes.

    async with ByteServer([sse(chunk(...), DONE)]) as server:
        ...  # POST to server.base_url

The answers are given in order, one for each request; the last one is repeated. Every request is kept in
`requests`. Nothing here knows HTTP beyond reading a request's head and length.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from socket import SO_LINGER, SOL_SOCKET
from types import TracebackType
from typing import Self


@dataclass
class Hold:
    """Stop sending here until `release` is set; `reached` is set when the script gets here."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)


class Reset:
    """Tear the connection down with a TCP reset."""


class Close:
    """Close the connection."""


Action = bytes | Hold | Reset | Close
Script = Sequence[Action]


@dataclass
class Request:
    line: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict[str, object]:
        value = json.loads(self.body)
        assert isinstance(value, dict)
        return value


def head(status: str = "200 OK", content_type: str = "text/event-stream", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-type: {content_type}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def chunked(*pieces: bytes, end: bool = True) -> list[Action]:
    """Pieces of a body in HTTP chunks, each sent on its own."""
    actions: list[Action] = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece]
    return [*actions, b"0\r\n\r\n"] if end else actions


def stream(*pieces: bytes, end: bool = True) -> list[Action]:
    """A whole answer: head, pieces, end."""
    return [head(transfer_encoding="chunked"), *chunked(*pieces, end=end)]


def plain(
    body: bytes, status: str = "200 OK", content_type: str = "application/json", **headers: str
) -> list[Action]:
    return [head(status, content_type, content_length=str(len(body)), **headers), body]


class ByteServer:
    def __init__(self, scripts: Sequence[Script], *, tls: ssl.SSLContext | None = None) -> None:
        self._scripts = list(scripts)
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.requests: list[Request] = []
        self.connections = 0
        self.sent = 0
        self.open = 0
        self.closed = asyncio.Condition()

    @property
    def base_url(self) -> str:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http{'s' if self._tls else ''}://{host}:{port}/v1"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def wait_until_open(self, count: int) -> None:
        """Wait until exactly `count` connections are open."""
        async with self.closed:
            await asyncio.wait_for(self.closed.wait_for(lambda: self.open == count), 120)

    async def wait_for_request(self, number: int) -> None:
        """Wait until so many requests came before the last one."""
        async with self.closed:
            await asyncio.wait_for(self.closed.wait_for(lambda: len(self.requests) > number), 120)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        self.open += 1
        try:
            while (request := await _read_request(reader)) is not None:
                script = self._scripts[min(len(self.requests), len(self._scripts) - 1)]
                self.requests.append(request)
                async with self.closed:
                    self.closed.notify_all()
                if not await self._play(script, reader, writer):
                    break
                if request.headers.get("connection") == "close":
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()
            self.open -= 1
            with contextlib.suppress(asyncio.CancelledError):
                async with self.closed:
                    self.closed.notify_all()

    async def _play(self, script: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        for action in script:
            match action:
                case bytes():
                    writer.write(action)
                    await writer.drain()
                    self.sent += len(action)
                    await asyncio.sleep(0)  # one write, one packet, as far as loopback goes
                case Hold():
                    action.reached.set()
                    if not await _released_before_hangup(action, reader):
                        return False
                case Reset():
                    sock = writer.get_extra_info("socket")
                    sock.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
                    writer.transport.abort()
                    return False
                case Close():
                    return False
        return True


async def _released_before_hangup(hold: Hold, reader: asyncio.StreamReader) -> bool:
    release = asyncio.ensure_future(hold.release.wait())
    hangup = asyncio.ensure_future(reader.read(1))
    done, pending = await asyncio.wait({release, hangup}, return_when=asyncio.FIRST_COMPLETED)
    for future in pending:
        future.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    if hangup in done:
        hangup.exception()
    return release in done


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    line, *rest = raw.decode("latin-1").rstrip().split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (row.partition(":") for row in rest)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(line, headers, body)
