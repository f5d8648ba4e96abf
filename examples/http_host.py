"""An HTTP host: one agent per conversation, text as server-sent events, approvals in a request of their own.

Start it with OPENROUTER_API_KEY set, `python examples/http_host.py`, and POST `{"text": "Hello"}`
to `http://127.0.0.1:8000/conversations/anna/messages`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager

import uvicorn
from agent_cache import AgentCache, CacheFullError
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel

from hermes_loop import AIAgent, ToolEnded, ToolStarted, TurnEnded, TurnEvent
from hermes_messages import ConfigurationError, JsonValue, TextDelta, ToolCall
from hermes_messages.approvals import Later, pending_to_json
from hermes_messages.protocols import ConversationResult
from hermes_store import SessionDB

__all__ = ["make_app"]


routes = APIRouter()


class Message(BaseModel):
    """What a person says."""

    text: str


class Decisions(BaseModel):
    """What a person decided, by call id: true, false, or `{"decision": "approve", "arguments": "{...}"}`."""

    decisions: dict[str, bool | dict[str, str | None]]


async def ask_later(_: ToolCall, __: str) -> Later:
    """Nobody can answer inside a request: the turn ends, and another request decides."""
    return Later()


def make_app(
    make_agent: Callable[[str, SessionDB], AIAgent],
    *,
    database: str = "conversations.db",
    turn_limit_s: float = 120,
    limit: int = 100,
    idle_s: float = 600,
) -> FastAPI:
    """The application. `make_agent` is given the conversation's name, its session id, and the one store."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        """Agents are closed before the store that they write to."""
        async with (
            SessionDB(database) as store,
            AgentCache(lambda name: make_agent(name, store), limit=limit, idle_s=idle_s) as cache,
        ):
            app.state.cache = cache
            app.state.turn_limit_s = turn_limit_s
            yield

    app = FastAPI(lifespan=lifespan)
    app.include_router(routes)
    app.add_exception_handler(CacheFullError, _status(503))
    app.add_exception_handler(ConfigurationError, _status(409))
    app.add_exception_handler(TimeoutError, _status(504))
    return app


def _status(code: int) -> Callable[[Request, Exception], JSONResponse]:
    def respond(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, status_code=code)

    return respond


@routes.post("/conversations/{name}/messages")
async def message(name: str, body: Message, request: Request) -> dict[str, object]:
    """One turn, to its end."""
    async with _cache(request).agent(name) as agent:
        return answer(await in_time(request, agent.run_conversation(body.text)))


@routes.post("/conversations/{name}/stream")
async def stream(name: str, body: Message, request: Request) -> StreamingResponse:
    """One turn, as server-sent events. A client that goes away cancels it."""

    async def events() -> AsyncIterator[str]:
        async with _cache(request).agent(name) as agent, aclosing(agent.stream(body.text)) as turn:
            yield ""
            async for event in turn:
                if line := shown(event):
                    yield f"data: {json.dumps(line)}\n\n"

    # Begun here: a full cache, and a message that is refused, are told before the first event.
    begun = events()
    await anext(begun)
    return StreamingResponse(begun, media_type="text/event-stream")


@routes.get("/conversations/{name}/approvals")
async def approvals(name: str, request: Request) -> list[object]:
    """The calls that wait for a decision, also those of a process that is gone."""
    async with _cache(request).agent(name) as agent:
        waiting = await agent.pending_approvals()
    rows = pending_to_json(waiting)
    return [
        {**row, "fingerprint": item.fingerprint}
        for row, item in zip(rows if isinstance(rows, list) else [], waiting, strict=True)
        if isinstance(row, dict)
    ]


@routes.post("/conversations/{name}/approvals")
async def decide(name: str, body: Decisions, request: Request) -> dict[str, object]:
    """Finish the turn that waits. Decisions that do not fit what waits are refused with 409."""
    decisions: dict[str, bool | Mapping[str, JsonValue]] = {
        call: given if isinstance(given, bool) else {**given} for call, given in body.decisions.items()
    }
    async with _cache(request).agent(name) as agent:
        return answer(await in_time(request, agent.resume(decisions)))


def _cache(request: Request) -> AgentCache:
    cache: AgentCache = request.app.state.cache
    return cache


async def in_time(request: Request, turn: Awaitable[ConversationResult]) -> ConversationResult:
    """The result of a turn. Raises `TimeoutError` for one that takes too long, which is cancelled: its
    conversation is closed and saved, and the next turn works."""
    limit_s: float = request.app.state.turn_limit_s
    try:
        async with asyncio.timeout(limit_s):
            return await turn
    except TimeoutError:
        raise TimeoutError(f"the turn took longer than {limit_s:g} s") from None


def answer(result: ConversationResult) -> dict[str, object]:
    """What of a result a client needs."""
    return {
        "text": result["final_response"],
        "reason": result["turn_exit_reason"],
        "error": result["error"],
        "waiting": [*result["pending_approvals"]],
    }


def shown(event: TurnEvent) -> dict[str, object] | None:
    """What of an event a client is shown."""
    match event:
        case TextDelta(text=text):
            return {"type": "text", "text": text}
        case ToolStarted(call=call):
            return {"type": "tool", "name": call.name}
        case ToolEnded(call=call, result=result):
            return {"type": "tool_end", "name": call.name, "status": result.status}
        case TurnEnded(result=None):
            return {"type": "end", "reason": "cancelled"}
        case TurnEnded(result=result) if result is not None:
            return {"type": "end", **answer(result)}
        case _:
            return None


def openrouter_agent(name: str, store: SessionDB) -> AIAgent:
    """An agent with a terminal that asks before every command."""
    return AIAgent(
        provider="openrouter",
        model="anthropic/claude-sonnet-4.5",
        enabled_toolsets=["file", "terminal"],
        approval_policy={"rules": [{"action": "ask", "tool": "terminal"}]},
        approval_callback=ask_later,
        session_db=store,
        session_id=name,
    )


if __name__ == "__main__":
    uvicorn.run(make_app(openrouter_agent), port=8000, timeout_graceful_shutdown=10)
