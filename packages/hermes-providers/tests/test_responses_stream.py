"""Responses answers, from the bytes of events to deltas, and through the assembler to one message."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_messages import FinishReason, ProviderError, TextDelta, ToolCallStarted
from hermes_providers import ServerSentEvent
from hermes_providers.wire.openai_responses_stream import ResponsesStreamReader
from responses_streams import (
    CALL,
    CREATED,
    REASONING,
    USAGE,
    WHOLE,
    assembled,
    blocks_of,
    call_events,
    calls_of,
    completed,
    message_item,
    named,
    read_error,
    read_plainly,
    reasoning_events,
    response,
    text_events,
)
from wire_help import cut


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
