"""Built-in tools in whole turns: what they tell at its start, keep between turns, and end with it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from hermes_loop import AIAgent
from hermes_messages import SystemMessage, ToolMessage, content_text
from hermes_messages.testing import ScriptedProvider, call, calls, text

pytestmark = pytest.mark.needs("hermes-loop", "hermes-tools")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HERMES_SKILLS", raising=False)
    return tmp_path


def system_text(provider: ScriptedProvider, request: int) -> str:
    first = provider.requests[request].history[0]
    assert isinstance(first, SystemMessage)
    return content_text(first.content)


def test_what_is_kept_is_in_the_prompt_of_the_next_conversation_and_never_changes_this_one(
    home: Path,
) -> None:
    asyncio.run(two_conversations(home))


async def two_conversations(home: Path) -> None:
    note = call("memory", {"action": "add", "content": "the user is called Ada"})
    provider = ScriptedProvider([calls(note), text("kept"), text("again")])
    async with AIAgent(provider=provider, enabled_toolsets=["memory"], cwd=str(home)) as agent:
        await agent.run_conversation("Remember that I am Ada.")
        await agent.run_conversation("And now?")
    prompts = {system_text(provider, number) for number in range(3)}
    assert len(prompts) == 1
    assert "Ada" not in prompts.pop()
    later = ScriptedProvider([text("hello Ada")])
    async with AIAgent(provider=later, enabled_toolsets=["memory"], cwd=str(home)) as agent:
        await agent.run_conversation("Who am I?")
    assert "the user is called Ada" in system_text(later, 0)


def test_clarify_is_there_only_where_someone_can_be_asked(home: Path) -> None:
    asyncio.run(with_and_without_a_callback(home))


async def with_and_without_a_callback(home: Path) -> None:
    async def ask(question: str, choices: Sequence[str]) -> str:
        return f"{question} {choices[1]}"

    asked = ScriptedProvider(
        [calls(call("clarify", {"question": "Which?", "choices": ["a", "b"]})), text("done")]
    )
    async with AIAgent(
        provider=asked, enabled_toolsets=["clarify"], cwd=str(home), clarify_callback=ask
    ) as agent:
        result = await agent.run_conversation("Choose.")
    [answer] = [message for message in result["transcript"] if isinstance(message, ToolMessage)]
    assert answer.content == "Which? b"
    alone = ScriptedProvider([text("done")])
    async with AIAgent(provider=alone, enabled_toolsets=["clarify"], cwd=str(home)) as agent:
        await agent.run_conversation("Choose.")
    assert [tool.name for tool in asked.requests[0].tools] == ["clarify"]
    assert not alone.requests[0].tools


def test_a_process_in_the_background_ends_with_the_turn(home: Path) -> None:
    asyncio.run(one_turn_with_a_process(home))


async def one_turn_with_a_process(home: Path) -> None:
    start = call("terminal", {"command": "echo $$ > pid; sleep 60", "background": True})
    provider = ScriptedProvider([calls(start), calls(call("process", {"action": "list"})), text("done")])
    async with AIAgent(provider=provider, enabled_toolsets=["terminal"], cwd=str(home)) as agent:
        result = await agent.run_conversation("Start it.")
        listed = [message for message in result["transcript"] if isinstance(message, ToolMessage)][-1]
        assert "p1: running" in content_text(listed.content)
        assert not alive(int(read(home / "pid")))


def read(path: Path) -> str:
    return path.read_text()


def alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False
