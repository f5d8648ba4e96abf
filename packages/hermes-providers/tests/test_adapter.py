"""The provider against a real socket that plays exact bytes."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from byte_server import ByteServer, Close, Hold, Request, Reset, Script, chunked, head, plain, stream
from hermes_messages import (
    ErrorKind,
    FinishReason,
    ProviderError,
    ReasoningDelta,
    ResponseDone,
    SystemMessage,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallStarted,
    UserMessage,
)
from hermes_providers import HttpProvider, list_profiles
from wire_help import DONE, KEY, SPEC, answer, ask, chunk, collect, event, provider_at, run, text_answer

HELLO = stream(text_answer("Hel", "lo", usage={"prompt_tokens": 3, "completion_tokens": 2, "cost": 0.001}))


async def failure(provider: HttpProvider) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await collect(provider)
    return caught.value


async def failure_of(script: Script, **settings: object) -> ProviderError:
    async with ByteServer([script]) as server:
        provider = provider_at(server.base_url, **settings)
        try:
            return await failure(provider)
        finally:
            await provider.close()
            await server.wait_until_open(0)


def test_text_answer_from_end_to_end() -> None:
    async def main() -> Request:
        async with ByteServer([HELLO]) as server:
            provider = provider_at(server.base_url)
            events = await collect(provider, ask(SystemMessage("s"), UserMessage("hi")))
            assert events[0] == TextDelta("Hello")  # they came together
            last = events[-1]
            assert isinstance(last, ResponseDone)
            assert len([e for e in events if isinstance(e, ResponseDone)]) == 1
            assert last.response.message.content == "Hello"
            assert last.response.usage is not None
            assert last.response.usage.cost_usd == 0.001
            assert (last.response.model, last.response.response_id) == ("m-1", "r1")
            await provider.close()
            return server.requests[0]

    request = run(main())
    assert request.line == "POST /v1/chat/completions HTTP/1.1"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["accept-encoding"] == "identity"
    assert request.json()["messages"] == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "hi"},
    ]


def test_tool_calls_and_reasoning_stream_as_they_come() -> None:
    def call(index: int, **function: str) -> bytes:
        return event(chunk({"tool_calls": [{"index": index, "id": f"c{index}", "function": function}]}))

    script = stream(
        event(chunk({"reasoning_content": "hm"})),
        call(0, name="read_file", arguments='{"path"'),
        call(1, name="read_file", arguments="{}"),
        call(0, arguments=': "x"}'),
        event(chunk({}, "tool_calls")) + DONE,
    )

    async def main() -> None:
        async with ByteServer([script]) as server:
            provider = provider_at(server.base_url)
            events = await collect(provider, ask(tools=(SPEC,)))
            assert events[:-1] == [
                ReasoningDelta("hm"),
                ToolCallStarted(0, "c0", "read_file"),
                ToolCallArgumentsDelta(0, '{"path"'),
                ToolCallStarted(1, "c1", "read_file"),
                ToolCallArgumentsDelta(1, "{}"),
                ToolCallArgumentsDelta(0, ': "x"}'),
            ]
            last = events[-1]
            assert isinstance(last, ResponseDone)
            assert [c.arguments for c in last.response.message.tool_calls] == ['{"path": "x"}', "{}"]
            await provider.close()

    run(main())


def test_plain_answer_of_a_host_that_ignores_stream() -> None:
    body = b'{"choices":[{"message":{"content":"Hello"},"finish_reason":"stop"}]}'

    async def main() -> None:
        for content_type in ("application/json", "text/event-stream", "text/plain"):
            async with ByteServer([plain(b" \n" + body, content_type=content_type)]) as server:
                provider = provider_at(server.base_url)
                response = await answer(provider)
                assert (response.message.content, response.finish) == ("Hello", FinishReason.STOP)
                await provider.close()

    run(main())


def test_json_error_with_status_200() -> None:
    error = run(failure_of(plain(b'{"error":{"code":429,"message":"rate limit"}}')))
    assert (error.kind, error.status) == (ErrorKind.RATE_LIMIT, 429)


@pytest.mark.parametrize(
    "text", [b"upstream connect error or disconnect/reset before headers\n", b"no line end"]
)
def test_plain_text_with_status_200(text: bytes) -> None:
    error = run(failure_of(plain(text, content_type="text/event-stream")))
    assert text.decode().split()[0] in str(error)


def test_html_page_with_status_200() -> None:
    page = b"<!DOCTYPE html>\n<html><title>Log in</title></html>"
    assert "Log in" in str(run(failure_of(plain(page, content_type="text/html"))))


def test_error_event_in_the_middle_comes_after_what_was_before_it() -> None:
    script = stream(
        event(chunk({"content": "Hel"}))
        + b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n'
    )

    async def main() -> None:
        async with ByteServer([script]) as server:
            provider = provider_at(server.base_url)
            events = provider.stream(ask())
            assert await anext(events) == TextDelta("Hel")
            with pytest.raises(ProviderError) as caught:
                await anext(events)
            assert caught.value.kind is ErrorKind.OVERLOADED
            await provider.close()

    run(main())


@pytest.mark.parametrize(
    ("pieces", "kind"),
    [
        ([], ErrorKind.TRANSPORT),
        ([b": ping\n\n"], ErrorKind.TRANSPORT),
        ([event(chunk({"content": "a"}))], ErrorKind.TRANSPORT),
        ([event(chunk({"content": "a"})), event(chunk({}, "stop"))[:-9]], ErrorKind.TRANSPORT),
        ([DONE], ErrorKind.SERVER),
        ([event(chunk({}, "stop")), DONE], ErrorKind.SERVER),
        ([event(chunk({}, "tool_calls")), DONE], ErrorKind.SERVER),
        ([event(chunk({"reasoning_content": "hm"})), event(chunk({}, "stop")), DONE], ErrorKind.SERVER),
        ([event(chunk({"reasoning_content": "hm"}, "length")), DONE], ErrorKind.OUTPUT_CAP),
        ([event(chunk({}, "content_filter")), DONE], ErrorKind.CONTENT_POLICY),
        ([b"data: not json\n\n"], ErrorKind.SERVER),
    ],
)
def test_early_end_and_empty_answer_are_errors(pieces: list[bytes], kind: ErrorKind) -> None:
    assert run(failure_of(stream(*pieces))).kind is kind


def test_answer_that_is_whole_survives_a_connection_lost_after_it() -> None:
    whole = chunked(event(chunk({"content": "Hello"})), event(chunk({}, "stop")), end=False)

    async def main() -> None:
        for end in (Close(), Reset()):
            async with ByteServer([[head(transfer_encoding="chunked"), *whole, end]]) as server:
                provider = provider_at(server.base_url)
                assert (await answer(provider)).message.content == "Hello"
                await provider.close()

    run(main())


def test_call_cut_off_by_the_end_of_the_stream_is_never_handed_on() -> None:
    half = {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "rm", "arguments": '{"path": "/'}}]}

    async def main() -> None:
        async with ByteServer([stream(event(chunk(half)), event(chunk({}, "length")), DONE)]) as server:
            provider = provider_at(server.base_url)
            response = await answer(provider)
            assert response.message.tool_calls == ()
            assert [call.name for call in response.unfinished_calls] == ["rm"]
            assert response.finish is FinishReason.LENGTH
            await provider.close()

    run(main())


def test_error_status_keeps_status_headers_and_body() -> None:
    script = plain(
        b'{"error":{"message":"Rate limit reached"}}',
        "429 Too Many Requests",
        retry_after="3",
        x_request_id="req_9",
    )
    error = run(failure_of(script))
    assert (error.kind, error.status, error.retry_after_s, error.request_id) == (
        ErrorKind.RATE_LIMIT,
        429,
        3.0,
        "req_9",
    )
    assert "Rate limit reached" in error.body


def test_key_never_shows_in_an_error_that_repeats_it() -> None:
    body = b'{"error":{"message":"Incorrect API key provided: ' + KEY.encode() + b'"}}'
    error = run(failure_of(plain(body, "401 Unauthorized")))
    assert error.kind is ErrorKind.AUTH
    assert KEY not in f"{error} {error!r} {error.body}"


def test_slow_consumer_is_not_a_slow_host() -> None:
    async def main() -> None:
        hold = Hold()
        script = [
            head(transfer_encoding="chunked"),
            *chunked(event(chunk({"content": "a"})), end=False),
            hold,
        ]
        script += chunked(event(chunk({"content": "b"}, "stop")) + DONE)
        async with ByteServer([script]) as server:
            provider = provider_at(server.base_url, between_events_s=0.2)
            seen = []
            async with aclosing(provider.stream(ask())) as events:
                async for item in events:
                    seen.append(item)
                    if len(seen) == 1:
                        await hold.reached.wait()
                        await asyncio.sleep(0.3)  # longer than the limit, at the consumer
                        hold.release.set()
            assert isinstance(seen[-1], ResponseDone)
            await provider.close()

    run(main())


def test_open_and_close_can_be_repeated() -> None:
    async def main() -> None:
        async with ByteServer([HELLO]) as server:
            provider = provider_at(server.base_url)
            await provider.close()
            await provider.open()
            await provider.open()
            await answer(provider)
            await provider.close()
            await provider.close()
            await provider.open()
            await answer(provider)
            await provider.close()

    run(main())


def test_every_profile_is_immutable_and_reachable() -> None:
    for profile in list_profiles():
        with pytest.raises(AttributeError):
            profile.name = "x"  # type: ignore[misc]


@pytest.mark.parametrize(("window", "kind"), [(100, ErrorKind.CONTEXT_OVERFLOW), (1000, ErrorKind.SERVER)])
def test_empty_answer_to_a_prompt_that_no_window_holds_is_an_overflow(window: int, kind: ErrorKind) -> None:
    async def main() -> None:
        script = stream(text_answer(usage={"prompt_tokens": 101, "completion_tokens": 0}))
        async with ByteServer([script]) as server:
            provider = provider_at(server.base_url, context_window=window)
            with pytest.raises(ProviderError) as caught:
                await collect(provider)
            assert caught.value.kind is kind
            await provider.close()

    run(main())


def test_empty_answer_that_no_room_was_left_for_is_an_overflow() -> None:
    script = stream(event(chunk({}, "model_context_window_exceeded")) + DONE)
    error = run(failure_of(script))
    assert error.kind is ErrorKind.CONTEXT_OVERFLOW
