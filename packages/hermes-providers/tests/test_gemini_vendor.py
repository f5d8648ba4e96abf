"""Google's own library, as a second opinion: its types take our requests, it would send the same ones, and it
reads the same streams to the same parts. It is for this test only and never imported by the package."""

from __future__ import annotations

import asyncio
import importlib
import json
from typing import Any

import pytest
from msgspec import Raw

from byte_server import ByteServer, plain, stream
from gemini_help import (
    NEW,
    OLD,
    SIGNATURE,
    USAGE,
    WHOLE,
    ask,
    assembled,
    builder,
    call_part,
    chunk,
    read_plainly,
)
from gemini_requests import OTHER, PICTURE, own_round, rounds
from hermes_messages import ChatRequest, ChatResponse, SystemMessage, ToolMessage, ToolSpec, UserMessage
from hermes_messages.parts import AudioPart, FilePart, ImagePart, TextPart
from wire_help import KEY, ODD_ROUND, ODD_SPEC, SPEC

_WHY = "not installed: google-genai (dependency group vendor-types)"
genai: Any = pytest.importorskip("google.genai", reason=_WHY)
types: Any = importlib.import_module("google.genai.types")

# What the library and the engine under it warn of is their own affair.
pytestmark = pytest.mark.filterwarnings("ignore:.*:Warning")

_SCHEMA = Raw(b'{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}')
_MANY = ToolSpec.from_schema(
    "many",
    "Takes much.",
    {
        "type": "object",
        "properties": {
            "kind": {"enum": ["a", "b"], "title": "Kind"},
            "when": {"type": ["string", "null"], "format": "date-time"},
            "size": {
                "anyOf": [{"type": "integer", "minimum": 1}, {"type": "array", "items": {"type": "number"}}]
            },
            "more": {"$ref": "#/$defs/More"},
        },
        "required": ["kind"],
        "additionalProperties": False,
        "$defs": {"More": {"type": "object", "properties": {"x": {"type": "string", "maxLength": 3}}}},
    },
)

REQUESTS: dict[str, ChatRequest] = {
    "odd tools": ask(*ODD_ROUND, tools=(ODD_SPEC, SPEC)),
    "text": ask(UserMessage("hi")),
    "parameters": ask(
        SystemMessage("be brief"),
        UserMessage("hi"),
        max_tokens=100,
        temperature=0.5,
        seed=3,
        stop=("END",),
        reasoning_effort="low",
    ),
    "budget": ask(UserMessage("hi"), model=OLD, reasoning_effort="high"),
    "own round": ask(*own_round(), tools=(SPEC, _MANY), tool_choice="required"),
    "foreign round": ask(*rounds(), tools=(SPEC,), tool_choice="none"),
    "older model": ask(*rounds(), tools=(SPEC,), model=OLD),
    "image result": ask(*rounds()[:2], ToolMessage("call_1", (TextPart("a"), PICTURE)), tools=(SPEC,)),
    "error result": ask(*rounds(OTHER)[:2], ToolMessage("call_2", "boom", status="error"), tools=(SPEC,)),
    "parts": ask(
        UserMessage((TextPart("a"), PICTURE, ImagePart("https://x.example/a.png"), AudioPart("BBBB", "wav"))),
        UserMessage((FilePart(filename="a.pdf", data="data:application/pdf;base64,CCCC"),)),
    ),
    "schema": ask(UserMessage("hi"), response_schema=_SCHEMA),
}

STREAMS: dict[str, bytes] = {
    "whole": b"".join(WHOLE),
    "text": chunk({"text": "Hel"}) + chunk({"text": "lo"}, finish="STOP", usageMetadata=USAGE),
    "signed text": chunk({"text": "Hi"})
    + chunk({"text": "", "thoughtSignature": SIGNATURE}, finish="STOP", usageMetadata=USAGE),
    "cut short": chunk({"text": "Hel"}, finish="MAX_TOKENS", usageMetadata=USAGE),
    "new reason": chunk({"text": "x"}, finish="OTHER", usageMetadata=USAGE),
}


def validated(kind: str, value: Any) -> Any:
    """The value as the library's type reads and writes it; its types forbid fields that they do not know."""
    model = getattr(types, kind).model_validate_json(json.dumps(value))
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_the_librarys_types_take_our_requests_and_know_every_field(name: str) -> None:
    sent = json.loads(builder().build(REQUESTS[name]))
    kinds = {
        "systemInstruction": "Content",
        "generationConfig": "GenerationConfig",
        "toolConfig": "ToolConfig",
    }
    for field, kind in kinds.items():
        if field in sent:
            assert plainly(validated(kind, sent[field])) == plainly(sent[field])
    for content in sent["contents"]:
        assert validated("Content", content) == content
    for tool in sent.get("tools", []):
        assert validated("Tool", tool) == tool
    assert set(sent) <= {"contents", "tools", *kinds}


def plainly(value: Any) -> Any:
    """The value without what makes no difference to the host: the library writes some names of fields with
    underscores ("JSON mapping", protobuf.dev), names of levels in capitals, and an empty configuration."""
    match value:
        case dict():
            told = {key: item for key, item in value.items() if (key, item) != ("generationConfig", {})}
            return {key.replace("_", "").lower(): plainly(item) for key, item in told.items()}
        case list():
            return [plainly(item) for item in value]
        case str():
            return value.lower()
        case _:
            return value


def test_the_librarys_types_would_notice_a_mistake() -> None:
    with pytest.raises(ValueError, match="thoughtSign"):
        validated("Part", {"functionCall": {"name": "f", "thoughtSignature": "x"}})


def client(server: ByteServer) -> Any:
    address = server.base_url.removesuffix("/v1")
    return genai.Client(api_key=KEY, http_options={"base_url": address, "api_version": "v1"}).aio


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_the_library_sends_what_we_send(name: str) -> None:
    request = REQUESTS[name]
    ours = json.loads(builder().build(request))

    async def scenario() -> tuple[dict[str, object], str]:
        config = types.GenerateContentConfig(
            **ours.get("generationConfig", {}),
            **{field: ours[field] for field in ("systemInstruction", "toolConfig", "tools") if field in ours},
        )
        contents = [types.Content.model_validate_json(json.dumps(content)) for content in ours["contents"]]
        async with ByteServer([stream(STREAMS["text"])]) as server:
            library = client(server)
            answer = await library.models.generate_content_stream(
                model=request.model, contents=contents, config=config
            )
            async for _ in answer:
                pass
            await library.aclose()
            sent = server.requests[0]
            assert sent.headers["x-goog-api-key"] == KEY
            return sent.json(), sent.line

    theirs, line = asyncio.run(scenario())
    theirs.get("systemInstruction", {}).pop("role", None)  # type: ignore[attr-defined]  # not looked at there
    assert plainly(theirs) == plainly(ours)
    path = builder(base_url="http://x/v1").url(request).removeprefix("http://x")
    assert line == f"POST {path} HTTP/1.1"


@pytest.mark.parametrize("name", sorted(STREAMS))
def test_the_library_reads_a_stream_to_the_same_parts(name: str) -> None:
    async def scenario() -> list[Any]:
        async with ByteServer([stream(STREAMS[name])]) as server:
            library = client(server)
            answer = await library.models.generate_content_stream(model=NEW, contents="hi")
            chunks = [item async for item in answer]
            await library.aclose()
            return chunks

    chunks = asyncio.run(scenario())
    compare(assembled(STREAMS[name])[1], chunks)
    # The chunks that the library read, given to us as a plain answer, say the same once more.
    fields = {"sdk_http_response", "parsed", "automatic_function_calling_history"}
    dumped = [
        item.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=fields) for item in chunks
    ]
    compare(read_plainly(dumped), chunks)


def compare(ours: ChatResponse, chunks: list[Any]) -> None:
    parts = [part for item in chunks for part in item.candidates[0].content.parts or ()]
    texts = [part.text for part in parts if part.text and not part.thought]
    assert (ours.message.content or "") == "".join(texts)
    thoughts = [part.text for part in parts if part.text and part.thought]
    assert (ours.message.reasoning or "") == "".join(thoughts)
    calls = [part.function_call for part in parts if part.function_call]
    assert [(call.id, call.name, call.parse_arguments()) for call in ours.message.tool_calls] == [
        (call.id, call.name, call.args or {}) for call in calls
    ]
    last = chunks[-1]
    assert ours.message.finish_reason == last.candidates[0].finish_reason.value
    assert (ours.model, ours.response_id) == (last.model_version, last.response_id)
    usage = last.usage_metadata
    assert ours.usage is not None
    assert ours.usage.input_tokens == usage.prompt_token_count
    assert ours.usage.output_tokens == usage.total_token_count - usage.prompt_token_count
    assert ours.usage.cache_read_tokens == usage.cached_content_token_count
    assert ours.usage.reasoning_tokens == usage.thoughts_token_count
    assert ours.message.replay is not None
    kept = [validated("Part", json.loads(bytes(block))) for block in ours.message.replay.blocks]
    signed = [part.model_dump(mode="json", by_alias=True) for part in parts if part.thought_signature]
    assert [part["thoughtSignature"] for part in kept if "thoughtSignature" in part] == [
        part["thoughtSignature"] for part in signed
    ]


def test_the_library_reads_a_plain_answer_alike() -> None:
    candidate = {
        "content": {
            "role": "model",
            "parts": [{"text": "Hi"}, call_part("f", SIGNATURE, id="a", args={"x": 1})],
        },
        "finishReason": "STOP",
    }
    value = {"candidates": [candidate], "usageMetadata": USAGE, "modelVersion": "m", "responseId": "r"}

    async def scenario() -> Any:
        async with ByteServer([plain(json.dumps(value).encode())]) as server:
            library = client(server)
            answer = await library.models.generate_content(model=NEW, contents="hi")
            await library.aclose()
            return answer

    compare(read_plainly(value), [asyncio.run(scenario())])
