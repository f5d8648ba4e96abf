"""Responses, from the bytes of events to deltas, and through the assembler to one message."""

from __future__ import annotations

import json

import pytest

from chat_streams import assembled, call_chunk, deltas, reader
from hermes_messages import ErrorKind, FinishReason, ProviderError, TextDelta, ToolCallStarted
from hermes_messages.assembler import StreamAssembler
from hermes_messages.deltas import (
    FinishChunk,
    MetaChunk,
    ReasoningChunk,
    TextChunk,
    ToolCallChunk,
    UsageChunk,
)
from hermes_messages.parts import Origin
from hermes_providers import ServerSentEvent, get_profile
from hermes_providers.usage import read_chat_usage
from wire_help import DONE, chunk, event


def calls_of(*chunks: object, finish: str = "tool_calls") -> list[tuple[str, str, str]]:
    pieces = [event(value) for value in chunks] + [event(chunk({}, finish)), DONE]
    return [(c.id, c.name, c.arguments) for c in assembled(*pieces)[1].message.tool_calls]


def test_call_without_index() -> None:
    assert calls_of(call_chunk({"id": "a", "function": {"name": "f", "arguments": "{}"}})) == [
        ("a", "f", "{}")
    ]


def test_two_calls_on_one_index() -> None:
    assert calls_of(
        call_chunk({"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x":1}'}}),
        call_chunk({"index": 0, "id": "b", "function": {"name": "g", "arguments": '{"y"'}}),
        call_chunk({"index": 1, "function": {"arguments": ":2}"}}),
    ) == [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')]


def test_number_ids_and_number_texts_as_index() -> None:
    assert calls_of(
        call_chunk({"index": "0", "id": 7, "type": None, "function": {"name": "f", "arguments": None}}),
        call_chunk({"index": 0.0, "id": None, "function": {"name": None, "arguments": "{}"}}),
    ) == [("7", "f", "{}")]


def test_interleaved_and_late_name() -> None:
    told, response = assembled(
        event(call_chunk({"index": 0, "id": "a", "function": {"arguments": '{"q"'}})),
        event(call_chunk({"index": 1, "id": "b", "function": {"name": "other", "arguments": "{}"}})),
        event(call_chunk({"index": 0, "function": {"name": "search"}})),
        event(call_chunk({"index": 0, "function": {"arguments": ":1}"}})),
        event(chunk({}, "tool_calls")),
        DONE,
    )
    assert {(c.id, c.name, c.arguments) for c in response.message.tool_calls} == {
        ("a", "search", '{"q":1}'),
        ("b", "other", "{}"),
    }
    assert all(item.name for item in told if isinstance(item, ToolCallStarted))


def test_arguments_as_an_object() -> None:
    assert calls_of(
        call_chunk({"index": 0, "id": "a", "function": {"name": "f", "arguments": {"foo": "bar"}}})
    ) == [("a", "f", '{"foo":"bar"}')]


def test_one_call_as_an_object_instead_of_a_list() -> None:
    assert calls_of(chunk({"tool_calls": {"id": "a", "function": {"name": "f", "arguments": "{}"}}})) == [
        ("a", "f", "{}")
    ]


@pytest.mark.parametrize("where", ["first", "last"])
def test_chunk_with_usage_only(where: str) -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}}
    text = [chunk({"content": "hi"}), chunk({}, "stop")]
    chunks = [usage, *text] if where == "first" else [*text, usage]
    response = assembled(*map(event, chunks), DONE)[1]
    assert response.message.content == "hi"
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens) == (9, 2)


def test_usage_inside_the_choice() -> None:
    value = chunk({"content": "hi"}, "stop")
    value["choices"][0]["usage"] = {"prompt_tokens": 3, "completion_tokens": 1}  # type: ignore[index]
    found = [delta.usage for delta in deltas(value) if isinstance(delta, UsageChunk)]
    assert [usage.input_tokens for usage in found] == [3]


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        {"prompt_tokens": 0, "completion_tokens": 0},
        {"prompt_tokens": "x"},
        {"prompt_tokens": 10**30},
        [],
        -1,
    ],
)
def test_usage_that_says_nothing_is_unknown_not_zero(usage: object) -> None:
    response = assembled(event(chunk({"content": "hi"}, "stop", usage=usage)), DONE)[1]
    assert response.usage is None


def test_usage_of_all_hosts() -> None:
    full = read_chat_usage(
        {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 5, "audio_tokens": None},
            "completion_tokens_details": {"reasoning_tokens": 12},
            "cost": 0.0025,
        }
    )
    assert full is not None
    assert (full.cache_read_tokens, full.cache_write_tokens, full.reasoning_tokens, full.cost_usd) == (
        60,
        5,
        12,
        0.0025,
    )
    deepseek = read_chat_usage({"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 4})
    assert deepseek is not None
    assert (deepseek.cache_read_tokens, deepseek.cost_usd, deepseek.reasoning_tokens) == (4, None, None)


@pytest.mark.parametrize("reason", ["", None, " ", 0])
def test_empty_finish_reason_on_every_chunk_ends_nothing(reason: object) -> None:
    one = reader()
    assert not [
        d
        for d in one.feed(ServerSentEvent(json.dumps(chunk({"content": "a"}, reason)).encode()))
        if isinstance(d, FinishChunk)
    ]
    assert not one.finished


@pytest.mark.parametrize("reason", ["end", "eos_token", "COMPLETE"])
def test_unknown_finish_reason_keeps_the_text_and_the_word(reason: str) -> None:
    response = assembled(event(chunk({"content": "text"})), event(chunk({}, reason)), DONE)[1]
    assert (response.message.content, response.message.finish_reason, response.finish) == (
        "text",
        reason,
        FinishReason.STOP,
    )


@pytest.mark.parametrize(
    ("data", "kind", "status"),
    [
        (
            b'{"error":{"code":502,"message":"Upstream broke"},"choices":[{"finish_reason":"error"}]}',
            ErrorKind.SERVER,
            502,
        ),
        (b'{"error":{"message":"Overloaded","type":"overloaded_error"}}', ErrorKind.OVERLOADED, 529),
        (b'{"error":"rate limit exceeded"}', ErrorKind.RATE_LIMIT, 200),
        (
            b'{"object":"error","message":"maximum context length is 10 tokens","code":400}',
            ErrorKind.CONTEXT_OVERFLOW,
            400,
        ),
        (b'{"detail":"Incorrect API key provided"}', ErrorKind.AUTH, 200),
        (b'{"choices":[{"delta":{},"finish_reason":"error"}]}', ErrorKind.SERVER, 200),
        (b'{"choices":[{"delta":{},"error":{"code":429,"message":"x"}}]}', ErrorKind.RATE_LIMIT, 429),
        (b"upstream connect error", ErrorKind.SERVER, 200),
        (b'"text"', ErrorKind.SERVER, 200),
    ],
)
def test_error_inside_a_success_is_an_error(data: bytes, kind: ErrorKind, status: int) -> None:
    with pytest.raises(ProviderError) as caught:
        reader().feed(ServerSentEvent(data))
    assert (caught.value.kind, caught.value.status) == (kind, status)


@pytest.mark.parametrize("data", [b'{"message":"boom"}', b"boom", b'{"choices":[]}'])
def test_event_named_error_is_one_whatever_it_holds(data: bytes) -> None:
    with pytest.raises(ProviderError):
        reader().feed(ServerSentEvent(data, "error"))


def test_null_error_is_none() -> None:
    assert assembled(event(chunk({"content": "a"}, "stop", error=None)), DONE)[1].message.content == "a"


def test_reasoning_field_by_profile_and_only_one_of_them() -> None:
    both = chunk({"reasoning": "r", "reasoning_content": "rc", "reasoning_details": None})
    assert [d.text for d in deltas(both) if isinstance(d, ReasoningChunk)] == ["rc"]
    openrouter = get_profile("openrouter").quirks
    assert [d.text for d in deltas(both, quirks=openrouter) if isinstance(d, ReasoningChunk)] == ["r"]


def test_empty_reasoning_is_read_as_empty_not_as_absent() -> None:
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
    some = assembled(event(chunk({"reasoning_content": "", "tool_calls": [call]}, "tool_calls")), DONE)[1]
    none = assembled(event(chunk({"tool_calls": [call], "reasoning_content": None}, "tool_calls")), DONE)[1]
    assert (some.message.reasoning, none.message.reasoning) == ("", None)


def test_reasoning_details_are_merged_by_index_with_any_field_missing() -> None:
    def details(*items: dict[str, object]) -> bytes:
        return event(chunk({"reasoning_details": list(items)}))

    response = assembled(
        details({"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}),
        details({"type": "reasoning.text", "text": "Let ", "index": 0}, {"type": "new.kind", "x": [1]}),
        details({"type": "reasoning.text", "text": "me", "index": 0}),
        details({"type": "reasoning.text", "signature": "sig", "text": None, "index": 0}),
        details({"type": "reasoning.encrypted", "data": "AAA", "id": "e1", "index": 1}),
        details({"type": "reasoning.encrypted", "data": "BBB", "id": "e2", "index": 1}),
        event(chunk({"content": "hi"}, "stop")),
        DONE,
        quirks=get_profile("openrouter").quirks,
    )[1]
    assert response.message.replay is not None
    assert [json.loads(bytes(block)) for block in response.message.replay.blocks] == [
        {
            "type": "reasoning.text",
            "format": "anthropic-claude-v1",
            "index": 0,
            "text": "Let me",
            "signature": "sig",
        },
        {"type": "new.kind", "x": [1]},
        {"type": "reasoning.encrypted", "data": "AAA", "id": "e1", "index": 1},
        {"type": "reasoning.encrypted", "data": "BBB", "id": "e2", "index": 1},
    ]


def test_think_tags_cut_anywhere_leave_the_text() -> None:
    told, response = assembled(
        *[event(chunk({"content": t})) for t in ("<", "think>plan", "</thi", "nk>Done")],
        event(chunk({}, "stop")),
        DONE,
    )
    assert (response.message.content, response.message.reasoning) == ("Done", "plan")
    assert "".join(t.text for t in told if isinstance(t, TextDelta)) == "Done"


def test_content_as_a_list_of_parts() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "yes"},
        "!",
    ]
    message = assembled(event(chunk({"content": parts}, "stop")), DONE)[1].message
    assert (message.content, message.reasoning) == ("yes!", "hm")


@pytest.mark.parametrize(
    "value",
    [
        {"choices": None},
        {"choices": [{}]},
        {"choices": [{"delta": None}]},
        {"choices": [{"delta": "x"}, 5]},
        {"choices": [{"index": 1, "delta": {"content": "other answer"}}]},
        {"choices": [{"delta": {"tool_calls": [None], "content": None, "role": None}}]},
        {"choices": "x"},
        {"id": None, "model": 5},
        None,
    ],
)
def test_odd_chunks_say_nothing(value: object) -> None:
    said = [delta for delta in deltas(value) if not isinstance(delta, ToolCallChunk)]
    assert not [delta for delta in said if not isinstance(delta, MetaChunk)]


def test_bytes_that_are_no_utf_8_do_not_lose_the_answer() -> None:
    data = event(chunk({"content": "caf#"}, "stop")).replace(b"#", b"\xe9")
    assert assembled(data, DONE)[1].message.content == "caf\ufffd"


def test_escaped_halves_of_characters_do_not_lose_the_answer() -> None:
    """A host that cuts text by UTF-16 units; whole pairs and escaped backslashes stay what they are."""
    reading = reader()
    told = reading.feed(
        ServerSentEvent(
            rb'{"choices":[{"index":0,"delta":{"content":"a\ud83d b\ud83d\ude00 c\\ud83d \uDE00",'
            rb'"tool_calls":[{"index":0,"id":"1","function":{"name":"f","arguments":"{\"x\":\"\ud83d"}}]}}]}'
        )
    )
    assert TextChunk("a\ufffd b\U0001f600 c\\ud83d \ufffd") in told
    told += reading.close()
    pieces = [chunk.arguments or "" for chunk in told if isinstance(chunk, ToolCallChunk)]
    assert "".join(pieces) == '{"x":"\ufffd'


def test_what_follows_done_is_not_read() -> None:
    assert (
        assembled(event(chunk({"content": "a"}, "stop")), DONE, b"data: garbage\n\n")[1].message.content
        == "a"
    )


def test_end_without_blank_line_counts_when_it_is_json_and_is_ignored_when_cut() -> None:
    whole = event(chunk({"content": "a"})) + event(chunk({}, "stop"))[:-1]
    one = assembled(whole)[1]
    assert (one.message.content, one.finish) == ("a", FinishReason.STOP)
    half = event(chunk({"content": "a"})) + event(chunk({"content": "b"}))[:-20]
    assert assembled(half)[1].message.content == "a"


def test_plain_answer() -> None:
    one = reader()
    message = {
        "role": "assistant",
        "content": "hi",
        "reasoning_content": "r",
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    }
    body = {
        "id": "r",
        "model": "m",
        "choices": [{"message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2},
    }
    assembler = StreamAssembler(Origin("p", "h", "m"), "openai_chat")
    for delta in one.read_plain(json.dumps(body, indent=1).encode()):
        assembler.feed(delta)
    response = assembler.finish(complete=one.done)
    assert (response.message.content, response.message.reasoning, len(response.message.tool_calls)) == (
        "hi",
        "r",
        1,
    )
    assert response.usage is not None
    assert response.finish is FinishReason.TOOL_CALLS


@pytest.mark.parametrize(
    "body", [b'{"error":{"message":"x"}}', b"{}", b'{"choices":[]}', b"[1]", b'{"choices":[{"mess', b"null"]
)
def test_plain_answer_that_is_none(body: bytes) -> None:
    with pytest.raises(ProviderError):
        reader().read_plain(body)
