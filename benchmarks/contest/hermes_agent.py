"""The reference system, hermes-agent: a synchronous program, so each agent has a thread.

It knows its own tools only, so the model asks for `todo`. Its home is a folder of its own.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor  # noqa: TID251 - the peer is synchronous

from contest.work import Agent, past_texts, pooled, take_part

HOME = tempfile.TemporaryDirectory()
os.environ["HERMES_HOME"] = HOME.name

# Theirs, not the drop-in of this workspace; it reads its home when it is imported.
new_agent = functools.partial(
    importlib.import_module("run_agent").AIAgent,
    api_key="none",
    model="bench",
    max_iterations=30,
    tool_delay=0.0,
    quiet_mode=True,
    enabled_toolsets=["todo"],
    skip_context_files=True,
    skip_memory=True,
)


class OneAgent:
    def __init__(self, base_url: str, threads: ThreadPoolExecutor, past: int) -> None:
        self._threads = threads
        self._messages = [{"role": role, "content": text} for role, text in past_texts(past)]
        self._agent = new_agent(base_url=base_url)

    def _run(self, asked: str) -> str:
        result = self._agent.run_conversation(asked, conversation_history=self._messages)
        self._messages = result["messages"]
        return str(result["final_response"])

    async def turn(self, asked: str) -> str:
        self._messages = []
        return await self.more(asked)

    async def more(self, asked: str) -> str:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, asked)

    async def close(self) -> None:
        pass


class Peers:
    def __init__(self, base_url: str, connections: int) -> None:
        self._base_url = base_url
        self._threads = ThreadPoolExecutor(connections)

    def new(self, past: int = 0) -> Agent:
        return OneAgent(self._base_url, self._threads, past)

    async def batch(self, samples: int, workers: int) -> None:
        await pooled(samples, workers, self.new)

    async def close(self) -> None:
        self._threads.shutdown(wait=False)


if __name__ == "__main__":
    take_part(Peers, tool="todo")
