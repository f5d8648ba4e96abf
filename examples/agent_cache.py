"""One agent per conversation, kept while it is used: a limit, an expiry, and everything closed at the end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from hermes_loop import AIAgent

__all__ = ["AgentCache", "CacheFullError"]

logger = logging.getLogger(__name__)


class CacheFullError(Exception):
    """Every agent of the cache is in use; try again later."""


class _Kept:
    def __init__(self, agent: AIAgent) -> None:
        self.agent = agent
        self.users = 0
        self.last_used = time.monotonic()


class AgentCache:
    """Agents by conversation. Use it as a context manager.

    An agent that was not used for `idle_s` seconds is closed, and so is the one that was not used for longest
    when there are more than `limit`. A closed agent loses nothing: the next request makes a new one, which
    reads the conversation from the store. Turns of one conversation wait for each other in the agent.
    """

    def __init__(
        self, make_agent: Callable[[str], AIAgent], *, limit: int = 100, idle_s: float = 600
    ) -> None:
        self._make_agent = make_agent
        self._limit = limit
        self._idle_s = idle_s
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._sweeper: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._kept)

    @asynccontextmanager
    async def agent(self, conversation: str) -> AsyncIterator[AIAgent]:
        """The agent of a conversation, which is not closed meanwhile. Raises `CacheFullError`."""
        kept = self._kept.get(conversation)
        spare: list[str] = []
        if kept is None:  # its place is taken before anything is awaited: others come meanwhile
            spare = self._spare()
            kept = self._kept[conversation] = _Kept(self._make_agent(conversation))
        self._kept.move_to_end(conversation)
        kept.users += 1
        try:
            await self._close(spare)
            yield kept.agent
        finally:
            kept.users -= 1
            kept.last_used = time.monotonic()

    async def __aenter__(self) -> Self:
        self._sweeper = asyncio.create_task(self._sweep(), name="agent cache")
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close all agents; `close` interrupts a turn that still runs, and waits for it."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait({self._sweeper})
        await self._close([*self._kept])

    def _spare(self) -> list[str]:
        """Who goes when one more comes."""
        if len(self._kept) < self._limit:
            return []
        idle = next((name for name, kept in self._kept.items() if not kept.users), None)
        if idle is None:
            raise CacheFullError(f"all {self._limit} conversations are busy")
        return [idle]

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(self._idle_s / 4)
            before = time.monotonic() - self._idle_s
            await self._close(
                [n for n, kept in self._kept.items() if not kept.users and kept.last_used < before]
            )

    async def _close(self, names: list[str]) -> None:
        agents = [self._kept.pop(name).agent for name in names]
        for outcome in await asyncio.gather(*(agent.close() for agent in agents), return_exceptions=True):
            if isinstance(outcome, Exception):
                logger.warning("an agent could not be closed: %s", outcome)
