"""Connections: when one is used again, who waits for one, and whose it is; the same over every engine."""

from __future__ import annotations

import asyncio
import gc
import os
import warnings
from contextlib import aclosing

import pytest

from byte_server import ByteServer, Close, Hold, head, stream
from hermes_messages import (
    ErrorKind,
    ProviderError,
    ResponseDone,
)
from hermes_providers import HttpOptions, HttpProvider, Timeouts, make_transport
from hermes_providers.engines import pool as pool_module
from hermes_providers.timeouts import StreamClock
from wire_help import answer, ask, chunk, collect, event, provider_at, run, text_answer

HELLO = stream(text_answer("Hel", "lo"))


def test_connection_is_used_again_after_a_tidy_end(engine: str) -> None:
    async def main() -> None:
        async with ByteServer([HELLO]) as server:
            provider = provider_at(server.base_url, engine=engine, keep_alive=True)
            for _ in range(5):
                assert (await answer(provider)).message.content == "Hello"
            assert server.connections == 1
            await provider.close()
            await server.wait_until_open(0)

    run(main())


def test_plain_connection_is_not_kept_unless_asked_for(engine: str) -> None:
    async def main() -> None:
        async with ByteServer([[*HELLO, Close()]]) as server:
            provider = provider_at(server.base_url, engine=engine)
            for _ in range(5):
                assert (await answer(provider)).message.content == "Hello"
            assert server.connections == 5
            assert server.requests[0].headers["connection"] == "close"
            await provider.close()

    run(main())


def test_kept_connection_that_died_is_not_used(engine: str) -> None:
    async def main() -> None:
        async with ByteServer([[*HELLO, Close()]]) as server:  # the head promised to keep it
            provider = provider_at(server.base_url, engine=engine, keep_alive=True)
            for number in range(1, 6):
                assert (await answer(provider)).message.content == "Hello"
                await server.wait_until_open(0)
                await asyncio.sleep(0.01)  # its end has to reach us
                assert server.connections == number
            await provider.close()

    run(main())


def test_kept_connection_expires(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "KEEP_S", 0.05)
    if engine == "aiohttp":
        from hermes_providers.engines import aiohttp_engine

        monkeypatch.setattr(aiohttp_engine, "KEEP_S", 0.05)

    async def main() -> None:
        async with ByteServer([HELLO]) as server:
            provider = provider_at(server.base_url, engine=engine, keep_alive=True)
            await asyncio.gather(*(answer(provider) for _ in range(3)))
            await server.wait_until_open(0)
            assert (await answer(provider)).message.content == "Hello"
            await provider.close()

    run(main())


def test_requests_past_the_limit_wait_for_their_turn(engine: str) -> None:
    async def main() -> None:
        async with ByteServer([HELLO]) as server:
            provider = provider_at(server.base_url, engine=engine, max_connections=2, keep_alive=True)
            answers = await asyncio.gather(*(answer(provider) for _ in range(20)))
            assert {one.message.content for one in answers} == {"Hello"}
            assert server.connections <= 2
            await provider.close()

    run(main())


def test_close_while_a_stream_runs_ends_it_with_an_error(engine: str) -> None:
    async def main() -> None:
        hold = Hold()
        async with ByteServer([[head(), event(chunk({"content": "a"})), hold], HELLO]) as server:
            provider = provider_at(server.base_url, engine=engine)
            task = asyncio.ensure_future(collect(provider))
            await hold.reached.wait()
            await provider.close()
            with pytest.raises(ProviderError) as caught:
                await task
            assert caught.value.kind is ErrorKind.TRANSPORT
            await server.wait_until_open(0)
            assert (await answer(provider)).message.content == "Hello"
            await provider.close()

    run(main())


def test_close_while_requests_wait_for_a_connection_sends_none_of_them(engine: str) -> None:
    async def main() -> None:
        hold = Hold()
        async with ByteServer([[head(), event(chunk({"content": "a"})), hold], HELLO]) as server:
            provider = provider_at(server.base_url, engine=engine, max_connections=1, keep_alive=True)
            tasks = [asyncio.ensure_future(collect(provider))]
            await hold.reached.wait()
            tasks += [asyncio.ensure_future(collect(provider)) for _ in range(2)]
            await asyncio.sleep(0)
            await provider.close()
            for error in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(error, ProviderError), error
                assert error.kind is ErrorKind.TRANSPORT
            await server.wait_until_open(0)
            assert len(server.requests) == 1
            assert (await answer(provider)).message.content == "Hello"
            await provider.close()

    run(main())


def test_connection_is_released_before_the_last_event(engine: str) -> None:
    async def main() -> None:
        async with ByteServer([HELLO]) as server:
            provider = provider_at(server.base_url, engine=engine, max_connections=1, keep_alive=True)
            async with aclosing(provider.stream(ask())) as events:
                async for item in events:
                    if isinstance(item, ResponseDone):  # with one connection this would wait for ever
                        assert (await answer(provider)).message.content == "Hello"
            await provider.close()

    run(main())


@pytest.mark.parametrize("closed", [True, False])
def test_second_event_loop(engine: str, closed: bool, caplog: pytest.LogCaptureFixture) -> None:
    transport = make_transport(engine, Timeouts(), HttpOptions(keep_alive=True))

    async def main() -> None:
        async with ByteServer([HELLO]) as server:
            for _ in range(2):
                clock = StreamClock(Timeouts(first_event_s=5), asyncio.get_running_loop().time())
                async with transport.post(f"{server.base_url}/x", {}, b"{}", clock) as reply:
                    while await reply.read(clock):
                        pass
            assert server.connections == 1
            if closed:
                await transport.close()
                await server.wait_until_open(0)

    with warnings.catch_warnings():
        if not closed:  # the user left a connection open: that is Python's to say
            warnings.simplefilter("ignore", ResourceWarning)
        run(main())
        run(main())
        run(transport.close())
    assert not caplog.records


def test_two_event_loops_that_take_turns_keep_a_connection_each(engine: str) -> None:
    async def start() -> ByteServer:
        return await ByteServer([HELLO]).__aenter__()

    loops = [asyncio.new_event_loop() for _ in range(2)]
    servers = [loop.run_until_complete(start()) for loop in loops]
    provider = provider_at(servers[0].base_url, engine=engine, keep_alive=True)
    transport = provider._transport

    async def ask_once(server: ByteServer) -> None:
        clock = StreamClock(Timeouts(first_event_s=5), asyncio.get_running_loop().time())
        async with transport.post(f"{server.base_url}/x", {}, b"{}", clock) as reply:
            while await reply.read(clock):
                pass

    for _ in range(4):
        for loop, server in zip(loops, servers, strict=True):
            loop.run_until_complete(ask_once(server))
    assert [server.connections for server in servers] == [1, 1]
    for loop, server in zip(loops, servers, strict=True):
        loop.run_until_complete(provider.close())
        loop.run_until_complete(server.__aexit__(None, None, None))
        loop.close()


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="this system has no fork, or no way to await one")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_child_of_a_fork_takes_no_connection_from_its_parent(engine: str) -> None:
    async def main() -> None:
        async with ByteServer([HELLO]) as server:
            provider = provider_at(server.base_url, engine=engine, keep_alive=True, first_event_s=5)
            assert (await answer(provider)).message.content == "Hello"
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    asyncio.run(_ask_as_child(provider))
                    code = 0
                finally:
                    os._exit(code)
            assert await _ended(child) == 0  # not waited for in one go: its server is here
            assert (await answer(provider)).message.content == "Hello"
            await provider.close()

    run(main())


async def _ended(child: int) -> int:
    watched = os.pidfd_open(child)
    over = asyncio.Event()
    asyncio.get_running_loop().add_reader(watched, over.set)
    await asyncio.wait_for(over.wait(), 20)
    asyncio.get_running_loop().remove_reader(watched)
    os.close(watched)
    return os.waitpid(child, 0)[1]  # noqa: ASYNC222 - it has ended


async def _ask_as_child(provider: HttpProvider) -> None:
    assert (await answer(provider)).message.content == "Hello"
    await provider.close()
    del provider
    gc.collect()
