"""The provider against a real socket that plays exact bytes."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import warnings
from contextlib import aclosing

import pytest

from byte_server import ByteServer, Close, Hold, Request, Reset, Script, chunked, head, plain, stream
from hermes_messages import (
    ConfigurationError,
    ErrorKind,
    FinishReason,
    HermesError,
    MissingDependencyError,
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
from hermes_providers.wire.openai_chat_request import ChatRequestBuilder
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
            assert events[:2] == [TextDelta("Hel"), TextDelta("lo")]
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


def test_connection_is_used_again_after_a_tidy_end() -> None:
    async def main() -> None:
        async with ByteServer([HELLO]) as server:
            provider = provider_at(server.base_url, keep_alive=True)
            for _ in range(5):
                assert (await answer(provider)).message.content == "Hello"
            assert server.connections == 1
            assert "close" not in server.requests[0].headers.get("connection", "")
            await provider.close()
            await server.wait_until_open(0)

    run(main())


def test_host_that_closes_after_each_stream_loses_no_request() -> None:
    async def main() -> None:
        async with ByteServer([[*HELLO, Close()]]) as server:
            provider = provider_at(server.base_url)
            for _ in range(20):
                assert (await answer(provider)).message.content == "Hello"
            assert server.connections == 20
            assert server.requests[0].headers["connection"] == "close"
            await provider.close()

    run(main())


def test_connection_is_released_before_the_last_event() -> None:
    async def main() -> None:
        async with ByteServer([HELLO]) as server:
            provider = provider_at(server.base_url, max_connections=1, keep_alive=True)
            async with aclosing(provider.stream(ask())) as events:
                async for item in events:
                    if isinstance(item, ResponseDone):  # with one connection this would wait for ever
                        assert (await answer(provider)).message.content == "Hello"
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


@pytest.mark.parametrize("end", [Close(), Reset()])
def test_connection_lost_in_the_middle(end: Close | Reset) -> None:
    started = [head(transfer_encoding="chunked"), *chunked(event(chunk({"content": "a"})), end=False)]
    assert run(failure_of([*started, end])).kind is ErrorKind.TRANSPORT
    assert run(failure_of([end])).kind is ErrorKind.TRANSPORT


def test_answer_that_is_whole_survives_a_connection_lost_after_it() -> None:
    whole = chunked(event(chunk({"content": "Hello"})), event(chunk({}, "stop")), end=False)

    async def main() -> None:
        for end in (Close(), Reset()):
            async with ByteServer([[head(transfer_encoding="chunked"), *whole, end]]) as server:
                provider = provider_at(server.base_url)
                assert (await answer(provider)).message.content == "Hello"
                await provider.close()

    run(main())


def test_answer_that_is_whole_does_not_wait_for_a_host_that_never_ends() -> None:
    async def main() -> None:
        for pieces in ([event(chunk({"content": "Hello"}, "stop"))], [text_answer("Hello")]):
            script = [head(transfer_encoding="chunked"), *chunked(*pieces, end=False), Hold()]
            async with ByteServer([script]) as server:
                provider = provider_at(server.base_url, after_finish_s=0.05)
                assert (await answer(provider)).message.content == "Hello"
                await server.wait_until_open(0)
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


def test_error_body_that_never_ends_is_cut() -> None:
    error = run(failure_of([head("500 Oops"), b"x" * 200_000, Hold()]))
    assert error.kind is ErrorKind.SERVER


def test_key_never_shows_in_an_error_that_repeats_it() -> None:
    body = b'{"error":{"message":"Incorrect API key provided: ' + KEY.encode() + b'"}}'
    error = run(failure_of(plain(body, "401 Unauthorized")))
    assert error.kind is ErrorKind.AUTH
    assert KEY not in f"{error} {error!r} {error.body}"


@pytest.mark.parametrize(
    ("script", "settings", "what"),
    [
        ([Hold()], {"first_event_s": 0.05}, "first_event_s"),
        ([head(), Hold()], {"first_event_s": 0.05}, "first_event_s"),
        ([head(), b": ping\n\n", Hold()], {"first_event_s": 0.05}, "first_event_s"),
        (
            [head(), event(chunk({"content": "a"})), b": ping\n\n", Hold()],
            {"between_events_s": 0.05},
            "between_events_s",
        ),
        ([head(), event(chunk({"content": "a"})), Hold()], {"total_s": 0.05}, "total_s"),
    ],
)
def test_every_wait_has_its_limit(script: Script, settings: dict[str, float], what: str) -> None:
    error = run(failure_of(script, **settings))
    assert error.kind is ErrorKind.TIMEOUT
    assert what in str(error)


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


def test_nobody_listens() -> None:
    async def main() -> ProviderError:
        async with ByteServer([HELLO]) as server:
            url = server.base_url
        provider = provider_at(url)
        error = await failure(provider)
        await provider.close()
        return error

    assert run(main()).kind is ErrorKind.TRANSPORT


def two_connections(server: ByteServer) -> HttpProvider:
    return provider_at(server.base_url, max_connections=2, keep_alive=True)


def test_cancelled_streams_leak_no_connection() -> None:
    async def main() -> None:
        scripts: list[Script] = []
        for number in range(5):
            start = [head(), event(chunk({"content": "a"}))] if number % 2 else []
            scripts.append([*start, Hold()])
        async with ByteServer([*scripts, HELLO]) as server:
            provider = two_connections(server)
            for script in scripts:
                hold = script[-1]
                assert isinstance(hold, Hold)
                task = asyncio.ensure_future(collect(provider))
                await hold.reached.wait()
                task.cancel()
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await server.wait_until_open(0)
            assert (await answer(provider)).message.content == "Hello"
            await provider.close()

    run(main())


def test_early_break_leaks_no_connection() -> None:
    async def main() -> None:
        script: Script = [head(), event(chunk({"content": "a"})), event(chunk({"content": "b"})), Hold()]
        async with ByteServer([*[script] * 5, HELLO]) as server:
            provider = two_connections(server)
            for _ in range(5):
                async with aclosing(provider.stream(ask())) as events:
                    async for _item in events:
                        break
                await server.wait_until_open(0)
            assert (await answer(provider)).message.content == "Hello"
            await provider.close()

    run(main())


def test_error_answers_leak_no_connection() -> None:
    async def main() -> None:
        error = plain(b'{"error":{"message":"slow down"}}', "429 Too Many Requests")
        broken: Script = [head(), event({"error": {"message": "boom"}}), Hold()]
        async with ByteServer([*[error] * 5, *[broken] * 5, HELLO]) as server:
            provider = two_connections(server)
            for _ in range(10):
                await failure(provider)
            assert (await answer(provider)).message.content == "Hello"
            assert server.open <= 1
            await provider.close()

    run(main())


def test_requests_past_the_limit_wait_for_their_turn() -> None:
    async def main() -> None:
        async with ByteServer([HELLO]) as server:
            provider = two_connections(server)
            answers = await asyncio.gather(*(answer(provider) for _ in range(20)))
            assert {a.message.content for a in answers} == {"Hello"}
            assert server.connections <= 2
            await provider.close()

    run(main())


def test_second_event_loop_works_without_a_close_in_the_first() -> None:
    made: list[HttpProvider] = []

    async def main() -> None:
        async with ByteServer([HELLO]) as server:
            provider = made[0] if made else provider_at(server.base_url)
            made[:] = [provider]
            builder = provider._wire.builder
            assert isinstance(builder, ChatRequestBuilder)
            builder._url = f"{server.base_url}/chat/completions"
            assert (await answer(provider)).message.content == "Hello"

    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ResourceWarning
        )  # the user left a connection open: that is Python's to say
        run(main())
        run(main())
        run(made[0].close())
        made.clear()
        gc.collect()


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


UNUSABLE: dict[str, type[HermesError]] = {"socks://u:hunter2@127.0.0.1:10808": ConfigurationError}
if importlib.util.find_spec("socksio") is None:
    UNUSABLE["socks5://u:hunter2@127.0.0.1:1"] = MissingDependencyError


@pytest.mark.parametrize(("proxy", "kind"), UNUSABLE.items())
def test_proxy_that_can_not_be_used_is_told_at_open(
    proxy: str, kind: type[HermesError], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        with pytest.raises(kind) as caught:
            await provider_at("http://h.example/v1").open()
        assert "hunter2" not in str(caught.value)

    monkeypatch.setenv("ALL_PROXY", proxy)
    run(main())


def test_redirect_is_not_followed_with_the_key() -> None:
    error = run(failure_of(plain(b"", "307 Temporary Redirect", location="http://elsewhere.example/v1")))
    assert error.kind is ErrorKind.FORMAT
    assert "elsewhere.example" in str(error)


def test_every_profile_is_immutable_and_reachable() -> None:
    for profile in list_profiles():
        with pytest.raises(AttributeError):
            profile.name = "x"  # type: ignore[misc]


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("times", [1, 2])
def test_cancel_at_any_moment_leaks_no_connection(times: int, keep: bool) -> None:
    async def main() -> int:
        async with ByteServer([HELLO]) as server:
            provider = provider_at(server.base_url, max_connections=1, keep_alive=keep)
            for moment in range(200):
                task = asyncio.ensure_future(answer(provider))
                for _ in range(moment):
                    await asyncio.sleep(0)
                for _ in range(times):
                    task.cancel()
                    await asyncio.sleep(0)
                outcome = (await asyncio.gather(task, return_exceptions=True))[0]
                assert (
                    await answer(provider)
                ).message.content == "Hello"  # with one connection, a leak hangs
                if not isinstance(outcome, asyncio.CancelledError):
                    break
            await provider.close()
            await server.wait_until_open(0)
            return moment

    assert 5 < run(main()) < 199


def test_close_while_a_stream_runs_ends_it_with_an_error() -> None:
    async def main() -> None:
        hold = Hold()
        async with ByteServer([[head(), event(chunk({"content": "a"})), hold], HELLO]) as server:
            provider = provider_at(server.base_url)
            task = asyncio.ensure_future(collect(provider))
            await hold.reached.wait()
            await provider.close()
            with pytest.raises(ProviderError):
                await task
            await server.wait_until_open(0)
            assert (await answer(provider)).message.content == "Hello"
            await provider.close()

    run(main())


def test_large_answer_to_a_slow_consumer_is_read_no_faster_than_it_is_taken() -> None:
    async def main() -> None:
        pieces = [event(chunk({"content": "x" * 20_000})) for _ in range(300)]
        async with ByteServer([stream(*pieces, event(chunk({}, "stop")) + DONE)]) as server:
            provider = provider_at(server.base_url)
            size = 0
            async with aclosing(provider.stream(ask())) as events:
                async for item in events:
                    if isinstance(item, TextDelta):
                        size += len(item.text)
                        await asyncio.sleep(0)
            assert size == 300 * 20_000
            await provider.close()

    run(main())
