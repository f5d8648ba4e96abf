"""A server that is reached by streamable HTTP: the SDK's transport on a client with our limits.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage

from hermes_tools.mcp.config import HttpServer
from hermes_tools.mcp.framing import LONGEST_LINE, TextTail

__all__ = ["http_transport"]

_READ_TIMEOUT_S = 300.0


@asynccontextmanager
async def http_transport(
    server: HttpServer, tail: TextTail
) -> AsyncGenerator[tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]], None]:
    """The transport of one session with `server`, for the SDK's client. `tail` is told of refusals.

    What is sent waits in memory, so that a server that does not read holds up nobody who gives up on it.
    """

    async def note(response: httpx2.Response) -> None:
        if response.status_code >= 400 and response.request.method == "POST":
            tail.add(f"HTTP {response.status_code} {response.reason_phrase}")

    client = httpx2.AsyncClient(
        headers=dict(server.headers),
        timeout=httpx2.Timeout(server.connect_timeout, read=max(_READ_TIMEOUT_S, server.timeout)),
        event_hooks={"response": [note]},
    )
    to_server, sent = anyio.create_memory_object_stream[SessionMessage](math.inf)
    async with (
        client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=LONGEST_LINE) as streams,
        anyio.create_task_group() as group,
        to_server,
        sent,
    ):
        received, write = streams
        group.start_soon(_hand_on, sent, write)
        try:
            yield received, to_server
        finally:
            group.cancel_scope.cancel()


async def _hand_on(
    sent: MemoryObjectReceiveStream[SessionMessage], write: WriteStream[SessionMessage]
) -> None:
    try:
        async for item in sent:
            await write.send(item)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):  # the session ends
        return
