"""What goes over the wire and what comes back, the same over every engine."""

from __future__ import annotations

import asyncio
import gzip
import traceback
import warnings
from contextlib import aclosing
from typing import Any

import pytest

from byte_server import Action, ByteServer, Close, Hold, Reset, Script, chunked, head, plain, stream
from hermes_messages import (
    ErrorKind,
    MissingDependencyError,
    ProviderError,
    TextDelta,
    UnknownNameError,
    UserMessage,
)
from hermes_providers import HttpOptions, Timeouts, make_transport
from hermes_providers.timeouts import StreamClock
from wire_help import DONE, KEY, answer, ask, chunk, collect, event, provider_at, run, text_answer

HELLO = stream(text_answer("Hel", "lo"))


async def failure_of(script: Script, engine: str, **settings: Any) -> ProviderError:
    async with ByteServer([script]) as server:
        provider = provider_at(server.base_url, engine=engine, **settings)
        with pytest.raises(ProviderError) as caught:
            await collect(provider)
        await provider.close()
        await server.wait_until_open(0)
        return caught.value


def test_no_header_goes_out_but_ours_and_what_http_demands(engine: str) -> None:
    async def main() -> None:
        answered = [
            head(transfer_encoding="chunked", set_cookie="session=1; Path=/"),
            *chunked(text_answer("Hello")),
        ]
        async with ByteServer([answered]) as server:
            provider = provider_at(server.base_url, engine=engine, keep_alive=True, headers={"x-own": "1"})
            for _ in range(2):
                assert (await answer(provider)).message.content == "Hello"
            assert server.connections == 1
            for request in server.requests:
                assert request.line == "POST /v1/chat/completions HTTP/1.1"
                assert {n: v for n, v in request.headers.items() if n != "content-length"} == {
                    "host": server.base_url.removeprefix("http://").removesuffix("/v1"),
                    "authorization": f"Bearer {KEY}",
                    "content-type": "application/json",
                    "accept": "text/event-stream, application/json",
                    "accept-encoding": "identity",
                    "user-agent": "hermes-providers",
                    "x-own": "1",
                }
            await provider.close()

    run(main())


@pytest.mark.parametrize("size", [1_500_000, 5_000_000])
def test_large_request_arrives_whole_and_without_a_warning(engine: str, size: int) -> None:
    async def main() -> None:
        async with ByteServer([HELLO]) as server:
            provider = provider_at(server.base_url, engine=engine)
            text = "é" * (size // 2)
            assert (await answer(provider, ask(UserMessage(text)))).message.content == "Hello"
            assert server.requests[0].json()["messages"] == [{"role": "user", "content": text}]
            assert "transfer-encoding" not in server.requests[0].headers
            await provider.close()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(main())


def test_compressed_answer_is_read_though_nobody_asked_for_one(engine: str) -> None:
    async def main() -> None:
        body = gzip.compress(text_answer("Hello"))
        script = [head(transfer_encoding="chunked", content_encoding="gzip"), *chunked(body[:9], body[9:])]
        async with ByteServer([script]) as server:
            provider = provider_at(server.base_url, engine=engine)
            assert (await answer(provider)).message.content == "Hello"
            await provider.close()

    run(main())


def test_compressed_answer_that_is_broken_is_a_transport_error(engine: str) -> None:
    script = [head(transfer_encoding="chunked", content_encoding="gzip"), *chunked(b"no gzip at all" * 9)]
    assert run(failure_of(script, engine)).kind is ErrorKind.TRANSPORT


def test_headers_of_an_answer_are_lower_case_and_joined(engine: str) -> None:
    async def main() -> None:
        script = [
            b"HTTP/1.1 200 OK\r\nX-One: a\r\nx-one: b\r\nRetry-After: 3\r\nContent-Length: 2\r\n\r\n",
            b"ok",
        ]
        async with ByteServer([script]) as server:
            transport = make_transport(engine, Timeouts(), HttpOptions())
            clock = StreamClock(Timeouts(), asyncio.get_running_loop().time())
            async with transport.post(f"{server.base_url}/x", {}, b"{}", clock) as reply:
                assert reply.status == 200
                assert (reply.headers["x-one"], reply.headers["retry-after"]) == ("a, b", "3")
                assert await reply.read(clock) == b"ok"
                assert await reply.read(clock) == b""
                assert await reply.read(clock) == b""
            await transport.close()

    run(main())


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent"])
def test_redirect_is_not_followed_with_the_key(engine: str, status: str) -> None:
    async def main() -> None:
        async with ByteServer([plain(b"", status, location="/elsewhere")]) as server:
            provider = provider_at(server.base_url, engine=engine)
            with pytest.raises(ProviderError, match="/elsewhere") as caught:
                await answer(provider)
            assert caught.value.kind is ErrorKind.FORMAT
            assert len(server.requests) == 1
            await provider.close()

    run(main())


def test_slow_drip_of_single_bytes_gives_the_same_answer(engine: str) -> None:
    async def main() -> None:
        whole = b"".join(piece for piece in HELLO if isinstance(piece, bytes))
        script: list[Action] = [whole[place : place + 1] for place in range(len(whole))]
        async with ByteServer([script]) as server:
            provider = provider_at(server.base_url, engine=engine)
            assert (await answer(provider)).message.content == "Hello"
            await provider.close()

    run(main())


@pytest.mark.parametrize("end", [Close(), Reset()])
@pytest.mark.parametrize("begun", [True, False])
def test_connection_lost(engine: str, end: Close | Reset, begun: bool) -> None:
    started: Script = stream(event(chunk({"content": "a"})), end=False) if begun else []
    error = run(failure_of([*started, end], engine))
    assert error.kind is ErrorKind.TRANSPORT
    assert "127.0.0.1:" in str(error)


def test_what_is_no_http_is_a_transport_error(engine: str) -> None:
    assert run(failure_of([b"SSH-2.0-OpenSSH_9.6\r\n", Close()], engine)).kind is ErrorKind.TRANSPORT


def test_error_body_that_never_ends_is_cut(engine: str) -> None:
    error = run(failure_of([head("500 Oops"), b"x" * 200_000, Hold()], engine))
    assert error.kind is ErrorKind.SERVER
    assert len(error.body) <= 64 * 1024


def test_nobody_listens(engine: str) -> None:
    async def main() -> ProviderError:
        async with ByteServer([HELLO]) as server:
            url = server.base_url
        provider = provider_at(url, engine=engine)
        with pytest.raises(ProviderError, match="can not connect") as caught:
            await answer(provider)
        await provider.close()
        return caught.value

    assert run(main()).kind is ErrorKind.TRANSPORT


def test_large_answer_to_a_slow_consumer_is_read_no_faster_than_it_is_taken(engine: str) -> None:
    async def main() -> None:
        pieces = [event(chunk({"content": "x" * 20_000})) for _ in range(1_000)]
        async with ByteServer([stream(*pieces, event(chunk({}, "stop")) + DONE)]) as server:
            provider = provider_at(server.base_url, engine=engine)
            size = 0
            async with aclosing(provider.stream(ask())) as events:
                async for item in events:
                    if isinstance(item, TextDelta):
                        size += len(item.text)
                        if size == 20_000:  # the host could send all of it meanwhile, if we let it
                            await _until_it_rests(server)
                            assert server.sent < 12_000_000
            assert size == 1_000 * 20_000
            await provider.close()

    run(main())


async def _until_it_rests(server: ByteServer) -> None:
    before = -1
    while before != server.sent:
        before = server.sent
        await asyncio.sleep(0.05)


def test_engine_that_does_not_exist_is_named_with_its_near_match() -> None:
    with pytest.raises(UnknownNameError, match="aiohttp"):
        provider_at("http://h.example/v1", engine="aiohtp")


def test_engine_that_is_not_installed_names_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "aiohttp", None)
    monkeypatch.delitem(sys.modules, "hermes_providers.engines.aiohttp_engine", raising=False)
    with pytest.raises(MissingDependencyError, match=r"pip install 'hermes-providers\[aiohttp\]'"):
        provider_at("http://h.example/v1", engine="aiohttp")


@pytest.mark.parametrize(
    "answered",
    [
        [b"HTTP/1.1 %b\r\n\r\n"],
        [b"you sent %b\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nbad %b\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%b\r\n"],
    ],
)
def test_peer_that_answers_with_the_key_in_place_of_http_makes_no_error_show_it(
    engine: str, answered: list[bytes]
) -> None:
    echo = [piece % f"{KEY} own-secret-1".encode() for piece in answered]
    error = run(failure_of([*echo, Close()], engine, headers={"x-own": "own-secret-1"}))
    assert error.kind is ErrorKind.TRANSPORT
    told = "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))
    assert KEY not in told
    assert "own-secret-1" not in told


def test_error_event_behind_the_end_undoes_no_answer(engine: str) -> None:
    late = b'event: error\ndata: {"error":{"message":"too late"}}\n\n'

    async def main() -> None:
        async with ByteServer([stream(text_answer("Hello") + late)]) as server:
            provider = provider_at(server.base_url, engine=engine)
            assert (await answer(provider)).message.content == "Hello"
            await provider.close()

    run(main())


def test_control_characters_in_a_string_lose_no_answer(engine: str) -> None:
    async def main() -> None:
        odd = text_answer("Hello").replace(b"Hello", b"He\x00l\tlo")
        async with ByteServer([stream(odd)]) as server:
            provider = provider_at(server.base_url, engine=engine)
            assert (await answer(provider)).message.content == "He\x00l\tlo"
            await provider.close()

    run(main())


def test_header_host_is_the_users(engine: str) -> None:
    async def main() -> None:
        async with ByteServer([HELLO]) as server:
            provider = provider_at(
                server.base_url, engine=engine, headers={"Host": "inner.example", "x": " y "}
            )
            assert (await answer(provider)).message.content == "Hello"
            await provider.close()
            assert server.requests[0].headers["host"] == "inner.example"
            assert server.requests[0].headers["x"] == "y"

    run(main())


def test_name_that_is_no_host_is_a_typed_error(engine: str) -> None:
    async def main() -> None:
        transport = make_transport(engine, Timeouts(), HttpOptions(direct=True))
        for url in (f"http://{'x' * 64}.example/", "http://x..example/", "http://h:port/"):
            clock = StreamClock(Timeouts(first_event_s=5), asyncio.get_running_loop().time())
            with pytest.raises(ProviderError):
                async with transport.post(url, {}, b"{}", clock):
                    pass
        await transport.close()

    run(main())
