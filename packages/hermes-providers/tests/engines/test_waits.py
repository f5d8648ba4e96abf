"""Timeouts, cancellation at each stage, and that neither leaves a connection, a task or a turn behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

from byte_server import ByteServer, Hold, Script, chunked, head, plain, stream
from hermes_messages import ErrorKind, ProviderError
from hermes_messages.protocols import ProviderOptions
from hermes_providers import HttpOptions, HttpProvider, Timeouts, adapter, from_profile, make_transport
from tls_help import AUTHORITY, server_tls
from wire_help import DONE, answer, ask, chunk, collect, event, provider_at, run, text_answer

HELLO = stream(text_answer("Hel", "lo"))
BEGUN: Script = [head(), event(chunk({"content": "a"}))]
LIMITED = plain(b'{"error":{"message":"slow down"}}', "429 Too Many Requests")


def fresh(script: Script) -> Script:
    """`script` for another event loop: a `Hold` belongs to one."""
    return [Hold() if isinstance(action, Hold) else action for action in script]


def other_tasks() -> set[asyncio.Task[Any]]:
    """Tasks besides this one and those of the server."""
    ours = asyncio.current_task()
    return {
        task
        for task in asyncio.all_tasks()
        if task is not ours and "ByteServer" not in repr(task.get_coro()) and "_released" not in repr(task)
    }


async def failure(provider: HttpProvider) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await collect(provider)
    return caught.value


async def answer_in_time(provider: HttpProvider) -> object:
    """The answer, asked for again where the machine was too slow for the short limit."""
    async with asyncio.timeout(120):
        while True:
            try:
                return (await answer(provider)).message.content
            except ProviderError as error:
                if error.kind is not ErrorKind.TIMEOUT:
                    raise


@pytest.mark.parametrize(
    ("script", "settings", "what"),
    [
        ([Hold()], {"first_event_s": 0.05}, "first_event_s"),
        ([head(), Hold()], {"first_event_s": 0.05}, "first_event_s"),
        ([head(), b": ping\n\n", Hold()], {"first_event_s": 0.05}, "first_event_s"),
        ([*BEGUN, b": ping\n\n", Hold()], {"between_events_s": 0.05}, "between_events_s"),
        ([*BEGUN, Hold()], {"total_s": 0.05}, "total_s"),
        ([Hold()], {"total_s": 0.05}, "total_s"),
    ],
)
def test_every_wait_has_its_limit(engine: str, script: Script, settings: dict[str, float], what: str) -> None:
    async def main() -> None:
        async with ByteServer([fresh(script), HELLO]) as server:
            provider = provider_at(server.base_url, engine=engine, max_connections=1, **settings)
            error = await failure(provider)
            assert error.kind is ErrorKind.TIMEOUT
            assert what in str(error)
            await server.wait_until_open(0)
            assert not other_tasks()
            assert await answer_in_time(provider) == "Hello"
            await provider.close()

    run(main())


def test_drip_of_comments_is_no_progress(engine: str) -> None:
    async def main() -> None:
        script: Script = [head(), *([b": ping\n\n"] * 20_000), Hold()]
        async with ByteServer([script]) as server:
            provider = provider_at(server.base_url, engine=engine, first_event_s=0.1)
            assert "first_event_s" in str(await failure(provider))
            await provider.close()

    run(main())


def test_whole_answer_does_not_wait_for_a_host_that_never_ends(engine: str) -> None:
    async def main() -> None:
        for pieces in ([event(chunk({"content": "Hello"}, "stop"))], [text_answer("Hello")]):
            script = [head(transfer_encoding="chunked"), *chunked(*pieces, end=False), Hold()]
            async with ByteServer([script]) as server:
                provider = provider_at(server.base_url, engine=engine, after_finish_s=0.05)
                assert (await answer(provider)).message.content == "Hello"
                await server.wait_until_open(0)
                await provider.close()

    run(main())


async def silent_server() -> tuple[asyncio.Server, asyncio.Event, asyncio.Event]:
    """Takes connections and says nothing. The events are set when one came, and when it was ended."""
    came, ended = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.set()
        try:
            while await reader.read(65536):
                pass
        except ConnectionError:
            pass
        ended.set()
        writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0), came, ended


def test_handshake_that_never_ends_is_a_timeout_of_the_connecting(engine: str) -> None:
    async def main() -> None:
        server, came, ended = await silent_server()
        async with server:
            port = server.sockets[0].getsockname()[1]
            provider = provider_at(f"https://127.0.0.1:{port}/v1", engine=engine, connect_s=0.1)
            error = await failure(provider)
            assert error.kind is ErrorKind.TIMEOUT
            assert "connect_s" in str(error)
            await asyncio.wait_for(came.wait(), 120)
            await asyncio.wait_for(ended.wait(), 120)
            await provider.close()

    run(main())


def test_cancel_within_a_handshake_closes_the_socket(engine: str) -> None:
    async def main() -> None:
        server, came, ended = await silent_server()
        async with server:
            port = server.sockets[0].getsockname()[1]
            provider = provider_at(f"https://127.0.0.1:{port}/v1", engine=engine, max_connections=1)
            for _ in range(3):
                task = asyncio.ensure_future(collect(provider))
                await asyncio.wait_for(came.wait(), 120)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await asyncio.wait_for(ended.wait(), 120)
                came.clear()
                ended.clear()
            await provider.close()

    run(main())


def test_wait_for_a_free_connection_has_a_limit_and_can_be_cancelled(engine: str) -> None:
    async def main() -> None:
        hold = Hold()
        async with ByteServer([[*BEGUN, hold], HELLO]) as server:
            transport = make_transport(engine, Timeouts(), HttpOptions(max_connections=1))
            options = ProviderOptions(base_url=server.base_url, settings={"first_event_s": 0.2})
            hasty = from_profile("custom", options, transport=transport)
            provider = from_profile("custom", ProviderOptions(base_url=server.base_url), transport=transport)
            first = asyncio.ensure_future(collect(provider))
            await hold.reached.wait()
            waiting = asyncio.ensure_future(collect(provider))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            error = await failure(hasty)
            assert error.kind is ErrorKind.TIMEOUT
            assert "all 1 connections were in use" in str(error)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            assert (await answer(provider)).message.content == "Hello"
            assert len(server.requests) == 2
            await provider.close()

    run(main())


STAGES: dict[str, Script] = {
    "before the head": [Hold()],
    "in the head": [b"HTTP/1.1 200 OK\r\nx-", Hold()],
    "before the first event": [head(), Hold()],
    "between events": [*BEGUN, Hold()],
    "in an event": [*BEGUN, b"data: {", Hold()],
    "after the finish": [head(), event(chunk({"content": "a"}, "stop")), Hold()],
    "in the body of an error": [head("429 Too Many Requests"), b'{"error"', Hold()],
}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("tls", [False, True])
def test_cancel_at_each_stage_leaks_nothing(engine: str, stage: str, times: int, tls: bool) -> None:
    async def main() -> None:
        hold = Hold()
        script: Script = [*STAGES[stage][:-1], hold]
        async with ByteServer([script, HELLO], tls=server_tls() if tls else None) as server:
            provider = provider_at(server.base_url, engine=engine, max_connections=1, ca_file=AUTHORITY)
            task = asyncio.ensure_future(collect(provider))
            await hold.reached.wait()
            for _ in range(5):  # what was sent reaches the client
                await asyncio.sleep(0)
            for _ in range(times):
                task.cancel()
                await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.wait_until_open(0)
            assert not other_tasks()
            assert (await answer(provider)).message.content == "Hello"
            await provider.close()

    run(main())


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("tls", [False, True])
def test_cancel_at_any_moment_leaks_no_connection(engine: str, times: int, keep: bool, tls: bool) -> None:
    async def main() -> int:
        async with ByteServer([HELLO], tls=server_tls() if tls else None) as server:
            provider = provider_at(
                server.base_url,
                engine=engine,
                max_connections=1,
                keep_alive=keep,
                ca_file=AUTHORITY,
            )
            for moment in range(200):
                task = asyncio.ensure_future(answer(provider))
                for _ in range(moment):
                    await asyncio.sleep(0)
                for _ in range(times):
                    task.cancel()
                    await asyncio.sleep(0)
                outcome = (await asyncio.gather(task, return_exceptions=True))[0]
                # With one connection, a leak hangs.
                assert (await answer(provider)).message.content == "Hello"
                if not isinstance(outcome, asyncio.CancelledError):
                    break
            await provider.close()
            await server.wait_until_open(0)
            assert not other_tasks()
            return moment

    assert 5 < run(main()) < 199


async def cancelled(server: ByteServer, provider: HttpProvider, number: int) -> None:
    task = asyncio.ensure_future(collect(provider))
    await server.wait_for_request(number)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def limited(_server: ByteServer, provider: HttpProvider, _number: int) -> None:
    assert (await failure(provider)).kind is ErrorKind.RATE_LIMIT


async def broken_off(_server: ByteServer, provider: HttpProvider, _number: int) -> None:
    async with aclosing(provider.stream(ask())) as events:
        async for _item in events:
            break


async def broken_in_the_stream(_server: ByteServer, provider: HttpProvider, _number: int) -> None:
    assert (await failure(provider)).kind is not ErrorKind.TIMEOUT


@pytest.mark.parametrize(
    ("what", "script"),
    [
        (cancelled, [*BEGUN, Hold()]),
        (cancelled, [Hold()]),
        (limited, LIMITED),
        (limited, [head("429 Too Many Requests", transfer_encoding="chunked"), *chunked(b"{}")]),
        (broken_off, [*BEGUN, *BEGUN[1:], Hold()]),
        (broken_off, stream(event(chunk({"content": "a"})), event(chunk({"content": "b"}, "stop")), DONE)),
        (broken_in_the_stream, [head(), event({"error": {"message": "boom"}}), Hold()]),
    ],
)
def test_two_connections_outlast_five_of_everything(
    engine: str, what: Callable[[ByteServer, HttpProvider, int], Awaitable[None]], script: Script
) -> None:
    async def main() -> None:
        async with ByteServer([*(fresh(script) for _ in range(5)), HELLO]) as server:
            provider = provider_at(server.base_url, engine=engine, max_connections=2, keep_alive=True)
            for number in range(5):
                await what(server, provider, number)
                assert server.open <= 2
            async with asyncio.timeout(120):
                assert (await answer(provider)).message.content == "Hello"
            await provider.close()
            await server.wait_until_open(0)
            assert not other_tasks()

    run(main())


@pytest.mark.parametrize("limit", ["total_s", "first_event_s"])
def test_slow_body_of_an_error_outlasts_no_limit_of_the_user(
    engine: str, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "_ERROR_BODY_S", 86_400.0)

    async def main(limit_s: float) -> ProviderError:
        hold = Hold()
        async with ByteServer([[head("500 Internal Server Error"), b"out of ord", hold]]) as server:
            provider = provider_at(server.base_url, engine=engine, **{limit: limit_s})
            error = await failure(provider)
            await provider.close()
        return error

    for limit_s in (0.2, 2.0, 20.0, 60.0):  # what there is of the answer must have come so far
        error = run(main(limit_s))
        if error.status is not None and "out of ord" in str(error):
            break
    assert error.status == 500
    assert "out of ord" in str(error)
