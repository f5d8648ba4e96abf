"""One server through all its connections: connected when it is needed, listed, called, connected again.

A call is sent once. If the connection is lost under it, it fails at once; the next call connects again, as
far as the budget allows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import TypeVar

import anyio
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestParams,
    ElicitResult,
    InputRequiredResult,
    ListResourcesResult,
    PaginatedRequestParams,
    ReadResourceResult,
    Tool,
)
from pydantic import TypeAdapter, ValidationError

from hermes_messages import HermesError, JsonObject
from hermes_messages.protocols import ClarifyCallback
from hermes_tools.errors import ToolFailure
from hermes_tools.failures import describe, place
from hermes_tools.mcp.budget import ReconnectBudget, ReconnectLimits
from hermes_tools.mcp.config import Server
from hermes_tools.mcp.connection import Connection, ConnectionLostError
from hermes_tools.mcp.elicitation import ask_user

__all__ = ["ActiveCall", "McpServer"]

logger: logging.Logger = logging.getLogger(__name__)

MOST_PAGES = 100
MOST_TOOLS = 1_000
MOST_INPUT_ROUNDS = 10
_STATE_ONLY_PAUSE_S = 0.1
MOST_QUESTIONS = 20
_CALLBACK_STOP_S = 1.0
_LONGEST_ERROR = 800
_NOT_REPEATED = "The call was under way and is not repeated; what it did until then stands."
_Answer = TypeVar("_Answer")

_TOOL_ANSWER: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(
    CallToolResult | InputRequiredResult
)


class ActiveCall:
    """A call that is being answered: whom the server may ask meanwhile, and how long it may take.

    The clock stands still while a person is asked.
    """

    def __init__(self, clarify: ClarifyCallback | None, limit_s: float) -> None:
        self._clarify = clarify
        self._limit_s = limit_s
        self._asking: set[asyncio.Task[ElicitResult]] = set()
        self._clock = asyncio.timeout(limit_s)
        self._over = False
        self._asked = 0

    async def __aenter__(self) -> None:
        await self._clock.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        for task in self._asking:
            task.cancel()
        await self._clock.__aexit__(kind, error, trace)

    async def ask(self, server: str, params: ElicitRequestParams) -> ElicitResult:
        """Put a question of the server to the user. Without a callback it is declined, and so is each that
        comes after many in one call: a server must not wear a person down."""
        self._asked += 1
        if self._clarify is None or self._asked > MOST_QUESTIONS:
            return ElicitResult(action="decline")
        if self._over or self._clock.expired():
            return ElicitResult(action="cancel")
        self._clock.reschedule(None)
        task = asyncio.ensure_future(ask_user(server, params, self._clarify))
        self._asking.add(task)
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
            await asyncio.wait({task}, timeout=_CALLBACK_STOP_S)
            self._asking.discard(task)
            if not self._asking and not self._over:
                self._clock.reschedule(asyncio.get_running_loop().time() + self._limit_s)
        if not task.done() or task.cancelled():
            return ElicitResult(action="cancel")
        if task.exception() is not None:
            logger.warning("the callback clarify failed: %r", task.exception())
            return ElicitResult(action="cancel")
        return task.result()


class McpServer:
    """The server that `config` tells of. `tools` are those of the last `refresh`, in the order of their
    names; `reason` says why there are none, where that is so."""

    def __init__(
        self, config: Server, environment: Mapping[str, str], limits: ReconnectLimits | None = None
    ) -> None:
        self.config = config
        self.tools: tuple[Tool, ...] = ()
        self.reason: str | None = "not started yet"
        self.has_resources: bool = False
        self.instructions: str = ""
        self._environment = environment
        self._budget = ReconnectBudget(limits or ReconnectLimits())
        self._connection: Connection | None = None
        self._connecting: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None
        self._trouble = ""
        self._active: list[ActiveCall] = []

    async def refresh(self) -> None:
        """Bring `tools` up to date: connect if need be, list what may have changed. Trouble becomes
        `reason`, never an exception."""
        try:
            opened = await self._connected()
            if self.reason is not None or opened.tools_changed or not opened.announces_changes:
                opened.tools_changed = False
                async with asyncio.timeout(self.config.connect_timeout):
                    await self._list_tools(opened)
            self.reason = None
        except TimeoutError:
            self._fail(f"it did not list its tools within {self.config.connect_timeout:g} s")
            await self._give_up()
        except MCPError as error:
            connection = self._connection
            if connection is not None and connection.is_loss(error):
                self._fail(str(await connection.why_lost(error.message)))
            else:
                self._fail(_error_text(error))
        except Exception as error:  # noqa: BLE001 - whatever a server does, the others and the turn go on
            if not isinstance(error, HermesError):
                logger.warning("asking MCP server %s failed: %s", self.config.name, place(error))
            self._fail(_error_text(error))

    async def call(
        self, tool: str, arguments: JsonObject, clarify: ClarifyCallback | None, progress: ProgressFnT
    ) -> CallToolResult:
        """Call a tool once. Raises `ToolFailure`."""

        async def send(connection: Connection, active: ActiveCall) -> CallToolResult:
            params = CallToolRequestParams(name=tool, arguments=arguments)
            for _ in range(MOST_INPUT_ROUNDS):
                request = CallToolRequest(params=params)
                # Not session.call_tool: it checks the answer against a schema of the server's making.
                answer = await connection.session.send_request(
                    request, _TOOL_ANSWER, progress_callback=progress
                )
                if isinstance(answer, CallToolResult):
                    return answer
                params = await self._with_input(params, answer, active)
            raise ToolFailure(f"the server asked for input more than {MOST_INPUT_ROUNDS} times")

        return await self._request(send, clarify)

    async def list_resources(self) -> ListResourcesResult:
        """The first page of the server's resources. Raises `ToolFailure`."""

        async def send(connection: Connection, active: ActiveCall) -> ListResourcesResult:  # noqa: ARG001
            return await connection.session.list_resources()

        return await self._request(send, None)

    async def read_resource(self, uri: str) -> ReadResourceResult:
        """One resource. Raises `ToolFailure`."""

        async def send(connection: Connection, active: ActiveCall) -> ReadResourceResult:  # noqa: ARG001
            return await connection.session.read_resource(uri)

        return await self._request(send, None)

    async def close(self) -> None:
        """End the connection, and the process with it. Idempotent; the server can be used again."""
        connection, self._connection = self._connection, None
        self.reason, self.tools = "not started yet", ()
        if connection is not None and connection.loop is asyncio.get_running_loop():
            await connection.close()

    async def _request(
        self, send: Callable[[Connection, ActiveCall], Awaitable[_Answer]], clarify: ClarifyCallback | None
    ) -> _Answer:
        """One request to the end, or `ToolFailure` with what became of it."""
        name = self.config.name
        try:
            connection = await self._connected()
        except ConnectionLostError as error:
            raise ToolFailure(f"{error}\nThe call was not sent.") from None
        active = ActiveCall(clarify, self.config.timeout)
        self._active.append(active)
        try:
            async with active:
                answer = await send(connection, active)
        except TimeoutError:
            text = (
                f"MCP server {name!r} gave no answer within {self.config.timeout:g} s; it was told to stop."
            )
            raise ToolFailure(text, status="timed_out") from None
        except MCPError as error:
            if not connection.is_loss(error):
                connection.answered = True
                raise ToolFailure(f"MCP server {name!r}: {_error_text(error)}") from None
            lost = await connection.why_lost(error.message)
            raise ToolFailure(f"{lost}\n{_NOT_REPEATED}") from None
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            lost = await connection.why_lost(describe(error))
            raise ToolFailure(f"{lost}\n{_NOT_REPEATED}") from None
        except ValidationError as error:
            raise ToolFailure(f"MCP server {name!r}: {_error_text(error)}") from None
        finally:
            self._active.remove(active)
        connection.answered = True
        return answer

    async def _connected(self) -> Connection:
        """The connection, opened if there is none. Raises `ConnectionLostError`."""
        loop = asyncio.get_running_loop()
        if self._connecting is None or self._connecting[0] is not loop:
            self._connecting = (loop, asyncio.Lock())
        async with self._connecting[1]:
            current = self._connection
            if current is not None and current.loop is loop and current.usable:
                return current
            await self._drop(current, loop)
            wait_s = self._budget.wait_s(loop.time())
            if wait_s > 0:
                raise ConnectionLostError(
                    f"MCP server {self.config.name!r} is not available: {self._budget.used} starts in a row "
                    f"did not last; the next one is allowed in {wait_s:.0f} s. "
                    f"The last trouble: {self._trouble}"
                )
            begun = loop.time()
            self._budget.started(begun)
            connection = Connection(self.config, self._environment, self._ask)
            try:
                await connection.open()
            except ConnectionLostError as error:
                self._trouble = str(error)
                self._budget.failed(loop.time(), loop.time() - begun)
                raise
            except BaseException:
                self._budget.withdrawn()
                raise
            self._connection = connection
            self.instructions = connection.instructions
            self.has_resources = connection.capabilities.resources is not None
            return connection

    async def _give_up(self) -> None:
        """End a connection that does not do its work; the next start is some time off."""
        connection, self._connection = self._connection, None
        self._trouble = self.reason or ""
        self._budget.failed(asyncio.get_running_loop().time(), self.config.connect_timeout)
        if connection is not None:
            await connection.close()

    async def _drop(self, old: Connection | None, loop: asyncio.AbstractEventLoop) -> None:
        """Put a connection aside that can not be used: it ended, or its loop has."""
        if old is None:
            return
        self._connection = None
        self._budget.ended(old.up_s, answered=old.answered)
        if old.loop is loop:
            self._trouble = str(old.lost_error())
            await old.close()

    async def _list_tools(self, connection: Connection) -> None:
        """All pages, as long as they bring something new."""
        found: dict[str, Tool] = {}
        if connection.capabilities.tools is not None:
            cursor: str | None = None
            seen: set[str] = set()
            for _ in range(MOST_PAGES):
                page = await connection.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
                connection.answered = True
                for tool in page.tools:
                    found.setdefault(tool.name, tool)
                cursor = page.next_cursor
                if not cursor or cursor in seen or len(found) > MOST_TOOLS:
                    break
                seen.add(cursor)
            if cursor:
                logger.warning(
                    "MCP server %s lists its tools without an end; %d are taken", self.config.name, len(found)
                )
        self.tools = tuple(found[name] for name in sorted(found)[:MOST_TOOLS])

    def _fail(self, reason: str) -> None:
        self.reason = reason.removeprefix(f"MCP server {self.config.name!r}: ")
        self.tools = ()
        self.has_resources = False

    async def _ask(self, params: ElicitRequestParams) -> ElicitResult:
        """A question of the server's own: it belongs to the call that was sent last."""
        if not self._active:
            return ElicitResult(action="decline")
        return await self._active[-1].ask(self.config.name, params)

    async def _with_input(
        self, params: CallToolRequestParams, asked: InputRequiredResult, active: ActiveCall
    ) -> CallToolRequestParams:
        """The parameters of the request that carries what the server asked for."""
        responses: dict[str, ElicitResult] = {}
        for key, request in (asked.input_requests or {}).items():
            if not isinstance(request, ElicitRequest):
                raise ToolFailure(f"the server asks for {request.method}, which is not offered here")
            responses[key] = await active.ask(self.config.name, request.params)
        if not responses:
            await asyncio.sleep(_STATE_ONLY_PAUSE_S)
        return params.model_copy(
            update={"input_responses": responses or None, "request_state": asked.request_state}
        )


def _error_text(error: Exception) -> str:
    match error:
        case MCPError():
            return f"{error.message.strip() or 'an error without a text'} (code {error.code})"[
                :_LONGEST_ERROR
            ]
        case ValidationError():
            what = "; ".join(
                f"{'.'.join(map(str, part['loc']))}: {part['msg']}"
                for part in error.errors(include_input=False, include_url=False)[:3]
            )
            return f"its answer does not follow the protocol: {what}"[:_LONGEST_ERROR]
        case _:
            return describe(error)
