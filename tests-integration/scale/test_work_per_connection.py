"""A request costs the same beside ten others and beside a thousand: connections, turns, the rate limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from counting import FEW, MANY, Counts, counted, same

from hermes_providers import RateLimiter
from hermes_providers.engines.shared import Turns
from hermes_providers.timeouts import StreamClock, Timeouts
from hermes_providers.transport import HttpOptions, Transport, make_transport

pytestmark = pytest.mark.needs("workspace")

TIMES = 3
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Host:
    """Sends the head of an answer and a first chunk; the rest of it when a test says so."""

    def __init__(self) -> None:
        self._open: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                await reader.readexactly(2)
                self._open.append(writer)
                writer.write(HEAD + b"5\r\nfirst\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def end(self) -> None:
        """The newest answer."""
        self._open.pop().write(b"4\r\nlast\r\n0\r\n\r\n")


def new_clock() -> StreamClock:
    return StreamClock(Timeouts(), asyncio.get_running_loop().time())


class Requests:
    """So many under way over one transport."""

    def __init__(self, transport: Transport, host: Host, address: str) -> None:
        self._transport = transport
        self._host = host
        self._address = address
        self._under_way: list[AsyncExitStack] = []

    async def grow(self, count: int) -> None:
        while len(self._under_way) < count:
            await self.begin()

    async def shrink(self) -> None:
        while self._under_way:
            await self.end()

    async def begin(self) -> None:
        stack = AsyncExitStack()
        await stack.enter_async_context(self._one())
        self._under_way.append(stack)

    async def end(self) -> None:
        """The newest one."""
        self._host.end()
        await self._under_way.pop().aclose()

    @asynccontextmanager
    async def _one(self) -> AsyncIterator[None]:
        clock = new_clock()
        async with self._transport.post(self._address, {}, b"{}", clock) as reply:
            assert await reply.read(clock) == b"first"
            yield
            while await reply.read(clock):
                pass

    async def one_more(self, counts: Counts, beside: str) -> None:
        for _ in range(TIMES):
            with counted(counts, f"a request begins beside {beside}"):
                await self.begin()
            with counted(counts, f"a request ends beside {beside}"):
                await self.end()


@pytest.mark.parametrize("engine", ["httpx", "aiohttp"])
def test_a_request_does_work_for_each_other_connection(engine: str) -> None:
    async def costs() -> tuple[Counts, Counts]:
        host = Host()
        server = await asyncio.start_server(host.serve, "127.0.0.1", 0, backlog=MANY)
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        transport = make_transport(engine, Timeouts(), HttpOptions(keep_alive=True, max_connections=MANY + 1))
        await transport.open()
        requests = Requests(transport, host, address)
        found: tuple[Counts, Counts] = ({}, {})
        for counts, count in zip(found, (FEW, MANY), strict=True):
            await requests.grow(count)
            await requests.one_more(counts, "requests")
            await requests.shrink()
            await requests.one_more(counts, "idle connections")
        await transport.close()
        server.close()
        return found

    assert same(*asyncio.run(costs())) == {}


Take = Callable[[], Awaitable[object]]


class Queue:
    """Requests of which so many run, and as many wait for a turn."""

    def __init__(self, take: Take, give_back: Callable[[], None]) -> None:
        self._take = take
        self._give_back = give_back
        self._come: asyncio.Queue[None] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []

    async def _one(self) -> None:
        await self._take()
        self._come.put_nowait(None)

    async def add(self, count: int) -> None:
        self._tasks += [asyncio.create_task(self._one()) for _ in range(count)]
        await asyncio.sleep(0)  # each stands in the queue

    async def end(self, count: int) -> None:
        """So many that run, so that as many come next."""
        for _ in range(count):
            self._give_back()
        for _ in range(count):
            await self._come.get()

    async def costs(self, count: int) -> Counts:
        counts: Counts = {}
        await self.add(2 * count)
        for _ in range(count):
            await self._come.get()
        for _ in range(TIMES):
            with counted(counts, "one more waits"):
                await self.add(1)
            with counted(counts, "the last one waits no longer"):
                self._tasks[-1].cancel()
                await asyncio.gather(self._tasks.pop(), return_exceptions=True)
            with counted(counts, "one ends"):
                await self.end(1)
            await self.add(1)
        with counted(counts, "each of all that end at once"):
            await self.end(count)
        counts["each of all that end at once"] //= count
        await asyncio.gather(*self._tasks)
        return counts


async def costs_of_turns(count: int) -> Counts:
    turns = Turns(count)
    return await Queue(lambda: turns.take(new_clock()), turns.give_back).costs(count)


async def costs_of_the_rate_limit(count: int) -> Counts:
    limiter = RateLimiter(requests_per_minute=100_000, tokens_per_minute=100_000_000, max_concurrent=count)
    under_way: list[AsyncExitStack] = []

    async def take() -> None:
        stack = AsyncExitStack()
        permit = await stack.enter_async_context(limiter.admit(1_000))
        permit.settle(900)
        under_way.append(stack)

    def give_back() -> None:
        with pytest.raises(StopIteration):
            under_way.pop().aclose().send(None)

    return await Queue(take, give_back).costs(count)


async def costs_of_what_went_before(count: int) -> Counts:
    """In the window of the rate limit."""
    limiter = RateLimiter(requests_per_minute=100_000, tokens_per_minute=100_000_000)

    async def one() -> None:
        async with limiter.admit(1_000) as permit:
            permit.settle(900)

    for _ in range(count):
        await one()
    counts: Counts = {}
    for _ in range(TIMES):
        with counted(counts, "a request goes"):
            await one()
    return counts


@pytest.mark.parametrize("costs", [costs_of_turns, costs_of_the_rate_limit, costs_of_what_went_before])
def test_a_queue_looks_at_all_who_wait(costs: Callable[[int], Awaitable[Counts]]) -> None:
    async def main() -> tuple[Counts, Counts]:
        return await costs(FEW), await costs(MANY)

    few, many = asyncio.run(main())
    assert same(few, many) == {}
