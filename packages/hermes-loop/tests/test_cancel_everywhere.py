"""One representative turn, cancelled at its k-th resumption for every k, in several ways.

After each: the right exception, a valid transcript in memory and in the store, the same in both, the lease
free, no task, stream or tool left, and the next turn works.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from cancellations import WAYS, Way, cancel_an_owned_task, count_resumptions

from hermes_loop import AIAgent, CompressionSettings, SummaryCompressor
from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    ErrorKind,
    ModelInfo,
    ToolCall,
    ToolMessage,
    UserMessage,
    validate,
)
from hermes_messages.protocols import ConversationResult, HookContext, NewMessage, SessionInfo
from hermes_messages.testing import (
    MemoryStore,
    ScriptedProvider,
    SimpleExecutor,
    ToolDouble,
    broken,
    call,
    calls,
    failure,
    text,
)

AGAIN = failure(ErrorKind.TRANSPORT, retry_after_s=0)
SMALL = ModelInfo(context_window=4000)
LONG = [
    NewMessage("a", UserMessage("Tell me a story.")),
    NewMessage("b", AssistantMessage("It was a long night. " * 700)),
]
"""What was said before fills most of the window: the turn has to compress it."""


class World:
    """An agent in the middle of what an agent does: a stream that breaks, another host to fall back to,
    parallel tools, a second round, hooks, a conversation that has to be compressed."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.provider = ScriptedProvider(
            [
                broken(text("Let me look", chunk_size=3), after=3, error=AGAIN),
                calls(call("look", {"at": "a"}), call("look", {"at": "b"}), text="Let me see", chunk_size=1),
                broken(text("And now", chunk_size=3), after=2, error=ErrorKind.BILLING),
            ],
            model_info=SMALL,
        )
        self.fallback = ScriptedProvider(
            [calls(call("write", {"to": "c"}), chunk_size=1), text("It is all done now.", chunk_size=1)],
            name="fallback",
            model_info=SMALL,
        )
        self.cheap = ScriptedProvider(lambda _: text("A story was told."), name="cheap")
        self.hook = Hook()
        self.tools = [
            ToolDouble("look", gate=_three_steps),
            ToolDouble("write", scheduling="sequential", gate=_three_steps),
        ]
        self.agent = AIAgent(
            provider=self.provider,
            fallback_models=[self.fallback],
            compression=CompressionSettings(threshold=0.75, keep_recent=0.4),
            compressor=SummaryCompressor(provider=self.cheap),
            hooks=[self.hook],
            tools=SimpleExecutor(self.tools),
            session_db=self.store,
            session_id="s",
            stream_delta_callback=_discard,
        )

    @classmethod
    async def made(cls) -> World:
        """A world in which a long story was told before."""
        world = cls()
        await world.store.ensure_session("s", SessionInfo())
        await world.store.append_messages_batch("s", LONG)
        return world

    async def turn(self) -> str | None:
        """The turn that is cancelled; a host's note comes while it runs."""
        self.agent.steer("Mind the gap.")
        return (await self.agent.run_conversation("Do it."))["final_response"]

    async def check(self, where: str) -> None:
        """Everything that must hold after the cancellation."""
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not others, (where, others)
        providers = (self.provider, self.fallback, self.cheap)
        assert [provider.live_streams for provider in providers] == [0, 0, 0], where
        assert self.hook.inside == 0, where
        assert sum(tool.running for tool in self.tools) == 0, where
        assert self.store.held_lease("s") is None, where
        stored = self.store.messages("s")
        assert validate(stored) == [], (where, stored)
        assert [m for m in stored if isinstance(m, UserMessage)].count(UserMessage("Do it.")) <= 1, where
        for provider in (self.provider, self.fallback):
            provider._make_step = lambda _: text("Here I am.")
        result = await self.agent.run_conversation("Are you there?")
        assert result["final_response"] == "Here I am.", (where, result["error"])
        assert result["saved"], where
        assert result["cleanup_errors"] == [], where
        stored = self.store.messages("s")
        assert validate(stored) == [], (where, stored)
        assert tuple(stored) == result["transcript"], where
        assert self.store.held_lease("s") is None, where
        await self.agent.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}, where


class Hook:
    """A hook that takes its time in each of its places; `inside` counts the turns that it is around."""

    def __init__(self) -> None:
        self.inside = 0

    @asynccontextmanager
    async def around_turn(self, context: HookContext) -> AsyncIterator[None]:
        await asyncio.sleep(0)
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1
            await asyncio.sleep(0)

    async def pre_model(self, context: HookContext, message: UserMessage) -> str | None:
        await asyncio.sleep(0)
        return "It is noon."

    async def transform_request(self, context: HookContext, request: ChatRequest) -> ChatRequest:
        await asyncio.sleep(0)
        return request

    async def transform_tool_result(
        self, context: HookContext, call: ToolCall, result: ToolMessage
    ) -> ToolMessage:
        await asyncio.sleep(0)
        return result

    async def post_turn(self, context: HookContext, result: ConversationResult) -> None:
        await asyncio.sleep(0)


async def _three_steps() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def _discard(_: str) -> None:
    await asyncio.sleep(0)


@pytest.mark.parametrize("way", WAYS)
def test_a_turn_may_be_cancelled_at_every_resumption(way: Way) -> None:
    async def main() -> None:
        world = await World.made()
        total, outcome = await count_resumptions(world.turn())
        assert (outcome, len(world.cheap.requests)) == ("It is all done now.", 1)
        await world.check("uncancelled")
        cancelled = 0
        for k in range(1, total + 1):
            world = await World.made()
            cancelled += await way(world.turn(), k)
            await world.check(f"{way.__name__} at resumption {k} of {total}")
        print(f"{way.__name__}: k = {total}, cancelled {cancelled}")
        assert total >= 100
        # The very last resumptions may return before a deadline or scope gets its chance.
        assert cancelled >= total - 10

    asyncio.run(main())


def test_the_tasks_of_a_turn_may_be_cancelled_at_every_resumption() -> None:
    """Whoever cancels a task that the turn owns: the turn ends, and nothing is lost or left."""

    async def one(k: int) -> int:
        world = await World.made()
        count = await cancel_an_owned_task(world.turn(), k)
        await world.check(f"owned task at resumption {k}")
        return count

    async def main() -> None:
        total = await one(0)
        for k in range(1, total + 1):
            await one(k)
        print(f"owned tasks: k = {total}")
        assert total >= 40

    asyncio.run(main())
