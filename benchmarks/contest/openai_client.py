"""What the peers share that send through the client of the package openai."""

from __future__ import annotations

from collections.abc import Callable

from contest.work import Agent, pooled
from openai import AsyncOpenAI


class OverOneClient:
    """Agents, made by `new_agent` from a client and the length of their past, over one shared client."""

    def __init__(self, new_agent: Callable[[AsyncOpenAI, int], Agent], base_url: str) -> None:
        self._new_agent = new_agent
        self._client = AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=600)

    def new(self, past: int = 0) -> Agent:
        return self._new_agent(self._client, past)

    async def batch(self, samples: int, workers: int) -> None:
        await pooled(samples, workers, self.new)

    async def close(self) -> None:
        await self._client.close()
