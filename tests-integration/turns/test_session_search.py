"""Earlier conversations are found by the tool in the store that ships with the library."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from hermes_loop import AIAgent
from hermes_messages import ToolMessage, content_text
from hermes_messages.testing import ScriptedProvider, ScriptStep, call, calls, text
from hermes_store import SessionDB

pytestmark = pytest.mark.needs("hermes-loop", "hermes-tools", "hermes-store")


def test_an_earlier_conversation_is_found_and_read_in_sqlite(tmp_path: Path) -> None:
    asyncio.run(search_and_read(tmp_path))


async def search_and_read(tmp_path: Path) -> None:
    async with SessionDB(tmp_path / "state.db") as store:
        await talk(store, "old", [text("They go south over Gibraltar.")], "Where do the storks go?")
        await talk(store, "日本", [text("コウノトリは南へ行きます。")], "コウノトリは?")
        asking = [
            calls(
                call("session_search", {"query": "storks"}, id="1"),
                call("session_search", {"query": "コウノトリ"}, id="2"),
                call("session_search", {"query": "penguins"}, id="3"),
                call("session_search", {"query": '" OR * NEAR( -x'}, id="4"),
                call("session_search", {"session_id": "old", "around": 1}, id="5"),
            ),
            text("South."),
        ]
        found = await talk(store, "new", asking, "What did I ask of storks?")
    storks, birds, penguins, odd, read = found
    assert "session old (" in storks
    assert "1 user: Where do the >>>storks<<< go?" in storks
    assert "session new" not in storks
    assert "session 日本 (" in birds
    assert penguins == "nothing found for penguins"
    assert odd.startswith("nothing found for")
    assert "user: Where do the storks go?" in read
    assert "assistant: They go south over Gibraltar." in read


async def talk(store: SessionDB, session_id: str, script: Sequence[ScriptStep], asked: str) -> list[str]:
    """The results of the tool calls of one turn."""
    async with AIAgent(
        provider=ScriptedProvider(script),
        session_db=store,
        session_id=session_id,
        enabled_toolsets=["session_search"],
    ) as agent:
        result = await agent.run_conversation(asked)
    assert result["completed"], json.dumps(result["error"])
    return [content_text(m.content) for m in result["transcript"] if isinstance(m, ToolMessage)]
