"""Small builders of Messages-wire data that the tests share."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from msgspec import Raw

from hermes_messages import ChatRequest, ChatResponse, History, JsonValue, Message, ProviderError
from hermes_messages.assembler import StreamAssembler
from hermes_messages.parts import Origin, Replay
from hermes_messages.protocols import ProviderOptions
from hermes_providers import HttpProvider
from hermes_providers.entry_points import from_profile
from hermes_providers.streaming.sse import SSEParser
from hermes_providers.wire.anthropic_format import make_wire
from hermes_providers.wire.anthropic_quirks import AnthropicQuirks
from hermes_providers.wire.anthropic_request import AnthropicRequestBuilder
from hermes_providers.wire.anthropic_stream import AnthropicStreamReader
from hermes_providers.wire.base import WireFormat, WireSettings

MODEL = "claude-sonnet-4-5"
ORIGIN = Origin("anthropic", "api.anthropic.com", MODEL)
KEY = "sk-ant-0123456789abcdef"


def settings(quirks: AnthropicQuirks | None = None, **more: Any) -> WireSettings:
    return WireSettings(
        base_url="https://api.anthropic.com",
        provider="anthropic",
        host="api.anthropic.com",
        quirks=quirks,
        **more,
    )


def builder(quirks: AnthropicQuirks | None = None, **more: Any) -> AnthropicRequestBuilder:
    made = wire(quirks, **more).builder
    assert isinstance(made, AnthropicRequestBuilder)
    return made


def wire(quirks: AnthropicQuirks | None = None, **more: Any) -> WireFormat:
    return make_wire(settings(quirks, **more))


def ask(*messages: Message, model: str = MODEL, **more: Any) -> ChatRequest:
    return ChatRequest(model=model, history=History.of(messages), **more)


def body(*messages: Message, quirks: AnthropicQuirks | None = None, **more: Any) -> dict[str, Any]:
    value = json.loads(builder(quirks).build(ask(*messages, **more)))
    assert isinstance(value, dict)
    return value


def unmarked(value: Any) -> Any:
    """JSON without cache markers."""
    match value:
        case dict():
            return {key: unmarked(item) for key, item in value.items() if key != "cache_control"}
        case list():
            return [unmarked(item) for item in value]
        case _:
            return value


def wired(*messages: Message, **more: Any) -> list[dict[str, Any]]:
    found = unmarked(body(*messages, **more))["messages"]
    assert isinstance(found, list)
    return found


def replay(*blocks: Mapping[str, object] | bytes, origin: Origin = ORIGIN) -> Replay:
    raws = tuple(
        Raw(block if isinstance(block, bytes) else json.dumps(block, separators=(",", ":")).encode())
        for block in blocks
    )
    return Replay(origin, "anthropic_messages", raws)


def event(value: Mapping[str, object]) -> bytes:
    """One event as the host writes it."""
    data = json.dumps(value, ensure_ascii=False)
    return f"event: {value['type']}\ndata: {data}\n\n".encode()


def begin(**usage: int) -> dict[str, object]:
    message: dict[str, object] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 25, "output_tokens": 1, **usage},
    }
    return {"type": "message_start", "message": message}


def block(index: int, start: Mapping[str, object], *deltas: Mapping[str, object]) -> list[dict[str, object]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text_block(index: int, *pieces: str) -> list[dict[str, object]]:
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    return block(index, {"type": "text", "text": ""}, *deltas)


def thinking_block(index: int, signature: str, *pieces: str) -> list[dict[str, object]]:
    deltas: list[dict[str, object]] = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
    deltas.append({"type": "signature_delta", "signature": signature})
    return block(index, {"type": "thinking", "thinking": "", "signature": ""}, *deltas)


def call_block(index: int, call_id: str, name: str, *pieces: str) -> list[dict[str, object]]:
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block(index, {"type": "tool_use", "id": call_id, "name": name, "input": {}}, *deltas)


def end(reason: str | None = "end_turn", **usage: object) -> list[dict[str, object]]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 15, **usage}},
        {"type": "message_stop"},
    ]


def whole(*events: Mapping[str, object]) -> bytes:
    return b"".join(event(item) for item in events)


def tidy(*blocks: Sequence[Mapping[str, object]], reason: str = "end_turn", **usage: object) -> bytes:
    """A whole stream around content blocks."""
    inner = [item for events in blocks for item in events]
    return whole(begin(), {"type": "ping"}, *inner, *end(reason, **usage))


def refuse(payload: bytes | str) -> ProviderError:
    raise AssertionError(f"read as an error: {payload!r}")


def read(stream: bytes, cuts: Sequence[int] = (), *, complete: bool = True) -> ChatResponse:
    """What the reader and the assembler make of `stream`, cut at any places."""
    reader = AnthropicStreamReader(refuse)
    assembler = StreamAssembler(ORIGIN, "anthropic_messages")
    parser = SSEParser()
    bounds = [0, *sorted(place % (len(stream) + 1) for place in cuts), len(stream)]
    events = [found for start, stop in pairwise(bounds) for found in parser.feed(stream[start:stop])]
    for server_event in (*events, *parser.close()):
        for delta in reader.feed(server_event):
            assembler.feed(delta)
    for delta in reader.close():
        assembler.feed(delta)
    return assembler.finish(complete=reader.done if complete else False)


def read_plain(answer: Mapping[str, object]) -> ChatResponse:
    reader = AnthropicStreamReader(refuse)
    assembler = StreamAssembler(ORIGIN, "anthropic_messages")
    for delta in (*reader.read_plain(json.dumps(answer).encode()), *reader.close()):
        assembler.feed(delta)
    return assembler.finish(complete=reader.done)


def provider_at(
    base_url: str, *, quirks: Mapping[str, JsonValue] | None = None, **settings: JsonValue
) -> HttpProvider:
    options = ProviderOptions(
        base_url=base_url,
        api_key=KEY,
        settings={"first_event_s": 20, "quirks": dict(quirks or {}), **settings},
    )
    return from_profile("anthropic", options)
