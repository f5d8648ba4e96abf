"""An agent that delegates: real children on a real store, their share, and what guards them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hermes_loop import AIAgent, CompressionSettings, IterationBudget, SummaryCompressor
from hermes_messages import AssistantMessage, JsonObject, ModelInfo, ToolMessage, UserMessage, validate
from hermes_messages.testing import ScriptedProvider, call, calls, text
from hermes_store import SessionDB

pytestmark = pytest.mark.needs("hermes-loop", "hermes-tools", "hermes-store")


def delegating(*goals: str) -> Any:
    return calls(call("delegate_task", {"tasks": [{"goal": goal} for goal in goals]}))


def test_a_child_does_its_part_in_a_session_of_its_own(tmp_path: Path) -> None:
    async def main() -> None:
        provider = ScriptedProvider(
            [
                delegating("Count the files."),
                calls(call("search_files", {"pattern": "*.txt", "target": "files"})),  # the child's
                text("There is one file."),
                text("One file, says my helper."),
            ]
        )
        (tmp_path / "a.txt").write_text("a")
        async with SessionDB(tmp_path / "state.db") as store:
            async with AIAgent(
                provider=provider,
                enabled_toolsets=["delegation", "file"],
                session_db=store,
                session_id="parent",
                cwd=tmp_path,
            ) as agent:
                result = await agent.run_conversation("How many files are there?")
            assert result["final_response"] == "One file, says my helper."
            told = next(m for m in result["transcript"] if isinstance(m, ToolMessage))
            assert "## Task 1: done (2 model calls" in str(told.content)
            assert "There is one file." in str(told.content)
            [child_id] = [s.id for s in await store.list_sessions() if s.id != "parent"]
            child = [row.message for row in await store.get_messages(child_id)]
            record = await store.get_session(child_id)
        assert validate(child) == []
        kinds = [type(message) for message in child]
        assert kinds == [UserMessage, AssistantMessage, ToolMessage, AssistantMessage]
        assert record is not None
        assert record.source == "delegation"
        assert record.metadata["parent_session_id"] == "parent"
        asked = [list(request.history) for request in provider.requests]
        assert "How many files" not in str(asked[1])  # the child saw its goal and nothing else
        assert "Count the files." in str(asked[1])
        # A child of the first level may not delegate: it is not offered the tool.
        assert "delegate_task" in [tool.name for tool in provider.requests[0].tools]
        assert "delegate_task" not in [tool.name for tool in provider.requests[1].tools]

    asyncio.run(main())


def test_children_take_their_calls_from_the_budget_of_all(tmp_path: Path) -> None:
    async def main() -> None:
        look = calls(call("search_files", {"pattern": "*"}))
        provider = ScriptedProvider([delegating("Look."), look, look, look, text("unreached")])
        budget = IterationBudget(3)
        async with AIAgent(
            provider=provider,
            enabled_toolsets=["delegation", "file"],
            iteration_budget=budget,
            cwd=tmp_path,
        ) as agent:
            result = await agent.run_conversation("Go.")
        assert budget.remaining == 0
        told = next(m for m in result["transcript"] if isinstance(m, ToolMessage))
        assert "not complete" in str(told.content)

    asyncio.run(main())


def test_cancelling_the_parent_ends_its_children(tmp_path: Path) -> None:
    async def main() -> None:
        provider = ScriptedProvider(
            [delegating("Wait."), calls(call("terminal", {"command": "touch begun; sleep 600"}))]
        )
        async with AIAgent(
            provider=provider, enabled_toolsets=["delegation", "terminal"], cwd=tmp_path
        ) as agent:
            turn = asyncio.create_task(agent.run_conversation("Go."))
            async with asyncio.timeout(300):
                while not (tmp_path / "begun").exists():  # noqa: ASYNC110 - a file sends no event
                    await asyncio.sleep(0.01)
            turn.cancel()
            with pytest.raises(asyncio.CancelledError):
                await turn
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left

    asyncio.run(main())


def test_what_guards_the_tools_of_an_agent_guards_those_of_its_children(tmp_path: Path) -> None:
    async def main() -> None:
        provider = ScriptedProvider(
            [
                delegating("Do it."),
                calls(call("terminal", {"command": "touch denied"})),
                text("It was refused."),
                text("Done."),
            ]
        )
        async with AIAgent(
            provider=provider,
            enabled_toolsets=["delegation", "terminal"],
            cwd=tmp_path,
            approval_policy={"rules": [{"action": "deny", "pattern": "touch denied"}]},
        ) as agent:
            await agent.run_conversation("Go.")
        told = next(m for m in provider.requests[2].history if isinstance(m, ToolMessage))
        assert told.status == "denied"

    asyncio.run(main())
    assert list(tmp_path.iterdir()) == []


def test_a_model_can_not_hand_on_tools_that_its_agent_was_not_given(tmp_path: Path) -> None:
    async def main() -> None:
        part: JsonObject = {"goal": "Do it.", "toolsets": ["terminal"]}
        provider = ScriptedProvider([calls(call("delegate_task", {"tasks": [part]})), text("I can not.")])
        async with AIAgent(provider=provider, enabled_toolsets=["delegation", "file"], cwd=tmp_path) as agent:
            result = await agent.run_conversation("Go.")
        told = next(m for m in result["transcript"] if isinstance(m, ToolMessage))
        assert "can not have toolsets terminal" in str(told.content)
        assert "it can have: delegation, file" in str(told.content)
        assert len(provider.requests) == 2

    asyncio.run(main())


def test_children_are_compressed_as_their_parent_is(tmp_path: Path) -> None:
    class Counting(SummaryCompressor):
        attempts = 0

        async def compress(self, *arguments: Any) -> Any:
            self.attempts += 1
            return await super().compress(*arguments)

    async def main() -> None:
        cheap = ScriptedProvider(lambda _: text("In short."), name="cheap")
        compressor = Counting(provider=cheap)
        (tmp_path / "long.txt").write_text("\n".join(["word " * 20] * 60))
        read = calls(call("read_file", {"path": "long.txt"}))
        provider = ScriptedProvider(
            [delegating("Read."), read, read, read, text("Read."), text("Done.")],
            model_info=ModelInfo(context_window=8000),
        )
        async with AIAgent(
            provider=provider,
            enabled_toolsets=["delegation", "file"],
            cwd=tmp_path,
            compression=CompressionSettings(threshold=0.3, keep_recent=0.05),
            compressor=compressor,
        ) as agent:
            result = await agent.run_conversation("Go.")
        assert result["completed"]
        assert compressor.attempts
        assert cheap.requests

    asyncio.run(main())
