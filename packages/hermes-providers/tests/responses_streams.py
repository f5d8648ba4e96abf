"""Events of the Responses wire and what is read from them, which several modules of tests use."""

from __future__ import annotations

import json
from typing import Any

from hermes_messages import ChatResponse, ProviderError, StreamEvent
from hermes_messages.assembler import StreamAssembler
from hermes_messages.parts import Origin
from hermes_providers import SSEParser, classify
from hermes_providers.wire.openai_responses_stream import ResponsesStreamReader

__all__ = [
    "CALL",
    "CREATED",
    "IN_PROGRESS",
    "REASONING",
    "USAGE",
    "WHOLE",
    "assembled",
    "blocks_of",
    "call_events",
    "calls_of",
    "completed",
    "message_item",
    "named",
    "read_error",
    "read_plainly",
    "reasoning_events",
    "response",
    "text_events",
]

USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 5},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 12},
    "total_tokens": 120,
}
REASONING = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA="}
CALL = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "arguments": '{"x":1}',
    "call_id": "call_1",
    "name": "f",
}


def read_error(payload: bytes | str) -> ProviderError:
    return classify(200, {}, payload, now=0.0)


def named(kind: str, **fields: object) -> bytes:
    data = json.dumps({"type": kind, **fields}, ensure_ascii=False)
    return f"event: {kind}\ndata: {data}\n\n".encode()


def response(status: str, *output: object, **more: object) -> dict[str, object]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m-1",
        "status": status,
        "output": list(output),
        "error": None,
        "incomplete_details": None,
        **more,
    }


def message_item(text: str, number: int = 1, **more: object) -> dict[str, object]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {
        "id": f"msg_{number}",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [part],
        **more,
    }


def text_events(place: int, *pieces: str, number: int = 1) -> list[bytes]:
    at = {"output_index": place, "content_index": 0, "item_id": f"msg_{number}"}
    text = "".join(pieces)
    item = message_item(text, number)
    added = {**item, "status": "in_progress", "content": []}
    return [
        named("response.output_item.added", output_index=place, item=added),
        named("response.content_part.added", **at, part={"type": "output_text", "text": ""}),
        *[named("response.output_text.delta", **at, delta=piece) for piece in pieces],
        named("response.output_text.done", **at, text=text),
        named("response.content_part.done", **at, part={"type": "output_text", "text": text}),
        named("response.output_item.done", output_index=place, item=item),
    ]


def call_events(place: int, *pieces: str, item: dict[str, Any] = CALL) -> list[bytes]:
    at = {"output_index": place, "item_id": item["id"]}
    whole = {**item, "arguments": "".join(pieces)}
    return [
        named("response.output_item.added", output_index=place, item={**item, "arguments": ""}),
        *[named("response.function_call_arguments.delta", **at, delta=piece) for piece in pieces],
        named("response.function_call_arguments.done", **at, arguments=whole["arguments"]),
        named("response.output_item.done", output_index=place, item=whole),
    ]


def reasoning_events(place: int, *summaries: str) -> list[bytes]:
    done = {**REASONING, "summary": [{"type": "summary_text", "text": text} for text in summaries]}
    events = [named("response.output_item.added", output_index=place, item=REASONING)]
    for number, text in enumerate(summaries):
        at = {"output_index": place, "summary_index": number, "item_id": "rs_1"}
        half = len(text) // 2
        events += [
            named("response.reasoning_summary_part.added", **at, part={"type": "summary_text", "text": ""}),
            named("response.reasoning_summary_text.delta", **at, delta=text[:half]),
            named("response.reasoning_summary_text.delta", **at, delta=text[half:]),
            named("response.reasoning_summary_text.done", **at, text=text),
        ]
    return [*events, named("response.output_item.done", output_index=place, item=done)]


CREATED = named("response.created", response=response("in_progress"))
IN_PROGRESS = named("response.in_progress", response=response("in_progress"))


def completed(*output: object, **more: object) -> bytes:
    return named("response.completed", response=response("completed", *output, usage=USAGE, **more))


WHOLE = [
    CREATED,
    IN_PROGRESS,
    *reasoning_events(0, "First 计划 .", "Then\u2028more."),
    *text_events(1, "Let me ", "look."),
    *call_events(2, '{"x"', ":1}"),
    *call_events(3, "{}", item={**CALL, "id": "fc_2", "call_id": "call_2", "name": "g"}),
    completed(),
]


def assembled(*pieces: bytes) -> tuple[list[StreamEvent], ChatResponse]:
    parser, reader = SSEParser(), ResponsesStreamReader(read_error)
    assembler = StreamAssembler(Origin("p", "h", "m"), "openai_responses")
    events = [e for piece in pieces for e in parser.feed(piece)] + parser.close()
    told = [t for e in events for d in reader.feed(e) for t in assembler.feed(d)]
    told += [t for d in reader.close() for t in assembler.feed(d)] + assembler.flush()
    assert reader.done
    return told, assembler.finish(complete=reader.done)


def read_plainly(value: object) -> ChatResponse:
    reader = ResponsesStreamReader(read_error)
    assembler = StreamAssembler(Origin("p", "h", "m"), "openai_responses")
    for delta in [*reader.read_plain(json.dumps(value).encode()), *reader.close()]:
        assembler.feed(delta)
    assert reader.done
    return assembler.finish(complete=reader.done)


def calls_of(answered: ChatResponse) -> list[tuple[str, str, str]]:
    return [(call.id, call.name, call.arguments) for call in answered.message.tool_calls]


def blocks_of(answered: ChatResponse) -> list[Any]:
    replay = answered.message.replay
    return [] if replay is None else [json.loads(bytes(block)) for block in replay.blocks]
