"""Builders of Gemini requests and answers that the tests of this wire share."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import Raw

from hermes_messages import ChatRequest, ChatResponse, History, JsonValue, Message, StreamEvent, UserMessage
from hermes_messages.assembler import StreamAssembler
from hermes_messages.parts import Origin, Replay
from hermes_messages.protocols import Provider, ProviderOptions
from hermes_providers import SSEParser, classify
from hermes_providers.entry_points import google
from hermes_providers.wire.base import WireSettings
from hermes_providers.wire.gemini_format import make_wire
from hermes_providers.wire.gemini_quirks import GeminiQuirks
from hermes_providers.wire.gemini_request import GeminiRequestBuilder
from hermes_providers.wire.gemini_stream import GeminiStreamReader
from wire_help import KEY

NEW = "gemini-3-flash"
OLD = "gemini-2.5-flash"
BASE_URL = "https://generativelanguage.googleapis.com/v1beta"
HOST = "generativelanguage.googleapis.com"
SIGNATURE = "EjQKMgEMOdbH"
USAGE = {
    "promptTokenCount": 100,
    "cachedContentTokenCount": 60,
    "candidatesTokenCount": 8,
    "thoughtsTokenCount": 12,
    "totalTokenCount": 120,
}


def builder(quirks: GeminiQuirks | None = None, **more: Any) -> GeminiRequestBuilder:
    fields = {"base_url": BASE_URL, "provider": "google", "host": HOST, "quirks": quirks, **more}
    made = make_wire(WireSettings(**fields)).builder
    assert isinstance(made, GeminiRequestBuilder)
    return made


def ask(*messages: Message, model: str = NEW, **more: Any) -> ChatRequest:
    return ChatRequest(model=model, history=History.of(messages or (UserMessage("hi"),)), **more)


def body(*messages: Message, quirks: GeminiQuirks | None = None, **more: Any) -> dict[str, Any]:
    value = json.loads(builder(quirks).build(ask(*messages, **more)))
    assert isinstance(value, dict)
    return value


def contents(*messages: Message, **more: Any) -> list[dict[str, Any]]:
    found = body(*messages, **more)["contents"]
    assert isinstance(found, list)
    return found


def replayed(*parts: object, model: str = NEW, wire: str = "gemini") -> Replay:
    return Replay(
        Origin("google", HOST, model), wire, tuple(Raw(msgspec.json.encode(part)) for part in parts)
    )


def read_error(payload: bytes | str) -> Any:
    return classify(200, {}, payload, now=0.0)


def chunk(*parts: object, finish: str | None = None, **more: object) -> bytes:
    candidate: dict[str, object] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return event(
        {"candidates": [candidate], "modelVersion": "gemini-3-flash-001", "responseId": "r1", **more}
    )


def event(value: object) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\r\n\r\n"


def call_part(name: str, signature: str | None = None, **fields: object) -> dict[str, object]:
    part: dict[str, object] = {"functionCall": {"name": name, **fields}}
    return part if signature is None else part | {"thoughtSignature": signature}


def assembled(*pieces: bytes) -> tuple[list[StreamEvent], ChatResponse]:
    parser, reader = SSEParser(), GeminiStreamReader(read_error)
    assembler = StreamAssembler(Origin("google", HOST, NEW), "gemini")
    events = [e for piece in pieces for e in parser.feed(piece)] + parser.close()
    told = [t for e in events for d in reader.feed(e) for t in assembler.feed(d)]
    assert reader.finished
    told += [t for d in reader.close() for t in assembler.feed(d)] + assembler.flush()
    return told, assembler.finish(complete=reader.done)


def read_plainly(value: object) -> ChatResponse:
    reader = GeminiStreamReader(read_error)
    assembler = StreamAssembler(Origin("google", HOST, NEW), "gemini")
    for delta in [*reader.read_plain(json.dumps(value, ensure_ascii=False).encode()), *reader.close()]:
        assembler.feed(delta)
    return assembler.finish(complete=reader.done)


def blocks_of(answered: ChatResponse) -> list[Any]:
    replay = answered.message.replay
    return [] if replay is None else [json.loads(bytes(block)) for block in replay.blocks]


def provider_at(base_url: str, **more: JsonValue) -> Provider:
    settings: dict[str, JsonValue] = {"first_event_s": 20, **more}
    return google(ProviderOptions(base_url=base_url, api_key=KEY, settings=settings))


WHOLE = [
    chunk({"text": "**Plan** 计", "thought": True}, usageMetadata={"promptTokenCount": 100}),
    chunk({"text": "划", "thought": True}),
    chunk({"text": "Let me "}),
    chunk({"text": "look.\u2028"}, usageMetadata={**USAGE, "candidatesTokenCount": 2}),
    chunk(
        call_part("f", SIGNATURE, id="a1", args={"x": 1, "城": "市"}),
        call_part("g", id="a2", args={"y": [2]}),
    ),
    chunk(call_part("now", id="a3"), finish="STOP", usageMetadata=USAGE),
]
