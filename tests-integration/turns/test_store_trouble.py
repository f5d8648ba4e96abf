"""What becomes of a conversation whose store fails: nothing is lost, nothing runs unrecorded."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_loop import AIAgent
from hermes_messages import Message, StoreError, ToolMessage, validate
from hermes_messages.protocols import ConversationResult
from hermes_messages.testing import Answer, ScriptedProvider, call, calls, text
from hermes_store import SessionDB
from hermes_tools import tool

pytestmark = pytest.mark.needs("hermes-loop", "hermes-tools", "hermes-store")


class Unreliable(SessionDB):
    """A real store some of whose writes are refused."""

    refused: tuple[str, ...] = ()

    async def append_messages_batch(self, *arguments: Any, **options: Any) -> tuple[int, ...]:
        self._refuse("append_messages_batch")
        return await super().append_messages_batch(*arguments, **options)

    async def set_tool_result(self, *arguments: Any, **options: Any) -> None:
        self._refuse("set_tool_result")
        await super().set_tool_result(*arguments, **options)

    def _refuse(self, method: str) -> None:
        if method in self.refused:
            raise StoreError(f"{method} was refused")


async def stored(store: SessionDB, session_id: str) -> tuple[Message, ...]:
    return tuple(row.message for row in await store.get_messages(session_id))


@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("refused", ["append_messages_batch", "set_tool_result"])
def test_what_could_not_be_saved_is_saved_by_the_next_turn(
    refused: str, others: bool, tmp_path: Path
) -> None:
    """Also when turns of other sessions came between: nobody else wrote this one."""

    async def main() -> None:
        provider = ScriptedProvider(
            [
                text("Hello."),
                calls(call("terminal", {"command": "echo once >> ran.txt; cat ran.txt"})),
                text("It ran."),
                text("Bye."),
            ]
        )
        async with Unreliable(tmp_path / "state.db") as store:
            agent = AIAgent(
                provider=provider,
                session_db=store,
                session_id="s",
                enabled_toolsets=["terminal"],
                cwd=tmp_path,
            )
            other = AIAgent(provider=ScriptedProvider([text("x")]), session_db=store, session_id="other")
            async with agent, other:
                await agent.run_conversation("hi")
                store.refused = (refused,)
                failed = await agent.run_conversation("run it")
                assert failed["turn_exit_reason"] == "session_persistence_failed"
                assert not failed["saved"]
                store.refused = ()
                if others:
                    await other.run_conversation("hello")
                result = await agent.run_conversation("and now?")
                result = await agent.run_conversation("bye")
            rows = await stored(store, "s")
        assert rows == result["transcript"]
        assert result["saved"]
        assert rows[: len(failed["transcript"])] == failed["transcript"]
        assert validate(rows) == []
        outputs = [m.content for m in rows if isinstance(m, ToolMessage)]
        assert outputs == ["once"]
        assert (tmp_path / "ran.txt").read_text() == "once\n"

    asyncio.run(main())


def refusing(folder: Path) -> None:
    with sqlite3.connect(folder / "state.db") as other:
        for event in ("INSERT", "UPDATE"):
            refuse = f"BEFORE {event} ON messages BEGIN SELECT RAISE(ABORT, 'no'); END"
            other.execute(f"CREATE TRIGGER refuse_{event} {refuse}")
    other.close()


def unusable(folder: Path) -> None:
    with sqlite3.connect(folder / "state.db") as other:
        other.execute("DROP TABLE messages")
    other.close()


def zeroed(folder: Path) -> None:
    for path in folder.glob("state.db*"):
        path.write_bytes(bytes(path.stat().st_size))


def removed(folder: Path) -> None:
    for path in folder.glob("state.db*"):
        path.unlink()


def replaced(folder: Path) -> None:
    shutil.copy(folder / "state.db", folder / "copy.db")
    (folder / "copy.db").rename(folder / "state.db")


def emptied(folder: Path) -> None:
    (folder / "state.db").write_bytes(b"")


@pytest.mark.parametrize("harm", [refusing, unusable, zeroed, removed, replaced, emptied])
@pytest.mark.parametrize("when", ["before the round", "in the round"])
def test_a_database_that_breaks_under_a_turn_ends_it_with_everything_in_the_result(
    harm: Callable[[Path], None], when: str, tmp_path: Path
) -> None:
    def answer(_: object) -> Answer:
        if when == "before the round":
            harm(tmp_path)
        return calls(call("breaks"), call("terminal", {"command": "touch ran"}))

    @tool(scheduling="sequential")
    async def breaks() -> str:
        """Break it."""
        if when == "in the round":
            harm(tmp_path)
        return "broken"

    async def main() -> ConversationResult:
        async with AIAgent(
            provider=ScriptedProvider([answer, text("Done.")]),
            session_db=str(tmp_path / "state.db"),
            session_id="s",
            enabled_toolsets=["terminal"],
            tools=[breaks],
            cwd=tmp_path,
        ) as agent:
            return await agent.run_conversation("go")

    result = asyncio.run(main())
    assert set(result) == set(ConversationResult.__annotations__)
    assert validate(result["transcript"]) == []
    assert result["messages"][0]["content"] == "go"
    assert result["turn_exit_reason"] == "session_persistence_failed"
    assert not result["saved"]
    assert not (tmp_path / "ran").exists()


def test_a_full_disk_ends_the_turn_and_room_made_later_saves_it(tmp_path: Path) -> None:
    """The limit of a file's size stands for the disk; it holds for a process of its own."""
    program = """
import asyncio, resource, signal, sys
from pathlib import Path
from hermes_loop import AIAgent
from hermes_messages.protocols import ConversationResult
from hermes_messages.testing import Answer, ScriptedProvider, call, calls, text
from hermes_store import SessionDB
from hermes_tools import tool

async def main():
    folder = Path(sys.argv[1])
    provider = ScriptedProvider([text("one"), text("two" * 200_000), text("three")])
    async with SessionDB(folder / "state.db") as store:
        made = AIAgent(provider=provider, session_db=store, session_id="s", compression=False)
        async with made as agent:
            await agent.run_conversation("a")
            soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            size = max(path.stat().st_size for path in folder.glob("state.db*"))
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50_000, hard))
            full = await agent.run_conversation("b")
            assert full["turn_exit_reason"] == "session_persistence_failed", full["turn_exit_reason"]
            assert full["final_response"].startswith("two") and not full["saved"]
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            result = await agent.run_conversation("c")
            assert result["saved"] and result["final_response"] == "three", result["error"]
            stored = tuple(row.message for row in await store.get_messages("s"))
            assert stored == result["transcript"] and len(stored) == 6

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sys.dont_write_bytecode = True  # else the limit would cut the cached modules of everybody
asyncio.run(main())
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, check=False, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
