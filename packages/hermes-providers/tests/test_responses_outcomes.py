"""Responses answers that end incomplete, failed or not at all, and what a provider makes of them."""

from __future__ import annotations

import pytest

from byte_server import ByteServer, Reset, Script, head, plain, stream
from hermes_messages import (
    AssistantMessage,
    ErrorKind,
    FinishReason,
    History,
    JsonValue,
    ProviderError,
    ToolMessage,
    UserMessage,
)
from hermes_messages.exchange import ChatRequest
from hermes_messages.protocols import Provider, ProviderOptions
from hermes_messages.testing import check_provider
from hermes_providers.entry_points import openai
from hermes_providers.wire.openai_responses_stream import ResponsesStreamReader
from responses_streams import (
    CREATED,
    USAGE,
    WHOLE,
    assembled,
    call_events,
    completed,
    message_item,
    named,
    read_error,
    read_plainly,
    reasoning_events,
    response,
    text_events,
)
from wire_help import KEY, ask, collect, run
from wire_help import answer as answer_of


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
