"""Responses answers, from the bytes of events to deltas, and through the assembler to a message."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byte_server import ByteServer, Reset, Script, head, plain, stream
from hermes_messages import (
    AssistantMessage,
    ChatResponse,
    ErrorKind,
    FinishReason,
    History,
    JsonValue,
    ProviderError,
    StreamEvent,
    TextDelta,
    ToolCallStarted,
    ToolMessage,
    UserMessage,
)
from hermes_messages.assembler import StreamAssembler
from hermes_messages.exchange import ChatRequest
from hermes_messages.parts import Origin
from hermes_messages.protocols import Provider, ProviderOptions
from hermes_messages.testing import check_provider
from hermes_providers import ServerSentEvent, SSEParser, classify
from hermes_providers.entry_points import openai
from hermes_providers.wire.openai_responses_stream import ResponsesStreamReader
from wire_help import KEY, ask, collect, cut, run
from wire_help import answer as answer_of

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


def test_whole_response_with_reasoning_text_and_parallel_calls() -> None:
    told, answered = assembled(*WHOLE)
    message = answered.message
    assert message.content == "Let me look."
    assert message.reasoning == "First 计划 .\n\nThen\u2028more."
    assert calls_of(answered) == [("call_1", "f", '{"x":1}'), ("call_2", "g", "{}")]
    assert [block["type"] for block in blocks_of(answered)] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
    ]
    assert (answered.finish, answered.model, answered.response_id) == (
        FinishReason.TOOL_CALLS,
        "m-1",
        "resp_1",
    )
    usage = answered.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens) == (100, 20, 12)
    assert (usage.cache_read_tokens, usage.cache_write_tokens) == (60, 5)
    assert [item.name for item in told if isinstance(item, ToolCallStarted)] == ["f", "g"]
    assert [item.text for item in told if isinstance(item, TextDelta)] == ["Let me ", "look."]


def test_items_are_kept_byte_for_byte() -> None:
    raw = (
        b'{ "id":"rs_9", "type":"reasoning", "summary":[ ], "encrypted_content":"A\\u002b=", "new":{"b":1} }'
    )
    done = b'data: {"type":"response.output_item.done","output_index":0,"item":' + raw + b"}\n\n"
    answered = assembled(CREATED, done, *text_events(1, "x"), completed())[1]
    assert answered.message.replay is not None
    assert bytes(answered.message.replay.blocks[0]) == raw


@given(st.lists(st.integers(min_value=0), max_size=30))
def test_any_cutting_gives_the_same_message(places: list[int]) -> None:
    data = b"".join(WHOLE)
    assert assembled(*cut(data, places))[1] == assembled(data)[1]


def test_every_single_cut_gives_the_same_message() -> None:
    data = b"".join(WHOLE)
    wanted = assembled(data)[1]
    for place in range(0, len(data), 7):
        assert assembled(data[:place], data[place:])[1] == wanted


def test_items_without_output_index_are_told_apart_by_their_ids() -> None:
    def without_index(events: Sequence[bytes]) -> list[bytes]:
        stripped = []
        for event in events:
            name, data = event.decode().rstrip("\n").split("\ndata: ")
            value = json.loads(data)
            value.pop("output_index", None)
            stripped.append(f"{name}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n".encode())
        return stripped

    answered = assembled(*without_index(WHOLE))[1]
    assert (answered.message, answered.finish) == (assembled(*WHOLE)[1].message, FinishReason.TOOL_CALLS)


def test_interleaved_calls() -> None:
    other = {**CALL, "id": "fc_2", "call_id": "call_2", "name": "g"}
    first, second = call_events(0, '{"x"', ":1}"), call_events(1, '{"y":', "2}", item=other)
    mixed = [event for pair in zip(first, second, strict=True) for event in pair]
    assert calls_of(assembled(CREATED, *mixed, completed())[1]) == [
        ("call_1", "f", '{"x":1}'),
        ("call_2", "g", '{"y":2}'),
    ]


def test_host_that_leaves_the_deltas_out() -> None:
    output = [REASONING, message_item("Hello"), CALL]
    done = [named("response.output_item.done", output_index=n, item=item) for n, item in enumerate(output)]
    for events in ([CREATED, *done, completed()], [CREATED, completed(*output)]):
        answered = assembled(*events)[1]
        assert answered.message.content == "Hello"
        assert calls_of(answered) == [("call_1", "f", '{"x":1}')]
        assert blocks_of(answered) == output


def test_arguments_whose_end_came_only_with_the_done_event() -> None:
    events = [
        named("response.output_item.added", output_index=0, item={**CALL, "arguments": ""}),
        named("response.function_call_arguments.delta", output_index=0, delta='{"x"'),
        named("response.function_call_arguments.done", output_index=0, arguments='{"x":1}'),
    ]
    assert calls_of(assembled(CREATED, *events, completed(CALL))[1]) == [("call_1", "f", '{"x":1}')]


def test_empty_output_of_the_last_event_does_not_lose_the_items() -> None:
    answered = assembled(CREATED, *text_events(0, "x"), completed())[1]
    assert [block["id"] for block in blocks_of(answered)] == ["msg_1"]


def test_last_event_has_the_items_that_were_never_done() -> None:
    partial = message_item("Hel", status="incomplete")
    details = {"incomplete_details": {"reason": "max_output_tokens"}}
    events = [*reasoning_events(0, "hm"), *text_events(1, "Hel")[:3]]
    last = named("response.incomplete", response=response("incomplete", REASONING, partial, **details))
    answered = assembled(CREATED, *events, last)[1]
    assert answered.message.content == "Hel"
    assert blocks_of(answered) == [REASONING, partial]


def test_two_messages_in_one_response_are_two_paragraphs() -> None:
    events = [*text_events(0, "I look."), *text_events(1, "Found ", "it.", number=2)]
    assert assembled(CREATED, *events, completed())[1].message.content == "I look.\n\nFound it."


@pytest.mark.parametrize("way", ["streamed", "plain"])
@pytest.mark.parametrize(
    ("details", "word", "finish"),
    [
        ({"reason": "max_output_tokens"}, "max_output_tokens", FinishReason.LENGTH),
        ({"reason": "content_filter"}, "content_filter", FinishReason.CONTENT_FILTER),
        ({"reason": "steered"}, "incomplete", FinishReason.LENGTH),
        (None, "incomplete", FinishReason.LENGTH),
        ({}, "incomplete", FinishReason.LENGTH),
    ],
)
def test_incomplete_response(way: str, details: object, word: str, finish: FinishReason) -> None:
    value = response("incomplete", message_item("Hel"), usage=USAGE, incomplete_details=details)
    if way == "plain":
        answered = read_plainly(value)
    else:
        answered = assembled(
            CREATED, *text_events(0, "Hel")[:3], named("response.incomplete", response=value)
        )[1]
    assert (answered.message.content, answered.message.finish_reason, answered.finish) == (
        "Hel",
        word,
        finish,
    )
    assert answered.usage is not None


@pytest.mark.parametrize("reason", ["max_output_tokens", "steered"])
def test_call_that_was_cut_off_is_never_handed_on(reason: str) -> None:
    last = response("incomplete", incomplete_details={"reason": reason})
    answered = assembled(CREATED, *call_events(0, '{"x"')[:2], named("response.incomplete", response=last))[1]
    assert answered.message.tool_calls == ()
    assert [call.name for call in answered.unfinished_calls] == ["f"]


@pytest.mark.parametrize("way", ["streamed", "plain"])
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": "server_error", "message": "The model failed."}, ErrorKind.SERVER),
        ({"code": "rate_limit_exceeded", "message": "Slow down."}, ErrorKind.RATE_LIMIT),
        ({"code": "invalid_prompt", "message": "Invalid prompt."}, ErrorKind.FORMAT),
        ({"code": "image_content_policy_violation", "message": "No."}, ErrorKind.CONTENT_POLICY),
        ({"code": "image_too_large", "message": "The image is too large."}, ErrorKind.FORMAT),
        (
            {"code": "context_length_exceeded", "message": "Your input exceeds the context window."},
            ErrorKind.CONTEXT_OVERFLOW,
        ),
        (None, ErrorKind.SERVER),
    ],
)
def test_failed_response_is_a_classified_error(way: str, error: object, kind: ErrorKind) -> None:
    value = response("failed", error=error)
    streamed = [CREATED, named("response.failed", response=value)]
    with pytest.raises(ProviderError) as caught:
        _ = read_plainly(value) if way == "plain" else assembled(*streamed)
    assert caught.value.kind is kind
    assert str(caught.value).endswith(f"[{kind}]")


@pytest.mark.parametrize(
    "event",
    [
        named("error", code="server_error", message="Oops", param=None, sequence_number=3),
        b'event: error\ndata: {"error":{"code":"server_error","message":"Oops"}}\n\n',
        b'data: {"type":"error","error":{"type":"server_error","message":"Oops"}}\n\n',
        b'data: {"error":{"code":"server_error","message":"Oops"}}\n\n',
        named("response.failed", response=response("failed", error={"code": "x", "message": "Oops"})),
        named("response.cancelled", response=response("cancelled", error={"code": "x", "message": "Oops"})),
    ],
)
def test_error_in_the_middle_of_a_stream(event: bytes) -> None:
    with pytest.raises(ProviderError, match="Oops") as caught:
        assembled(CREATED, *text_events(0, "Hel")[:3], event)
    assert caught.value.kind is ErrorKind.SERVER


@pytest.mark.parametrize(
    "body",
    [
        b'{"error":{"code":502,"message":"bad gateway"}}',
        b"<html><title>502</title></html>",
        b"{}",
        b"null",
        b'{"id":"resp_1","object":"response","status":"queued","output":[]}',
    ],
)
def test_plain_answer_that_is_no_response(body: bytes) -> None:
    with pytest.raises(ProviderError):
        ResponsesStreamReader(read_error).read_plain(body)


def test_plain_answer_is_read_as_the_stream_is() -> None:
    streamed = assembled(*WHOLE)[1]
    output = [
        {
            **REASONING,
            "summary": [
                {"type": "summary_text", "text": "First 计划 ."},
                {"type": "summary_text", "text": "Then\u2028more."},
            ],
        },
        message_item("Let me look."),
        {**CALL, "arguments": '{"x":1}'},
        {**CALL, "id": "fc_2", "call_id": "call_2", "name": "g", "arguments": "{}"},
    ]
    plainly = read_plainly(response("completed", *output, usage=USAGE))
    assert plainly.message.content == streamed.message.content
    assert plainly.message.reasoning == streamed.message.reasoning
    assert plainly.message.tool_calls == streamed.message.tool_calls
    assert blocks_of(plainly) == blocks_of(streamed)
    assert (plainly.finish, plainly.usage) == (streamed.finish, streamed.usage)


def test_refusal() -> None:
    at = {"output_index": 0, "content_index": 0}
    item = {"id": "msg_1", "type": "message", "content": [{"type": "refusal", "refusal": "I can't."}]}
    events = [
        named("response.refusal.delta", **at, delta="I "),
        named("response.refusal.delta", **at, delta="can't."),
        named("response.refusal.done", **at, refusal="I can't."),
        named("response.output_item.done", output_index=0, item=item),
    ]
    assert assembled(CREATED, *events, completed())[1].message.refusal == "I can't."
    assert read_plainly(response("completed", item)).message.refusal == "I can't."


def test_reasoning_text_of_open_models_is_not_told_twice() -> None:
    item = {
        "id": "rs_1",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "short"}],
        "content": [{"type": "reasoning_text", "text": "long"}],
    }
    events = [
        named("response.reasoning_text.delta", output_index=0, content_index=0, delta="long"),
        named("response.output_item.done", output_index=0, item=item),
        *text_events(1, "x"),
    ]
    assert assembled(CREATED, *events, completed())[1].message.reasoning == "long"


def test_unknown_events_and_events_behind_the_end_are_passed_over() -> None:
    answered = assembled(
        named("response.queued", response=response("queued")),
        named("response.something.new", output_index=0, delta={"a": 1}),
        b": ping\n\n",
        b"data: null\n\n",
        *text_events(0, "x"),
        completed(),
        named("response.output_text.delta", output_index=0, content_index=0, delta="late"),
        b"data: [DONE]\n\n",
    )[1]
    assert answered.message.content == "x"


def test_last_event_cut_in_the_middle_says_nothing() -> None:
    reader = ResponsesStreamReader(read_error)
    assert reader.feed(ServerSentEvent(b'{"type":"response.comp', terminated=False)) == []
    with pytest.raises(ProviderError):
        reader.feed(ServerSentEvent(b'{"type":"response.comp'))
    assert not reader.finished


def test_bytes_that_are_no_utf8_do_not_stop_the_stream() -> None:
    event = b'data: {"type":"response.output_text.delta","output_index":0,"delta":"a\xff"}\n\n'
    assert assembled(CREATED, event, completed())[1].message.content == "a�"


@pytest.mark.parametrize("usage", [None, {}, {"input_tokens": 0, "output_tokens": 0}, []])
def test_usage_that_says_nothing_is_unknown_not_zero(usage: object) -> None:
    value = response("completed", usage=usage)
    answered = assembled(CREATED, *text_events(0, "x"), named("response.completed", response=value))[1]
    assert answered.usage is None


def provider_at(base_url: str) -> Provider:
    settings: dict[str, JsonValue] = {"wire": "openai_responses", "first_event_s": 20}
    return openai(ProviderOptions(base_url=base_url, api_key=KEY, settings=settings))


def test_model_that_refuses_encrypted_reasoning_is_asked_without_it_from_then_on() -> None:
    refusal = (
        b'{"error":{"message":"Encrypted content is not supported with this model.",'
        b'"type":"invalid_request_error","param":"include","code":null}}'
    )

    async def main() -> None:
        text = stream(CREATED, *text_events(0, "x"), completed())
        async with ByteServer([plain(refusal, "400 Bad Request"), text]) as server:
            provider = provider_at(server.base_url)
            await provider.open()
            with pytest.raises(ProviderError) as caught:
                await answer_of(provider)
            assert caught.value.kind is ErrorKind.UNSUPPORTED_PARAMETER
            assert caught.value.left_out
            await answer_of(provider)
            await provider.close()
        assert ["include" in request.json() for request in server.requests] == [True, False]

    run(main())


FAILURES: dict[str, Script] = {
    "status": plain(b'{"error":{"message":"no"}}', "500 Oops"),
    "failed": stream(CREATED, named("response.failed", response=response("failed"))),
    "early end": stream(CREATED, *text_events(0, "Hel")),
    "only done mark": stream(CREATED, *text_events(0, "Hel"), b"data: [DONE]\n\n"),
    "empty stream": stream(b": ping\n\n"),
    "empty answer": stream(CREATED, completed()),
    "only reasoning": stream(CREATED, *reasoning_events(0, "hm"), completed()),
    "reset": [head(), CREATED, *text_events(0, "Hel"), Reset()],
}


@pytest.mark.parametrize("name", FAILURES)
def test_provider_keeps_the_promises_of_the_protocol(name: str) -> None:
    async def main() -> None:
        async with ByteServer([stream(*WHOLE)]) as good, ByteServer([FAILURES[name]]) as bad:
            await check_provider(
                lambda: provider_at(good.base_url),
                request=ask(),
                make_failing=lambda: provider_at(bad.base_url),
                limit_s=600,
            )

    run(main())


def test_next_request_carries_the_items_of_the_answer() -> None:
    async def main() -> None:
        async with ByteServer(
            [stream(*WHOLE), stream(CREATED, *text_events(0, "Done."), completed())]
        ) as server:
            provider = provider_at(server.base_url)
            await provider.open()
            first = await answer_of(provider)
            results = [ToolMessage(call.id, "done") for call in first.message.tool_calls]
            history = History.of([UserMessage("hi"), first.message, *results])
            events = await collect(provider, ChatRequest(model="m-1", history=history))
            await provider.close()
        assert events
        assert isinstance(first.message, AssistantMessage)
        sent = server.requests[1].json()["input"]
        assert isinstance(sent, list)
        assert [item["type"] for item in sent[1:]] == [
            "reasoning",
            "message",
            "function_call",
            "function_call",
            "function_call_output",
            "function_call_output",
        ]
        assert sent[1]["encrypted_content"] == "gAAA="
        assert server.requests[1].line == "POST /v1/responses HTTP/1.1"

    run(main())
