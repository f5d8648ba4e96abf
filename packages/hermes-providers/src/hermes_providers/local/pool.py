"""Local servers shared by reference count: equal options in one event loop mean one server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from hermes_messages.errors import HermesError
from hermes_providers.local.options import LocalServerOptions
from hermes_providers.local.process import LocalServer

__all__ = ["LocalServerPool", "running_loop_pool"]


class _Shared:
    """One server and how many hold it, or wait for it. The lock covers starting and stopping."""

    def __init__(self) -> None:
        self.server: LocalServer | None = None
        self.users = 0
        self.lock = asyncio.Lock()
        self.failures = 0
        self.last_failure: HermesError | None = None


class LocalServerPool:
    """The servers of one event loop. The first user starts one, the last user to leave stops it."""

    def __init__(self, make_server: Callable[[LocalServerOptions], LocalServer] = LocalServer) -> None:
        self._make_server = make_server
        self._shared: dict[LocalServerOptions, _Shared] = {}

    @asynccontextmanager
    async def use(self, options: LocalServerOptions | None = None) -> AsyncIterator[LocalServer]:
        """`acquire` and `release` around a block."""
        server = await self.acquire(options)
        try:
            yield server
        finally:
            await self.release(server)

    async def acquire(self, options: LocalServerOptions | None = None) -> LocalServer:
        """A running server for these options, started if nobody holds one; give it back with `release`.

        A server that has died is replaced. Those who wait for a start that fails get its error; a start
        that is cancelled is begun again for the next in line. Raises what `LocalServer.start` raises.
        """
        options = options or LocalServerOptions()
        shared = self._shared.setdefault(options, _Shared())
        shared.users += 1
        failures_seen = shared.failures
        try:
            async with shared.lock:
                return await self._living_server(shared, options, failures_seen)
        except BaseException:
            await self._leave(shared, options)
            raise

    async def release(self, server: LocalServer) -> None:
        """Give back what `acquire` returned, once. The last one to do so waits until the server is gone."""
        shared = self._shared.get(server.options)
        if shared is not None and shared.users > 0:
            await self._leave(shared, server.options)

    def abandon(self) -> None:
        """Let every server end by itself, without waiting; for a pool whose event loop is gone."""
        for shared in self._shared.values():
            if shared.server is not None:
                shared.server.abandon()
        self._shared.clear()

    async def _living_server(
        self, shared: _Shared, options: LocalServerOptions, failures_seen: int
    ) -> LocalServer:
        if shared.server is not None and shared.server.dead():
            dead, shared.server = shared.server, None
            await dead.close()
        if shared.server is not None:
            return shared.server
        if shared.last_failure is not None and shared.failures > failures_seen:
            raise shared.last_failure.with_traceback(None)
        server = self._make_server(options)
        try:
            await server.start()
        except HermesError as error:
            shared.failures += 1
            shared.last_failure = error
            raise
        shared.server = server
        return server

    async def _leave(self, shared: _Shared, options: LocalServerOptions) -> None:
        shared.users -= 1
        # Whoever holds the lock now while nobody uses the server is the one that is stopping it.
        if shared.users > 0 or shared.lock.locked():
            return
        async with shared.lock:
            server, shared.server = shared.server, None
            try:
                if server is not None:
                    await server.close()
            finally:
                if shared.users == 0:
                    self._shared.pop(options, None)


_pools: dict[asyncio.AbstractEventLoop, LocalServerPool] = {}


def running_loop_pool() -> LocalServerPool:
    """The pool of the running event loop. Pools of loops that were closed meanwhile are dropped."""
    for loop in [loop for loop in _pools if loop.is_closed()]:
        _pools.pop(loop).abandon()
    return _pools.setdefault(asyncio.get_running_loop(), LocalServerPool())
