"""An event of one agent costs the same beside ten agents and beside a thousand, on one event loop.

So does the thousandth call of a turn, but for the bytes that are joined.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest
from counting import FEW, MANY, Counts, counted, same

from hermes_loop import AIAgent, Budget, TurnEvent
from hermes_messages import ChatRequest, ChatResponse, ToolCall, ToolMessage, UserMessage
from hermes_messages.protocols import HookContext, ProviderOptions
from hermes_providers import RateLimiter, from_profile
from hermes_providers.timeouts import StreamClock
from hermes_store import SessionDB
from hermes_tools import tool

pytestmark = pytest.mark.needs("workspace")

TIMES = 3
DAY_S = 86_400.0
"""No lease is renewed, and no tool given up, while something is counted."""


class Asked:
    """A request, and its answer, which comes when the test says so."""

    status = 200
    headers: Mapping[str, str] = {"content-type": "text/event-stream"}

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()

    def say(self, delta: Any, finish: str | None = None) -> None:
        chunk = {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        self._pieces.put_nowait(b"data: " + msgspec.json.encode(chunk) + b"\n\n")

    def call(self) -> None:
        function = {"name": "look", "arguments": "{}"}
        self.say({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]})
        self.end("tool_calls")

    def end(self, finish: str) -> None:
        self.say({}, finish)
        self._pieces.put_nowait(b"data: [DONE]\n\n")
        self._pieces.put_nowait(b"")

    async def read(self, _clock: StreamClock) -> bytes:
        return await self._pieces.get()


class Host:
    """The transport to it, without sockets."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[Asked] = asyncio.Queue()

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    @asynccontextmanager
    async def post(
        self, _url: str, _headers: Mapping[str, str], _body: bytes, _clock: StreamClock
    ) -> AsyncIterator[Asked]:
        asked = Asked()
        self.asked.put_nowait(asked)
        yield asked


class World:
    """Agents that share a host, a store and a rate limit."""

    def __init__(self, folder: Path) -> None:
        self.host = Host()
        limiter = RateLimiter(requests_per_minute=1_000_000, max_concurrent=10_000)
        options = ProviderOptions(base_url="http://parked/v1", settings={"context_window": 1_000_000_000})
        self._provider = from_profile("custom", options, transport=self.host, limiter=limiter)
        self.store = SessionDB(folder / "state.db")
        self.tools: asyncio.Queue[asyncio.Future[str]] = asyncio.Queue()
        self.heard: asyncio.Queue[str] = asyncio.Queue()
        self.turns: list[asyncio.Task[Any]] = []
        self.agents: list[AIAgent] = []

        @tool(timeout_s=DAY_S)
        async def look() -> str:
            """Look."""
            result: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            self.tools.put_nowait(result)
            return await result

        self._look = look

    def agent(self, **more: Any) -> AIAgent:
        agent = AIAgent(
            provider=self._provider,
            model="m",
            tools=[self._look],
            session_db=self.store,
            lease_ttl_s=DAY_S,
            **more,
        )
        self.agents.append(agent)
        return agent

    def begin(self, agent: AIAgent) -> asyncio.Task[Any]:
        return asyncio.create_task(agent.run_conversation("Look.", stream_callback=self.heard.put_nowait))

    async def grow(self, count: int) -> None:
        """As many agents within a turn: every second one waits for its host, the others for a tool."""
        fresh = count - len(self.turns)
        self.turns += [self.begin(self.agent()) for _ in range(fresh)]
        for number in range(fresh):
            asked = await self.host.asked.get()
            asked.say({"content": "word "})
            if number % 2:
                asked.call()
                await self.tools.get()
            await self.heard.get()

    async def events(self) -> Counts:
        """What each event of one agent more costs."""
        counts: Counts = {}
        for _ in range(TIMES):
            agent = self.agent()
            with counted(counts, "a first turn begins"):
                turn = self.begin(agent)
                asked = await self.host.asked.get()
            with counted(counts, "a delta comes"):
                asked.say({"content": "word "})
                await self.heard.get()
            with counted(counts, "a tool is called"):
                asked.call()
                result = await self.tools.get()
            with counted(counts, "a tool answers"):
                result.set_result("nothing new")
                asked = await self.host.asked.get()
            with counted(counts, "a turn ends"):
                asked.say({"content": "done."})
                asked.end("stop")
                assert (await turn)["completed"]
            await self.heard.get()
            with counted(counts, "a further turn begins"):
                turn = self.begin(agent)
                asked = await self.host.asked.get()
            with counted(counts, "a turn is interrupted"):
                agent.interrupt()
                assert (await turn)["interrupted"]
            turn = self.begin(agent)
            asked = await self.host.asked.get()
            with counted(counts, "a turn is cancelled"):
                turn.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await turn
            with counted(counts, "an agent is closed"):
                await agent.close()
        return counts

    async def close(self) -> None:
        for turn in self.turns:
            turn.cancel()
        await asyncio.gather(*self.turns, return_exceptions=True)
        for agent in self.agents:
            await agent.close()
        await self.store.close()


def test_an_event_of_one_agent_does_work_for_each_other_one(tmp_path: Path) -> None:
    async def main() -> list[Counts]:
        world = World(tmp_path)
        found: list[Counts] = []
        for count in (FEW, MANY):
            await world.grow(count)
            found.append(await world.events())
        await world.close()
        return found

    few, many = asyncio.run(main())
    assert same(few, many) == {}


class Hook:
    """Looks on everywhere and changes nothing, but for a note at the end of each request."""

    async def pre_model(self, _context: HookContext, _message: UserMessage) -> str | None:
        return "It is noon."

    async def transform_request(self, _context: HookContext, request: ChatRequest) -> ChatRequest:
        return request

    async def transform_response(self, _context: HookContext, response: ChatResponse) -> ChatResponse:
        return response

    async def transform_tool_result(
        self, _context: HookContext, _call: ToolCall, result: ToolMessage
    ) -> ToolMessage:
        return result


def test_a_later_call_of_a_turn_does_work_for_each_earlier_one(tmp_path: Path) -> None:
    async def main() -> list[Counts]:
        world = World(tmp_path)
        heard: list[TurnEvent] = []
        agent = world.agent(
            max_iterations=2 * MANY,
            budget=Budget(tokens=1_000_000_000),
            hooks=[Hook()],
            event_callback=heard.append,
            system_prompt="Look often.",
        )
        turn = world.begin(agent)
        asked = await world.host.asked.get()
        found: list[Counts] = []
        calls = 0
        for earlier in (FEW, MANY):
            counts: Counts = {}
            while calls < earlier + TIMES:
                with counted(counts, "a call is read") if calls >= earlier else nullcontext():
                    asked.call()
                    result = await world.tools.get()
                with counted(counts, "the next request is made") if calls >= earlier else nullcontext():
                    result.set_result("nothing new")
                    asked = await world.host.asked.get()
                calls += 1
            found.append(counts)
        asked.say({"content": "done."})
        asked.end("stop")
        assert (await turn)["api_calls"] == calls + 1
        await world.close()
        return found

    few, many = asyncio.run(main())
    assert same(few, many) == {}


async def whole_turn(world: World) -> None:
    agent = world.agent()
    turn = world.begin(agent)
    (await world.host.asked.get()).call()
    (await world.tools.get()).set_result("nothing new")
    asked = await world.host.asked.get()
    asked.say({"content": "done."})
    asked.end("stop")
    assert (await turn)["completed"]
    await agent.close()
    world.agents.clear()


def test_finished_turns_are_left_to_the_garbage_collector(tmp_path: Path) -> None:
    """Where thousands of agents live it takes the longest of all."""

    async def main() -> int:
        world = World(tmp_path)
        await whole_turn(world)
        gc.collect()
        gc.disable()
        try:
            for _ in range(FEW):
                await whole_turn(world)
            return gc.collect()
        finally:
            gc.enable()
            await world.close()

    assert asyncio.run(main()) < FEW
