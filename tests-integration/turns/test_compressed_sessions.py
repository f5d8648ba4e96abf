"""Compressed sessions: shared, given in part, killed, cancelled, or kept where nothing is archived."""

from __future__ import annotations

import asyncio
import itertools
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_loop import AIAgent, CompressionSettings
from hermes_messages import (
    ChatRequest,
    Message,
    ModelInfo,
    StoreError,
    SystemMessage,
    UserMessage,
    content_text,
    validate,
)
from hermes_messages.protocols import SessionStore
from hermes_messages.testing import ScriptedProvider, ScriptStep, text
from hermes_store import SessionDB

pytestmark = pytest.mark.needs("hermes-loop", "hermes-store")

WINDOW = 3000
ANSWER = f"answer {'word ' * 250}"


def is_summary(request: ChatRequest) -> bool:
    return "memory of an" in content_text(request.history[0].content)


def provider() -> ScriptedProvider:
    numbers = itertools.count(1)

    def step(request: ChatRequest) -> ScriptStep:
        return text(f"SUMMARY {next(numbers)}") if is_summary(request) else text(ANSWER)

    return ScriptedProvider(step, model_info=ModelInfo(context_window=WINDOW))


def agent(store: SessionStore, model: ScriptedProvider, **options: Any) -> AIAgent:
    return AIAgent(provider=model, session_db=store, session_id="s", **options)


async def live(store: SessionStore) -> list[Message]:
    return [row.message for row in await store.get_messages("s")]


async def ask(one: AIAgent, *questions: str) -> None:
    for question in questions:
        result = await one.run_conversation(question)
        assert result["completed"], result["error"]
        assert result["saved"]


def questions(begin: int, end: int) -> list[str]:
    return [f"question {number}" for number in range(begin, end)]


def known(messages: object, number: int) -> bool:
    """Whether every question up to `number` is there, in full or in a quotation."""
    everything = str([content_text(message.content) for message in messages])  # type: ignore[attr-defined]
    return all(f"question {place}" in everything for place in range(number))


def test_two_agents_of_one_session_see_what_the_other_compressed(tmp_path: Path) -> None:
    async def main() -> None:
        mine, yours = provider(), provider()
        async with (
            SessionDB(tmp_path / "state.db") as store,
            SessionDB(tmp_path / "state.db") as other,
            agent(store, mine) as one,
            agent(other, yours) as two,
        ):
            for number in range(0, 16, 4):
                await ask(one, *questions(number, number + 2))
                await ask(two, *questions(number + 2, number + 4))
            await asyncio.gather(ask(one, "question 16"), ask(two, "question 17"))
            assert any(map(is_summary, mine.requests))
            assert any(map(is_summary, yours.requests))
            stored = await live(store)
            assert validate(stored) == []
            assert known(stored, 18)
            for model in (mine, yours):
                assert len(list(model.requests[-1].history)) < 16

    asyncio.run(main())


def test_two_agents_over_the_threshold_at_once_compress_one_after_the_other(tmp_path: Path) -> None:
    async def main() -> None:
        models = [provider() for _ in range(4)]
        async with SessionDB(tmp_path / "state.db") as store:
            async with agent(store, provider(), compression=False) as first:
                await ask(first, *questions(0, 9))
            agents = [agent(store, model) for model in models]
            results = await asyncio.gather(*(one.run_conversation("go on") for one in agents))
            assert all(result["completed"] and result["saved"] for result in results)
            stored = await live(store)
            assert validate(stored) == []
            assert known(stored, 9)
            assert sum(is_summary(request) for model in models for request in model.requests) < 4
            assert sum(message == UserMessage("go on") for message in stored) == 4 or "go on" in str(stored)
            for one in agents:
                await one.close()

    asyncio.run(main())


def test_what_the_host_left_out_of_the_history_stays_in_the_session(tmp_path: Path) -> None:
    async def main() -> None:
        model = provider()
        async with SessionDB(tmp_path / "state.db") as store:
            async with agent(store, model, compression=False) as one:
                await ask(one, *questions(0, 9))
                window = (await one.run_conversation("question 9"))["messages"][-14:]
            async with agent(store, model) as two:
                result = await two.run_conversation("question 10", conversation_history=window)
            assert any(map(is_summary, model.requests))
            assert not known(result["transcript"], 3)
            stored = await live(store)
            assert stored[0] == UserMessage("question 0")
            assert stored[-len(result["transcript"]) :] == list(result["transcript"])
            assert known(stored, 11)
            assert validate(stored) == []

    asyncio.run(main())


class WithoutArchive:
    """A store of a third party: it has messages and nothing besides."""

    def __init__(self, inner: SessionDB) -> None:
        for name in (
            "append_messages_batch",
            "begin_tool_round",
            "close",
            "ensure_session",
            "get_messages",
            "get_session",
            "set_tool_result",
            "update_session_meta",
            "update_token_counts",
        ):
            setattr(self, name, getattr(inner, name))


def test_a_store_that_archives_nothing_keeps_all_and_the_agents_memory_is_short(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "state.db") as inner:
            store: Any = WithoutArchive(inner)
            model = provider()
            async with agent(store, model) as one:
                await ask(one, *questions(0, 14))
            assert any(map(is_summary, model.requests))
            assert len(await live(inner)) == 28
            again = provider()
            async with agent(store, again) as two:
                await ask(two, "question 14")
            assert known(list(again.requests[-1].history), 14)
            assert len(list(again.requests[-1].history)) < 20
            assert len(await live(inner)) == 30

    asyncio.run(main())


class Watched(SessionDB):
    """Calls `at` before and after each call of the store that a compression makes."""

    at: Callable[[str], None] = staticmethod(lambda _: None)

    async def get_messages(self, *arguments: Any, **options: Any) -> Any:
        return await self._watched("get_messages", super().get_messages(*arguments, **options))

    async def archive_and_compact(self, *arguments: Any, **options: Any) -> Any:
        return await self._watched("archive_and_compact", super().archive_and_compact(*arguments, **options))

    async def append_messages_batch(self, *arguments: Any, **options: Any) -> Any:
        return await self._watched("append", super().append_messages_batch(*arguments, **options))

    async def _watched(self, name: str, work: Any) -> Any:
        try:
            self.at(f"before {name}")
            await asyncio.sleep(0)
        except BaseException:
            work.close()
            raise
        result = await work
        self.at(f"after {name}")
        await asyncio.sleep(0)
        return result


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("call", ["get_messages", "archive_and_compact", "append"])
@pytest.mark.parametrize("how", ["cancel", "interrupt", "fail", "bug"])
def test_a_compression_stopped_at_a_call_of_the_store_loses_nothing(
    when: str, call: str, how: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with Watched(tmp_path / "state.db") as store:
            async with agent(store, provider(), compression=False) as first:
                await ask(first, *questions(0, 9))
            model = provider()
            one = agent(store, model, compression=CompressionSettings(cooldown_s=0))
            reached: list[str] = []

            def stop(point: str) -> None:
                is_now = call == "append" or bool(model.requests)  # the session was read at the start too
                if point == f"{when} {call}" and is_now and not reached:
                    reached.append(point)
                    if how == "cancel":
                        task.cancel()
                    elif how == "interrupt":
                        one.interrupt()
                    elif how == "fail":
                        raise StoreError("the disk is gone")
                    else:
                        raise RuntimeError("a bug of the store")

            task = asyncio.create_task(one.run_conversation("question 9"))
            store.at = stop
            await asyncio.gather(task, return_exceptions=True)
            assert reached
            assert validate(await live(store)) == []
            await ask(one, "question 10")
            stored = await live(store)
            assert validate(stored) == []
            assert known(stored, 9)
            assert known(stored, 11) or how in {"fail", "bug"}
            assert stored[-2] == UserMessage("question 10")
            await one.close()

    asyncio.run(main())


KILLED = """
import asyncio, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_compressed_sessions import Watched, agent, ask, provider, questions

async def main():
    async with Watched(Path(sys.argv[1]) / "state.db") as store:
        one = agent(store, provider(), lease_ttl_s=0.3)
        kept, reached = 0, False
        def told(point):
            nonlocal reached
            reached = reached or (kept > 3 and point == sys.argv[3])
            print(point, flush=True)
        store.at = told
        for question in questions(0, 12):
            print(question, flush=True)
            await ask(one, question)
            kept += 1
            print("kept", question, flush=True)
            if reached:
                signal.pause()  # the kill may come late

asyncio.run(main())
"""


@pytest.mark.parametrize(
    "point", ["before get_messages", "before archive_and_compact", "after archive_and_compact"]
)
def test_a_process_killed_while_it_compresses_leaves_a_session_that_goes_on(
    point: str, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path), str(Path(__file__).parent), point],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    kept = 0
    for line in process.stdout:
        kept += line.startswith("kept")
        if line.strip() == point and kept > 3:
            process.send_signal(signal.SIGKILL)
            break
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert kept > 3

    async def resumed() -> None:
        async with SessionDB(tmp_path / "state.db") as store, agent(store, provider(), lease_ttl_s=1) as one:
            assert known(await live(store), kept)
            await ask(one, "what happened?")
            stored = await live(store)
            assert validate(stored) == []
            assert known(stored, kept)

    asyncio.run(resumed())


def test_the_prefix_changes_at_compression_only_and_the_system_text_never(tmp_path: Path) -> None:
    async def main() -> None:
        model = provider()
        async with SessionDB(tmp_path / "state.db") as store, agent(store, model) as one:
            await ask(one, *questions(0, 16))
        sent = [list(request.history) for request in model.requests]
        turns = [messages for messages in sent if "memory of an" not in content_text(messages[0].content)]
        changes = sum(map(is_summary, model.requests))
        assert changes >= 2
        broken = [
            (before, after) for before, after in itertools.pairwise(turns) if after[: len(before)] != before
        ]
        assert 1 <= len(broken) <= changes
        assert {message.content for messages in turns for message in messages[:1]} == {turns[0][0].content}
        assert isinstance(turns[0][0], SystemMessage)

    asyncio.run(main())
