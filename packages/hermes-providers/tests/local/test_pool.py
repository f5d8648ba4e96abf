"""Sharing by reference count, with a real child process per server."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable

import pytest

from hermes_providers.local import (
    LocalServer,
    LocalServerError,
    LocalServerOptions,
    LocalServerPool,
    running_loop_pool,
)

from .conftest import FakeServers, until

IsAlive = Callable[[int], bool]


def pool_of(fakes: FakeServers, *behaviours: str) -> LocalServerPool:
    """The first server behaves as the first behaviour says, and so on; the last one repeats."""
    left = list(behaviours)

    def make(options: LocalServerOptions) -> LocalServer:
        behaviour = left.pop(0) if len(left) > 1 else left[0]
        return LocalServer(options, program=fakes.program(behaviour))

    return LocalServerPool(make)


def test_four_workers_share_one_server_that_ends_with_the_last(fakes: FakeServers, is_alive: IsAlive) -> None:
    async def main() -> None:
        pool = pool_of(fakes, "good")
        seen: set[str] = set()
        all_in = asyncio.Barrier(4)

        async def worker(index: int) -> None:
            async with pool.use(fakes.options()) as server:
                seen.add(server.base_url)
                await all_in.wait()
            if index == 0:
                return

        async with asyncio.TaskGroup() as group:
            for index in range(4):
                group.create_task(worker(index))
        assert len(seen) == 1
        assert len(fakes.pids()) == 1
        assert not is_alive(fakes.pids()[0])

    asyncio.run(main())


def test_server_outlives_the_user_that_started_it(fakes: FakeServers, is_alive: IsAlive) -> None:
    async def main() -> None:
        pool = pool_of(fakes, "good")
        first = await pool.acquire(fakes.options())
        second = await pool.acquire(fakes.options())
        assert first is second
        await pool.release(first)
        assert is_alive(fakes.pids()[0])
        await pool.release(second)
        assert not is_alive(fakes.pids()[0])
        await pool.release(second)  # once too often must not disturb the next user
        async with pool.use(fakes.options()) as third:
            assert third is not first

    asyncio.run(main())


def test_different_options_get_different_servers(fakes: FakeServers) -> None:
    async def main() -> None:
        pool = pool_of(fakes, "good")
        async with pool.use(fakes.options()) as one, pool.use(fakes.options(stop_grace_s=4)) as other:
            assert one.base_url != other.base_url

    asyncio.run(main())


def test_all_who_wait_for_a_failing_start_get_its_error(fakes: FakeServers) -> None:
    async def main() -> None:
        pool = pool_of(fakes, "dies-at-once", "good")
        results = await asyncio.gather(
            *(pool.acquire(fakes.options()) for _ in range(3)), return_exceptions=True
        )
        assert [type(result) for result in results] == [LocalServerError] * 3
        assert len(fakes.pids()) == 1
        async with pool.use(fakes.options()) as server:  # a later user tries again
            assert not server.dead()

    asyncio.run(main())


def test_cancelled_starter_hands_the_start_to_the_next_in_line(fakes: FakeServers, is_alive: IsAlive) -> None:
    async def main() -> None:
        pool = pool_of(fakes, "never-ready", "good")
        first = asyncio.create_task(pool.acquire(fakes.options()))
        second = asyncio.create_task(pool.acquire(fakes.options()))
        await until(lambda: len(fakes.pids()) == 1)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        server = await second
        assert not is_alive(fakes.pids()[0])
        await pool.release(server)
        assert not is_alive(fakes.pids()[1])

    asyncio.run(main())


def test_dead_server_is_replaced_for_the_next_user(fakes: FakeServers, is_alive: IsAlive) -> None:
    async def main() -> None:
        pool = pool_of(fakes, "good")
        first = await pool.acquire(fakes.options())
        os.kill(fakes.pids()[0], signal.SIGKILL)
        assert await first.explain_failure() is not None
        second = await pool.acquire(fakes.options())
        assert second is not first
        await pool.release(first)
        assert is_alive(fakes.pids()[1])
        await pool.release(second)
        assert not is_alive(fakes.pids()[1])

    asyncio.run(main())


def test_pool_of_a_loop_is_one_and_ends_with_it() -> None:
    async def main() -> tuple[LocalServerPool, LocalServerPool]:
        return running_loop_pool(), running_loop_pool()

    one, same = asyncio.run(main())
    other, _ = asyncio.run(main())
    assert one is same
    assert other is not one
