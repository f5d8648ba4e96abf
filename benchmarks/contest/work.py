"""The work that every contestant does, and how it is measured. Only the standard library is used.

A contestant is a module in this folder that calls `take_part(open_agents)` when it is run:

    python -m contest.CONTESTANT WORK http://127.0.0.1:PORT     prints its figures as one JSON object
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Protocol

TOOL = "look"
TOOL_ANSWER = "nothing new"
ROUNDS_OF_AGENTS = 3
"""Tool rounds of an agent in a crowd; one more call gives the text."""
BATCH_CALLS, BATCH_PAUSE_MS = 3, 50
"""Of a sample, one of them for the text, and what the server waits before it answers one."""


class Agent(Protocol):
    """One agent of a contestant."""

    async def turn(self, asked: str) -> str:
        """The final text of a conversation that begins anew."""
        ...

    async def more(self, asked: str) -> str:
        """The final text of the next turn of the conversation so far."""
        ...

    async def close(self) -> None:
        """Let go of what this agent holds."""
        ...


class Agents(Protocol):
    """A contestant that is set up for one address of the server."""

    def new(self, past: int = 0) -> Agent:
        """A new agent with one tool; its conversation has `past` messages already, by user and assistant."""
        ...

    async def batch(self, samples: int, workers: int) -> None:
        """Run so many samples with so many workers."""
        ...

    async def close(self) -> None:
        """Let go of what the agents share."""
        ...


@dataclass(frozen=True)
class Figures:
    """Wall and CPU seconds of this process for one unit of the work, and memory for one agent in kB."""

    wall_s: float
    cpu_s: float
    memory_kb: float = 0.0


@dataclass(frozen=True)
class Work:
    """One row: what the server does and how the contestant is measured."""

    pause_ms: int
    rounds: int
    deltas: int
    run: Callable[[Agents], Awaitable[Figures]]
    connections: int = 16

    def address(self, server: str, tool: str) -> str:
        """The base URL at which the server plays its part in this work."""
        return f"{server}/{self.pause_ms}/{self.rounds}/{self.deltas}/{tool}/v1"


def peak_kb() -> int:
    """The peak of this process's memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


async def timed(times: int, unit: Callable[[], Awaitable[None]], warm: int) -> Figures:
    """The mean of `times` units, one after the other, after `warm` that do not count."""
    for _ in range(warm):
        await unit()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(times):
        await unit()
    return Figures((time.perf_counter() - wall) / times, (time.process_time() - cpu) / times)


async def said(coming: Awaitable[str]) -> None:
    """Make sure that the contestant did the work."""
    text = await coming
    if not text.endswith("done."):
        raise AssertionError(f"another answer than the server's: {text[-200:]!r}")


async def reused(agents: Agents) -> Figures:
    """Text turns of one agent."""
    agent = agents.new()
    figures = await timed(100, lambda: said(agent.turn("Say it.")), warm=10)
    await agent.close()
    return figures


async def anew(agents: Agents) -> Figures:
    """Text turns, each of a new agent."""

    async def unit() -> None:
        agent = agents.new()
        await said(agent.turn("Say it."))
        await agent.close()

    return await timed(50, unit, warm=3)


async def tool_rounds(agents: Agents) -> Figures:
    """A turn of twenty tool rounds, for each of its 21 calls."""
    agent = agents.new()
    figures = await timed(5, lambda: said(agent.turn("Look often.")), warm=1)
    await agent.close()
    return Figures(figures.wall_s / 21, figures.cpu_s / 21)


async def more(agents: Agents, past: int) -> Figures:
    """One more call on a long conversation."""
    agent = agents.new(past)
    figures = await timed(10, lambda: said(agent.more("And now?")), warm=2)
    await agent.close()
    return figures


async def deltas(agents: Agents) -> Figures:
    """A long text."""
    agent = agents.new()
    figures = await timed(3, lambda: said(agent.turn("Say much.")), warm=1)
    await agent.close()
    return figures


async def crowd(agents: Agents, count: int) -> Figures:
    """So many agents at once, each with a turn of three tool rounds."""
    first = agents.new()
    await said(first.turn("Look."))
    await first.close()
    alive: list[Agent] = []

    async def one() -> None:
        agent = agents.new()
        alive.append(agent)
        await said(agent.turn("Look."))

    before = peak_kb()
    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(one() for _ in range(count)))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    memory = (peak_kb() - before) / count
    for agent in alive:
        await agent.close()
    return Figures(wall, cpu, memory)


async def batch(agents: Agents) -> Figures:
    """200 samples, 16 workers, two tool rounds each; one before, which loads what they need."""
    await agents.batch(1, 1)
    wall, cpu = time.perf_counter(), time.process_time()
    await agents.batch(200, 16)
    return Figures(time.perf_counter() - wall, time.process_time() - cpu)


async def first_answer(agents: Agents) -> Figures:
    """One tool round, once: the caller measures the whole process."""
    agent = agents.new()
    await said(agent.turn("Look."))
    await agent.close()
    return Figures(0.0, 0.0)


WORKS: dict[str, Work] = {
    "turn, reused agent": Work(0, 0, 5, reused),
    "turn, new agent": Work(0, 0, 5, anew),
    "20 tool rounds": Work(0, 20, 5, tool_rounds),
    "200 agents": Work(50, ROUNDS_OF_AGENTS, 5, lambda agents: crowd(agents, 200), 200),
    "1,000 agents": Work(50, ROUNDS_OF_AGENTS, 5, lambda agents: crowd(agents, 1_000), 1_000),
    "call on 1,000 messages": Work(0, 0, 5, lambda agents: more(agents, 1_000)),
    "call on 4,000 messages": Work(0, 0, 5, lambda agents: more(agents, 4_000)),
    "10,000 deltas": Work(0, 0, 10_000, deltas),
    "batch": Work(BATCH_PAUSE_MS, BATCH_CALLS - 1, 5, batch),
    "first answer": Work(0, 1, 5, first_answer),
}


async def pooled(samples: int, workers: int, new: Callable[[], Agent]) -> None:
    """What a batch is at the least: a new agent for each sample, so many at once."""
    gate = asyncio.Semaphore(workers)

    async def one(number: int) -> None:
        async with gate:
            agent = new()
            await said(agent.turn(f"Look, {number}."))
            await agent.close()

    await asyncio.gather(*(one(number) for number in range(samples)))


def past_texts(past: int) -> list[tuple[str, str]]:
    """Role and text of the messages of a long conversation."""
    words = "The harbour master wrote down each ship, its cargo and the hour it came. "
    return [("user" if n % 2 == 0 else "assistant", f"{n}: {words * 4}") for n in range(past)]


def take_part(open_agents: Callable[[str, int], Agents], tool: str = TOOL) -> None:
    """Run the work that the command line names; `open_agents` takes a base URL and a count of connections."""
    _, name, server = sys.argv
    work = WORKS[name]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    async def main() -> Figures:
        agents = open_agents(work.address(server, tool), work.connections)
        try:
            return await work.run(agents)
        finally:
            await agents.close()

    print(json.dumps(asdict(asyncio.run(main()))))
