"""Providers without a network, and time that passes only where everybody waits for it."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from hermes_providers.timeouts import StreamClock
from hermes_providers.transport import Reply

__all__ = ["Came", "Scripted", "SkippingLoop", "run_skipping"]

T = TypeVar("T")


class Came:
    """A reply that came already."""

    def __init__(self, *chunks: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.status = status
        self.headers: Mapping[str, str] = headers or {}
        self._chunks = list(chunks)

    async def read(self, clock: StreamClock) -> bytes:
        return self._chunks.pop(0) if self._chunks else b""


class Scripted:
    """A transport that gives `replies` in order, each `takes_s` seconds after it was asked for.

    `started` has the loop's time of each request; `most` is how many were under way at once.
    """

    def __init__(self, *replies: Came, takes_s: float = 0.0) -> None:
        self._replies = list(replies)
        self._takes_s = takes_s
        self._running = 0
        self.most = 0
        self.started: list[float] = []

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    @asynccontextmanager
    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, clock: StreamClock
    ) -> AsyncIterator[Reply]:
        self.started.append(asyncio.get_running_loop().time())
        self._running += 1
        self.most = max(self.most, self._running)
        try:
            if self._takes_s:
                await asyncio.sleep(self._takes_s)
            yield self._replies.pop(0)
        finally:
            self._running -= 1


class _Skipping(selectors.SelectSelector):
    """Waits for no time: what the loop would sleep is added to `skipped_s`. `waits` counts such sleeps."""

    skipped_s = 0.0
    waits = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0 if timeout is not None else None)
        if not ready and timeout is not None and timeout > 0:
            self.skipped_s += timeout
            self.waits += 1
        return ready


class SkippingLoop(asyncio.SelectorEventLoop):
    """Its time stands still while anybody has something to do. Nothing in it may wait for a network."""

    def __init__(self) -> None:
        self.skipping = _Skipping()
        super().__init__(self.skipping)

    def time(self) -> float:
        return self.skipping.skipped_s


def run_skipping(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` in a `SkippingLoop`."""
    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        return runner.run(work)
