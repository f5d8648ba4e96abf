"""Responses on the Messages wire, however the bytes are cut, odd or broken off, and errors inside."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anthropic_help import (
    ORIGIN,
    ask,
    begin,
    end,
    event,
    provider_at,
    read,
    read_plain,
    refuse,
    text_block,
    thinking_block,
    tidy,
    whole,
)
from anthropic_streams import RICH, assert_keeps
from byte_server import ByteServer, Close, plain, stream
from hermes_messages import ErrorKind, FinishReason, ProviderError, UserMessage
from hermes_messages.assembler import StreamAssembler
from hermes_messages.deltas import ReasoningChunk
from hermes_providers.streaming.sse import ServerSentEvent
from hermes_providers.wire.anthropic_stream import AnthropicStreamReader
from wire_help import collect


@given(cuts=st.lists(st.integers(0, len(RICH)), max_size=30))
def test_any_cutting_gives_the_same_message(cuts: list[int]) -> None:
    assert read(RICH, cuts) == read(RICH)


def test_cutting_between_all_bytes_and_other_line_ends_give_the_same_message() -> None:
    assert read(RICH, range(len(RICH))) == read(RICH)
    crlf = RICH.replace(b"\n", b"\r\n")
    assert read(crlf, range(len(crlf))) == read(RICH)


@given(at=st.integers(0, len(RICH) - 1))
def test_no_early_end_hands_on_half_a_call(at: int) -> None:
    response = read(RICH[:at], complete=False)
    assert_keeps(response)
    for call in response.message.tool_calls:
        assert (call.name, call.arguments) in {("f", '{"a": "日本語", "b": [1, 2]}'), ("g", "{}")}


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KINDS = ("message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta")
BLOCK_KINDS = ("text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "brand_new")
DELTA_KINDS = ("text_delta", "input_json_delta", "thinking_delta", "signature_delta", "citations_delta")
ODD_BLOCK = st.fixed_dictionaries(
    {"type": st.sampled_from(BLOCK_KINDS)},
    optional=dict.fromkeys(("text", "thinking", "id", "name", "input", "citations", "signature"), JUNK),
)
ODD_DELTA = st.fixed_dictionaries(
    {"type": st.sampled_from(DELTA_KINDS)},
    optional=dict.fromkeys(("text", "thinking", "partial_json", "citation", "signature"), JUNK),
)
ODD_EVENT = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS)},
    optional={
        "index": JUNK | st.integers(0, 2),
        "content_block": JUNK | ODD_BLOCK,
        "delta": JUNK | ODD_DELTA,
        "message": JUNK,
        "usage": JUNK,
    },
)


@given(events=st.lists(ODD_EVENT, max_size=8))
def test_odd_events_are_borne(events: list[dict[str, object]]) -> None:
    response = read(whole(*events), complete=False)
    assert_keeps(response)
    for call in response.message.tool_calls:
        assert isinstance(json.loads(call.arguments), dict)


@given(content=st.lists(ODD_BLOCK, max_size=5), usage=JUNK, reason=JUNK)
def test_odd_plain_answers_are_borne(content: object, usage: object, reason: object) -> None:
    response = read_plain({"type": "message", "content": content, "usage": usage, "stop_reason": reason})
    assert_keeps(response)


def test_an_error_event_is_an_error_whatever_its_name() -> None:
    seen: list[bytes | str] = []

    def note(payload: bytes | str) -> ProviderError:
        seen.append(payload)
        return ProviderError("no", kind=ErrorKind.OVERLOADED)

    error = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
    for sent in (
        ServerSentEvent(error, "error"),
        ServerSentEvent(error),
        ServerSentEvent(b'{"error":{"message":"x"}}'),
        ServerSentEvent(b"Bad gateway", "error"),
        ServerSentEvent(b"not json"),
        ServerSentEvent(b"[1]"),
    ):
        with pytest.raises(ProviderError):
            AnthropicStreamReader(note).feed(sent)
        assert seen[-1] == sent.data
    for body in (error, b"{}", b"not json", b'{"content":1}'):
        with pytest.raises(ProviderError):
            AnthropicStreamReader(note).read_plain(body)


def test_half_an_event_at_the_end_says_nothing() -> None:
    reader = AnthropicStreamReader(refuse)
    assert reader.feed(ServerSentEvent(b'{"type":"messa', terminated=False)) == []
    assert not reader.finished


def test_reasoning_deltas_are_told_as_they_come() -> None:
    reader = AnthropicStreamReader(refuse)
    StreamAssembler(ORIGIN, "anthropic_messages")
    told = [
        delta
        for item in thinking_block(0, "s", "a", "b")
        for delta in reader.feed(ServerSentEvent(json.dumps(item).encode()))
    ]
    assert told == [ReasoningChunk(""), ReasoningChunk("a"), ReasoningChunk("b")]


async def _ask(script: Any) -> list[Any]:
    async with ByteServer([script]) as server:
        provider = provider_at(server.base_url)
        await provider.open()
        try:
            return await collect(provider, ask(UserMessage("hi")))
        finally:
            await provider.close()


def error_of(script: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        asyncio.run(_ask(script))
    return caught.value


def failing(kind: str, message: str) -> bytes:
    return event({"type": "error", "error": {"type": kind, "message": message}})


@pytest.mark.parametrize(
    ("kind", "message", "expected"),
    [
        ("overloaded_error", "Overloaded", ErrorKind.OVERLOADED),
        ("rate_limit_error", "Number of requests has exceeded your rate limit", ErrorKind.RATE_LIMIT),
        ("api_error", "Internal server error", ErrorKind.SERVER),
        ("invalid_request_error", "messages.3: something is wrong", ErrorKind.FORMAT),
        ("billing_error", "No more", ErrorKind.BILLING),
        ("timeout_error", "Request timed out", ErrorKind.TIMEOUT),
        ("invalid_request_error", "prompt is too long: 213462 tokens > 200000", ErrorKind.CONTEXT_OVERFLOW),
    ],
)
def test_an_error_event_mid_stream_is_a_typed_error(kind: str, message: str, expected: ErrorKind) -> None:
    started = whole(begin(), *text_block(0, "Hel")[:2])
    error = error_of(stream(started, failing(kind, message)))
    assert error.kind is expected
    assert error.code == kind


def test_text_before_an_error_event_is_told_before_the_error() -> None:
    async def scenario() -> list[Any]:
        told: list[Any] = []
        script = stream(whole(begin(), *text_block(0, "Hel")[:2]), failing("overloaded_error", "Overloaded"))
        async with ByteServer([script]) as server:
            provider = provider_at(server.base_url)
            try:
                async for item in provider.stream(ask(UserMessage("hi"))):
                    told.append(item)  # noqa: PERF401 - what came before the error counts
            except ProviderError as error:
                told.append(error)
            await provider.close()
        return told

    text, error = asyncio.run(scenario())
    assert text.text == "Hel"
    assert error.kind is ErrorKind.OVERLOADED


def test_an_end_before_the_stop_reason_is_a_transport_error() -> None:
    cut = whole(begin(), *text_block(0, "Hel"))
    assert error_of(stream(cut)).kind is ErrorKind.TRANSPORT
    assert error_of([*stream(cut, end=False), Close()]).kind is ErrorKind.TRANSPORT
    assert error_of(stream(b"")).kind is ErrorKind.TRANSPORT


def test_an_end_between_stop_reason_and_message_stop_keeps_the_answer() -> None:
    sent = whole(begin(), *text_block(0, "Hello"), end()[0])
    done = asyncio.run(_ask(stream(sent)))[-1].response
    assert (done.message.content, done.finish) == ("Hello", FinishReason.STOP)


def test_status_errors_are_typed() -> None:
    body = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}'
    error = error_of(plain(body, "529 Overloaded", request_id="req_1"))
    assert (error.kind, error.status, error.request_id) == (ErrorKind.OVERLOADED, 529, "req_1")
    refused = b'{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}'
    assert error_of(plain(refused, "401 Unauthorized")).kind is ErrorKind.AUTH


def test_a_200_with_an_error_inside_is_an_error() -> None:
    body = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
    assert error_of(plain(body)).kind is ErrorKind.OVERLOADED


def test_a_blank_answer_is_an_error_and_not_an_empty_message() -> None:
    assert error_of(stream(tidy())).kind is ErrorKind.SERVER
    assert error_of(stream(tidy(reason="refusal"))).kind is ErrorKind.CONTENT_POLICY
    assert (
        error_of(stream(tidy(thinking_block(0, "s", "Hm"), reason="max_tokens"))).kind is ErrorKind.OUTPUT_CAP
    )


def test_request_and_answer_over_a_socket() -> None:
    async def scenario() -> tuple[Any, Any]:
        async with ByteServer([stream(RICH)]) as server:
            provider = provider_at(server.base_url)
            events = await collect(provider, ask(UserMessage("hi")))
            await provider.close()
            return server.requests[0], events[-1].response  # type: ignore[union-attr]  # the last one

    request, response = asyncio.run(scenario())
    assert request.line == "POST /v1/messages HTTP/1.1"
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert request.headers["x-api-key"] == "sk-ant-0123456789abcdef"
    assert "authorization" not in request.headers
    assert response.message.tool_calls == read(RICH).message.tool_calls
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens) == (25, 15)
