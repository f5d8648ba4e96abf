"""One connection with a server: a task of its own enters the transport, keeps it open and leaves it.

Transports and sessions hold cancel scopes, which must be left by the task that entered them; so nobody else
closes one. Others ask the owner to end, and send their requests through the session's queues.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from importlib.metadata import version

from mcp import Client
from mcp.client.session import ClientRequestContext, ClientSession, IncomingMessage
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    Implementation,
    ServerCapabilities,
    ToolListChangedNotification,
)

from hermes_messages import HermesError
from hermes_tools.failures import describe
from hermes_tools.mcp.config import Server, StdioServer
from hermes_tools.mcp.framing import TextTail
from hermes_tools.mcp.http import http_transport
from hermes_tools.mcp.stdio import StdioTransport
from hermes_tools.shielding import finish_despite_cancel

__all__ = ["Connection", "ConnectionLostError"]

logger: logging.Logger = logging.getLogger(__name__)

_REASON_WAIT_S = 1.0
_STOP_LIMIT_S = 9.0
_LEAVE_LIMIT_S = 7.0

Elicit = Callable[[ElicitRequestParams], Awaitable[ElicitResult]]
Transport = AbstractAsyncContextManager[
    tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]
]


class ConnectionLostError(HermesError):
    """There is no connection with the server, or no more. The text says why, and what it wrote last."""


class Connection:
    """One connection with `server`; `open` it once and `close` it, from any task of the loop."""

    def __init__(self, server: Server, environment: Mapping[str, str], elicit: Elicit) -> None:
        self.server = server
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.tools_changed: bool = True
        self.answered = False
        self._environment = environment
        self._elicit = elicit
        self._tail = TextTail()
        self._client: Client | None = None
        self._owner: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()
        self._leave = asyncio.Event()
        self._end_reason: str | None = None
        self._opened_at = self._ended_at = self.loop.time()

    @property
    def usable(self) -> bool:
        """Whether requests can be sent."""
        return self._client is not None and not self._leave.is_set() and self._owner_runs

    @property
    def up_s(self) -> float:
        """How long it stood, in seconds."""
        return (self._ended_at if self._end_reason else self.loop.time()) - self._opened_at

    @property
    def session(self) -> ClientSession:
        """The SDK's session. Raises `ConnectionLostError`."""
        if self._client is None or not self.usable:
            raise self.lost_error()
        return self._client.session

    @property
    def capabilities(self) -> ServerCapabilities:
        """What the server said it can do."""
        return self._client.server_capabilities if self._client is not None else ServerCapabilities()

    @property
    def instructions(self) -> str:
        """What the server says of its use."""
        return (self._client.instructions or "") if self._client is not None else ""

    @property
    def announces_changes(self) -> bool:
        """Whether the server tells when its tools change, so that they need not be listed again.

        Newer servers tell it only to those who subscribe; theirs are listed anew.
        """
        tools = self.capabilities.tools
        announced = tools is not None and bool(tools.list_changed)
        return announced and self._client is not None and self._client.session.initialize_result is not None

    async def open(self) -> None:
        """Start the owner and wait for the end of the handshake. Raises `ConnectionLostError`; then, and when
        it is cancelled, nothing is left open."""
        self._owner = asyncio.create_task(self._own(), name=f"MCP server {self.server.name}")
        try:
            await self._settled.wait()
        except BaseException:
            await self.close()
            raise
        if self._client is None or self._end_reason is not None:
            raise self.lost_error()

    async def close(self) -> None:
        """Have the owner leave, and wait until it has; bounded, also when cancelled. Idempotent."""
        self._leave.set()
        if self._owner is not None:
            await finish_despite_cancel(self._wait_for_owner, _STOP_LIMIT_S)

    async def why_lost(self, told: str) -> ConnectionLostError:
        """The reason of a loss of which a request was `told`; waits a moment for a better one."""
        self._lost(None if told.startswith("Connection closed") else told)
        if self._owner is not None and self._end_reason is None:
            await asyncio.wait({self._owner}, timeout=_REASON_WAIT_S)
        return self.lost_error()

    def is_loss(self, error: MCPError) -> bool:
        """Whether an error says that the connection is gone, or that the server no longer knows the session.

        The codes alone do not tell, since servers use them for what they like. Any refusal by HTTP counts:
        servers that were started anew refuse the old session in several ways.
        """
        if error.message.startswith(("Connection closed", "SSE stream")):
            return error.code == CONNECTION_CLOSED
        if isinstance(self.server, StdioServer):
            return False
        refused = error.code == INTERNAL_ERROR and error.message == "Server returned an error response"
        unknown = error.code in (CONNECTION_CLOSED, INVALID_REQUEST) and "session" in error.message.lower()
        return refused or unknown

    def lost_error(self) -> ConnectionLostError:
        """The error for a connection that is not there."""
        text = f"MCP server {self.server.name!r}: {self._end_reason or 'the connection was closed'}"
        said = str(self._tail)
        return ConnectionLostError(f"{text}; it wrote last:\n{said}" if said else text)

    @property
    def _owner_runs(self) -> bool:
        return self._owner is not None and not self._owner.done()

    def _lost(self, reason: str | None) -> None:
        if self._end_reason is None and reason is not None:
            self._end_reason = reason
            self._ended_at = self.loop.time()
        self._leave.set()

    async def _wait_for_owner(self) -> None:
        assert self._owner is not None
        if self._settled.is_set():  # else it is in the handshake, where it hears nothing
            await asyncio.wait({self._owner}, timeout=_LEAVE_LIMIT_S)
        if not self._owner.done():
            self._owner.cancel()
            await asyncio.wait({self._owner})

    async def _own(self) -> None:
        """The owner: everything is entered and left here, the handshake's time limit included."""
        limit_s = self.server.connect_timeout
        client = Client(
            self._transport(),
            cache=None,
            mode=self.server.protocol,
            elicitation_callback=self._on_elicitation,
            message_handler=self._on_message,
            client_info=Implementation(name="hermes-tools", version=version("hermes-tools")),
        )
        entering = asyncio.timeout(limit_s)
        try:
            async with AsyncExitStack() as stack:
                async with entering:
                    await stack.enter_async_context(client)
                self._client = client
                self._opened_at = self.loop.time()
                self._settled.set()
                await self._leave.wait()
        except asyncio.CancelledError:
            self._lost("the connection was cancelled")
            raise
        except Exception as error:  # noqa: BLE001 - the server's fault, whatever it is: those who wait are told
            timed_out = isinstance(error, TimeoutError) and entering.expired()
            self._lost(f"no handshake within {limit_s:g} s" if timed_out else _start_failure(error))
        finally:
            self._lost("the connection was closed")
            self._settled.set()

    def _transport(self) -> Transport:
        if isinstance(self.server, StdioServer):
            return StdioTransport(self.server, self._environment, self._tail, self._lost)
        return http_transport(self.server, self._tail)

    async def _on_elicitation(
        self,
        context: ClientRequestContext,  # noqa: ARG002 - the SDK's signature
        params: ElicitRequestParams,
    ) -> ElicitResult | ErrorData:
        return await self._elicit(params)

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self.tools_changed = True


def _start_failure(error: Exception) -> str:
    if isinstance(error, FileNotFoundError | PermissionError | NotADirectoryError):
        return f"it can not be started: {error.strerror}: {error.filename!r}"
    return describe(error)
