"""Small builders of wire data and of providers that the tests share."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Sequence
from contextlib import aclosing
from itertools import pairwise
from typing import Any, TypeVar

from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    ChatResponse,
    History,
    Message,
    ResponseDone,
    StreamEvent,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hermes_messages.protocols import Provider, ProviderOptions
from hermes_providers import HttpProvider, custom

T = TypeVar("T")

DONE = b"data: [DONE]\n\n"
KEY = "sk-test-0123456789abcdef"
SPEC = ToolSpec.from_schema(
    "read_file", "Read a text file.", {"type": "object", "properties": {"path": {"type": "string"}}}
)
ODD_SPEC = ToolSpec.from_schema(
    "mcp.server/读 file",
    "A tool whose name and schema no host takes as they are.",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "oneOf": [
            {"properties": {"line": {"type": "integer"}}, "required": ["line"]},
            {"properties": {"word": {"type": "string"}}, "required": ["word"]},
        ],
    },
)
ODD_ROUND = (
    UserMessage("Read."),
    AssistantMessage(None, (ToolCall("call_1", ODD_SPEC.name, '{"line":1}'),)),
    ToolMessage("call_1", "text", ODD_SPEC.name),
)


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def event(value: object) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def chunk(delta: object = None, finish: object = None, **more: object) -> dict[str, object]:
    return {
        "id": "r1",
        "model": "m-1",
        "choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}],
        **more,
    }


def text_answer(*pieces: str, usage: object = None) -> bytes:
    """A whole tidy stream."""
    events = [event(chunk({"content": piece})) for piece in pieces] + [event(chunk({}, "stop"))]
    if usage is not None:
        events.append(event({"id": "r1", "model": "m-1", "choices": [], "usage": usage}))
    return b"".join(events) + DONE


def ask(*messages: Message, tools: tuple[ToolSpec, ...] = (), **more: Any) -> ChatRequest:
    more = {"model": "m-1", **more}
    return ChatRequest(history=History.of(messages or (UserMessage("hi"),)), tools=tools, **more)


async def collect(provider: Provider, request: ChatRequest | None = None) -> list[StreamEvent]:
    async with aclosing(provider.stream(request or ask())) as events:
        return [item async for item in events]


async def answer(provider: Provider, request: ChatRequest | None = None) -> ChatResponse:
    last = (await collect(provider, request))[-1]
    assert isinstance(last, ResponseDone)
    return last.response


def provider_at(base_url: str, **settings: Any) -> HttpProvider:
    made = custom(ProviderOptions(base_url=base_url, api_key=KEY, settings={"first_event_s": 20, **settings}))
    assert isinstance(made, HttpProvider)
    return made


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    """`data` cut at the given places."""
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(bounds)]
