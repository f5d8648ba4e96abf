"""A compressed session in a real store: what resumes, what stays readable, what a crash leaves."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from hermes_loop import AIAgent, CompressionSettings
from hermes_messages import JsonObject, Message, ModelInfo, ToolMessage, UserMessage, content_text, validate
from hermes_messages.protocols import ConversationResult
from hermes_messages.testing import ScriptedProvider, ScriptStep, call, calls, text
from hermes_store import SessionDB

pytestmark = pytest.mark.needs("hermes-loop", "hermes-tools", "hermes-store")

LONG = "word " * 250


def provider(*script: ScriptStep, window: int = 3000) -> ScriptedProvider:
    def step(request: Any) -> ScriptStep:
        if "memory of an" in content_text(request.history[0].content):
            return text(f"SUMMARY {next(numbers)}")
        return next(steps)

    steps = itertools.chain(script, itertools.repeat(text(f"answer {LONG}")))
    numbers = itertools.count(1)
    return ScriptedProvider(step, model_info=ModelInfo(context_window=window))


def agent(store: SessionDB, model: ScriptedProvider, folder: Path, **options: Any) -> AIAgent:
    return AIAgent(
        provider=model, session_db=store, session_id="s", cwd=folder, enabled_toolsets=["todo"], **options
    )


async def live(store: SessionDB) -> list[Message]:
    return [row.message for row in await store.get_messages("s")]


async def talk(one: AIAgent, turns: int, begin: int = 0) -> list[ConversationResult]:
    return [await one.run_conversation(f"question {number}") for number in range(begin, begin + turns)]


def test_a_session_goes_on_after_compression_in_another_process_and_its_whole_history_can_be_read(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        model = provider()
        async with SessionDB(tmp_path / "state.db") as store, agent(store, model, tmp_path) as one:
            results = await talk(one, 12)
            assert all(result["completed"] and result["saved"] for result in results)
            stored = await live(store)
            assert stored == list(results[-1]["transcript"])
            assert validate(stored) == []
            assert "SUMMARY" in content_text(stored[0].content)
            assert len(stored) < 14
            history = (await store.get_resume_conversations("s"))[1]
            said = [str(message["content"]) for message in history if message["role"] == "user"]
            assert [words for words in said if "SUMMARY" not in words] == [
                f"question {number}" for number in range(12)
            ]
        again = provider()
        async with SessionDB(tmp_path / "state.db") as store, agent(store, again, tmp_path) as two:
            [result] = await talk(two, 1, 12)
            assert result["completed"]
            sent = list(again.requests[-1].history)
            assert len(sent) < 16
            assert [number for number in range(13) if f"question {number}" not in str(sent)] == []

    asyncio.run(run())


def test_the_todo_list_is_there_after_compression_and_resume(tmp_path: Path) -> None:
    item: JsonObject = {"id": "1", "content": "paint the fence", "status": "pending"}

    async def run() -> None:
        model = provider(calls(call("todo", {"todos": [item]})))
        async with SessionDB(tmp_path / "state.db") as store, agent(store, model, tmp_path) as one:
            await talk(one, 12)
        again = provider(calls(call("todo", {})))
        async with SessionDB(tmp_path / "state.db") as store, agent(store, again, tmp_path) as two:
            [result] = await talk(two, 1, 12)
            shown = [message for message in result["transcript"] if isinstance(message, ToolMessage)]
            assert shown
            assert "paint the fence" in content_text(shown[-1].content)

    asyncio.run(run())


@pytest.mark.parametrize("point", range(0, 200, 3))
def test_a_turn_cancelled_while_it_compresses_leaves_a_session_that_goes_on(
    tmp_path: Path, point: int
) -> None:
    """Cancelled when its task was resumed `point` times since the summary was asked for."""

    async def run() -> None:
        model = provider()
        settings = CompressionSettings(cooldown_s=0)
        async with SessionDB(tmp_path / "state.db") as store:
            async with agent(store, model, tmp_path, compression=False) as first:
                await talk(first, 9)
            one = agent(store, model, tmp_path, compression=settings)
            async with one:
                task = asyncio.create_task(one.run_conversation("now"))
                asked = len(model.requests)
                turns = 0
                while not task.done():
                    await asyncio.sleep(0)
                    turns += len(model.requests) > asked
                    if turns > point:
                        task.cancel()
                        break
                await asyncio.gather(task, return_exceptions=True)
                stored = await live(store)
                assert validate(stored) == []
                result = await one.run_conversation("still there?")
                assert result["completed"], result["error"]
                assert result["saved"]
                stored = await live(store)
                assert stored == list(result["transcript"])
                assert stored[-2] == UserMessage("still there?")

    asyncio.run(run())
