"""A write or a lease costs the same beside ten sessions with a lease and beside a thousand."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from counting import FEW, MANY, Counts, same

from hermes_messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from hermes_store import SessionDB
from hermes_store.sqlite import SqliteBackend

pytestmark = pytest.mark.needs("workspace")

T = TypeVar("T")
TIMES = 3
CALL = AssistantMessage(tool_calls=(ToolCall("a", "look", "{}"),))


class Work:
    """What the connection's thread does: bytecodes of Python and steps of the database's machine."""

    def __init__(self, db: SessionDB) -> None:
        self._db = db
        self._bytecodes = 0
        self._steps = 0

    async def cost(self, event: Awaitable[T]) -> tuple[T, int, int]:
        await self._on_the_thread(self._begin)
        answer = await event
        await self._on_the_thread(self._end)
        return answer, self._bytecodes, self._steps

    async def _on_the_thread(self, work: Callable[[sqlite3.Connection], None]) -> None:
        assert isinstance(self._db._backend, SqliteBackend)
        link = self._db._backend._link
        assert link is not None
        done = asyncio.Event()

        def run(raw: sqlite3.Connection | None) -> None:
            assert raw is not None
            work(raw)
            link.loop.call_soon_threadsafe(done.set)

        link.connection.post(run)
        await done.wait()

    def _begin(self, raw: sqlite3.Connection) -> None:
        self._bytecodes = self._steps = 0
        raw.set_progress_handler(self._step, 1)
        sys._getframe().f_trace_opcodes = True  # else Python 3.12 counts nothing the first time
        sys.settrace(self._trace)

    def _end(self, raw: sqlite3.Connection) -> None:
        sys.settrace(None)
        raw.set_progress_handler(None, 1)

    def _step(self) -> int:
        self._steps += 1
        return 0

    def _trace(self, frame: Any, what: str, _argument: Any) -> Any:
        frame.f_trace_opcodes = frame.f_code.co_name != "_step"
        self._bytecodes += what == "opcode"
        return self._trace


async def begin(db: SessionDB, name: str) -> None:
    """A session in the middle of a turn: its lease, a question, a call without a result."""
    await db.create_session(name, source="test")
    lease = await db.acquire_session_turn_lease(name, name, 600)
    await db.append_message(name, UserMessage("Look."), lease=lease)
    await db.begin_tool_round(name, "round", CALL, lease=lease)


async def costs(db: SessionDB, beside: int) -> Counts:
    """What the events of one session's turn cost the thread and the database."""
    work = Work(db)
    counts: Counts = {}

    async def count(event: str, doing: Awaitable[T]) -> T:
        answer, bytecodes, steps = await work.cost(doing)
        for name, found in ((f"{event}: bytecodes", bytecodes), (f"{event}: steps", steps)):
            counts[name] = min(found, counts.get(name, found))
        return answer

    for number in range(TIMES):
        name = f"beside {beside} {number}"
        await count("create a session", db.create_session(name, source="test"))
        lease = await count("take a lease", db.acquire_session_turn_lease(name, name, 600))
        await count("append", db.append_message(name, UserMessage("Look."), lease=lease))
        opened = await count("open a round", db.begin_tool_round(name, "round", CALL, lease=lease))
        await count("set a result", db.set_tool_result(opened, 0, ToolMessage("a", "seen"), lease=lease))
        await count("renew a lease", db.refresh_session_turn_lease(lease, 600))
        await count("read", db.get_messages(name))
        await count("open rounds", db.open_rounds(name))
        await count("give a lease back", db.release_session_turn_lease(lease))
        await count("end a session", db.end_session(name, "done"))
    return counts


def test_a_write_of_one_session_looks_at_all_others(tmp_path: Path) -> None:
    async def main() -> list[Counts]:
        found: list[Counts] = []
        async with SessionDB(tmp_path / "state.db", search_index=False) as db:
            for start, end in ((0, FEW), (FEW, MANY)):
                await asyncio.gather(*(begin(db, f"s{number}") for number in range(start, end)))
                found.append(await costs(db, end))
        return found

    few, many = asyncio.run(main())
    assert same(few, many) == {}
