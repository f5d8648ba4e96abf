"""One real turn, cancelled at its k-th resumption, in several ways: real SQLite, a real shell, real files.

The tests of hermes-loop do this with doubles. Here the store and the tools are the real ones: what is proved
is that they keep the promises that the loop relies on.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from cancellations import WAYS, Way, Work, cancel_an_owned_task, count_resumptions

from hermes_loop import AIAgent, CompressionSettings, SummaryCompressor
from hermes_messages import (
    AssistantMessage,
    ErrorKind,
    Message,
    ModelInfo,
    ToolMessage,
    UserMessage,
    validate,
)
from hermes_messages.protocols import NewMessage, SessionInfo
from hermes_messages.testing import ScriptedProvider, broken, call, calls, failure, text
from hermes_store import SessionDB

pytestmark = pytest.mark.needs("hermes-loop", "hermes-providers", "hermes-tools", "hermes-store")

AGAIN = failure(ErrorKind.TRANSPORT, retry_after_s=0)
SMALL = ModelInfo(context_window=8000)
LONG = [
    NewMessage("a", UserMessage("Tell me a story.")),
    NewMessage("b", AssistantMessage("It was a long night. " * 1400)),
]
"""What was said before fills most of the window: the turn has to compress it."""


class World:
    """A stream that breaks, a round with a shell command and two file tools, another host to fall back to, a
    second round, an answer, a conversation that has to be compressed."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.store = SessionDB(folder / "state.db")
        self.provider = ScriptedProvider(
            [
                broken(text("Let me look", chunk_size=1), after=2, error=AGAIN),
                calls(
                    call("terminal", {"command": "echo ran >> ran.txt; sleep 0.005; cat ran.txt"}),
                    call("todo", {"items": [{"id": "1", "content": "look", "status": "pending"}]}),
                    call("write_file", {"path": "made.txt", "content": "made"}),
                    text="Let me see",
                    chunk_size=1,
                ),
                broken(text("And now", chunk_size=3), after=2, error=ErrorKind.BILLING),
            ],
            model_info=SMALL,
        )
        self.fallback = ScriptedProvider(
            [calls(call("read_file", {"path": "made.txt"})), text("It is all done now.", chunk_size=1)],
            name="fallback",
            model_info=SMALL,
        )
        self.cheap = ScriptedProvider(lambda _: text("A story was told."), name="cheap")
        self.agent = AIAgent(
            provider=self.provider,
            fallback_models=[self.fallback],
            compression=CompressionSettings(threshold=0.75, keep_recent=0.4),
            compressor=SummaryCompressor(provider=self.cheap),
            session_db=self.store,
            session_id="s",
            enabled_toolsets=["file", "terminal", "todo"],
            cwd=folder,
            stream_delta_callback=_discard,
        )

    @classmethod
    async def made(cls, folder: Path) -> World:
        """A world in which a long story was told before, by a process that is gone."""
        world = cls(folder)
        async with SessionDB(folder / "state.db") as store:
            await store.ensure_session("s", SessionInfo())
            await store.append_messages_batch("s", LONG)
        return world

    async def turn(self) -> str | None:
        """The turn that is cancelled."""
        return (await self.agent.run_conversation("Do it."))["final_response"]

    async def closed_turn(self) -> str | None:
        """A turn, and the close of everything, cancelled wherever they are."""
        async with self.store, self.agent:
            return await self.turn()

    async def stored(self) -> list[Message]:
        return [row.message for row in await self.store.get_messages("s")]

    async def check(self, where: str) -> None:
        """Everything that must hold after the cancellation."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        # The opening of a store belongs to the store, and all who wait for it share it.
        assert all(task.get_name().startswith("open ") for task in left), (where, left)
        providers = (self.provider, self.fallback, self.cheap)
        assert [provider.live_streams for provider in providers] == [0, 0, 0], where
        await self.store.__aenter__()
        assert asyncio.all_tasks() == {asyncio.current_task()}, where
        for provider in (self.provider, self.fallback):
            provider._make_step = lambda _: text("Here I am.")
        result = await self.agent.run_conversation("Are you there?")
        assert result["final_response"] == "Here I am.", (where, result["error"])
        assert result["saved"], where
        assert result["cleanup_errors"] == [], where
        stored = await self.stored()
        assert validate(stored) == [], (where, stored)
        assert tuple(stored) == result["transcript"], where
        assert stored.count(UserMessage("Do it.")) <= 1, where
        assert await self.store.open_rounds("s") == [], where
        self._check_the_shell(stored, where)
        token = await self.store.try_acquire_session_turn_lease("s", "someone else", 1)
        assert token is not None, where
        await self.agent.close()
        await self.store.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}, where

    def _check_the_shell(self, stored: list[Message], where: str) -> None:
        """The command ran once at most, and its result does not deny that it ran."""
        ran = self.folder / "ran.txt"
        times = len(ran.read_text().splitlines()) if ran.exists() else 0
        assert times <= 1, where
        if times:
            results = [m for m in stored if isinstance(m, ToolMessage) and m.name == "terminal"]
            assert len(results) == 1, (where, results)
            # "error" is a tool whose own task was cancelled by a stranger.
            assert results[0].status in {"ok", "interrupted", "unknown", "error"}, (where, results)


async def _discard(_: str) -> None:
    await asyncio.sleep(0)


STRIDE = 1 if os.environ.get("HERMES_TEST_PROFILE") == "nightly" else 5


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("work", [World.turn, World.closed_turn])
def test_a_real_turn_may_be_cancelled_anywhere(
    way: Way, work: Callable[[World], Work], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        world = await World.made(tmp_path / "uncancelled")
        total, outcome = await count_resumptions(work(world))
        assert (outcome, len(world.cheap.requests)) == ("It is all done now.", 1)
        await world.check("uncancelled")
        cancelled = 0
        tried = range(1, total + 1, STRIDE)
        for k in tried:
            world = await World.made(tmp_path / str(k))
            cancelled += await way(work(world), k)
            await world.check(f"{way.__name__} at resumption {k} of {total}")
        print(f"{work.__name__}, {way.__name__}: k = {total}, tried {len(tried)}, cancelled {cancelled}")
        assert total >= 100
        # The very last resumptions may return before a deadline or scope gets its chance.
        assert cancelled >= len(tried) - 10

    asyncio.run(main())
    # A cancelled caller waits for the outcome of what it has begun; a database that answers is not given up.
    assert "gave up waiting" not in caplog.text


def test_the_tasks_of_a_real_turn_may_be_cancelled_anywhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever cancels a task of the turn, the store or a tool: the turn ends, and nothing is lost or left."""

    async def one(k: int) -> int:
        world = await World.made(tmp_path / str(k))
        count = await cancel_an_owned_task(world.turn(), k)
        await world.check(f"owned task at resumption {k}")
        return count

    async def main() -> None:
        total = await one(0)
        for k in range(1, total + 1, STRIDE):
            await one(k)
        print(f"owned tasks: k = {total}")
        assert total >= 40

    asyncio.run(main())
    assert "gave up waiting" not in caplog.text
