"""A turn that waits for a session's lease costs the same beside ten that wait and beside hundreds.

They wait in one store for the same session or for others, or in a store each, as in other processes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from counting import FEW, Counts, counted, same
from test_work_in_the_store import Work

from hermes_messages import StoreBusyError
from hermes_store import SessionDB
from hermes_store.backend import Operation
from hermes_store.methods import turn_leases
from hermes_store.operations import leases

pytestmark = pytest.mark.needs("workspace")

TIMES = 3
MANY = 1_000 if os.environ.get("HERMES_TEST_PROFILE") == "nightly" else 300
FOREVER_S = 1e6


class Waiters:
    """Turns that wait in one store until they are told to look."""

    def __init__(self, db: SessionDB) -> None:
        self.db = db
        self.work = Work(db)
        self.counts: Counts = {}
        self.tasks: list[asyncio.Task[None]] = []

    async def wait(self, session: str, holder: str) -> None:
        lease = await self.db.acquire_session_turn_lease(session, holder, FOREVER_S)
        await self.db.release_session_turn_lease(lease)

    async def add(self, session: str, count: int) -> None:
        self.tasks += [asyncio.create_task(self.wait(session, f"w{number}")) for number in range(count)]
        await asyncio.sleep(0)

    async def cost(self, event: str, doing: Callable[[], Awaitable[object]]) -> None:
        """What it costs this thread, the database's thread, and the database."""

        async def done() -> None:
            with counted(self.counts, f"{event}: loop"):
                await doing()

        _, bytecodes, steps = await self.work.cost(done())
        for name, found in ((f"{event}: thread", bytecodes), (f"{event}: steps", steps)):
            self.counts[name] = min(found, self.counts.get(name, found))

    async def cancel(self, place: int) -> None:
        task = self.tasks.pop(place)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def busy(self) -> None:
        with pytest.raises(StoreBusyError):
            await self.db.acquire_session_turn_lease("s", "busy", FOREVER_S, wait_s=0)

    async def costs(self) -> Counts:
        """Of a session for which others wait, or not."""
        for _ in range(TIMES):
            await self.cost("one more waits", lambda: self.add("s", 1))
            await self.cost("the last waits no longer", lambda: self.cancel(-1))
            await self.cost("one in the middle waits no longer", lambda: self.cancel(len(self.tasks) // 2))
            await self.cost("the first waits no longer", lambda: self.cancel(0))
            await self.cost("one has no time", self.busy)
            await self.cost("one does not wait", lambda: self.db.try_acquire_session_turn_lease("s", "t", 1))
        return self.counts


@pytest.fixture(autouse=True)
def _nothing_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_leases, "FIRST_PAUSE_S", FOREVER_S)
    monkeypatch.setattr(turn_leases, "LONGEST_PAUSE_S", FOREVER_S)
    monkeypatch.setattr(leases, "TICKET_TTL_S", FOREVER_S)


async def costs_beside_waiters(path: Path, count: int) -> Counts:
    async with SessionDB(path, search_index=False) as db:
        waiters = Waiters(db)
        held = await db.acquire_session_turn_lease("s", "holder", FOREVER_S)
        await waiters.add("s", count)
        counts = await waiters.costs()
        line = db._lines.get("s")
        assert line is not None
        left = len(line)

        async def all_in_turn() -> None:
            await db.release_session_turn_lease(held)
            await asyncio.gather(*waiters.tasks)

        await waiters.cost("each of all in turn", all_in_turn)
        for name in counts:
            if name.startswith("each"):
                counts[name] //= left
        return counts


async def costs_beside_other_sessions(path: Path, count: int) -> Counts:
    """In each of which one turn waits."""
    async with SessionDB(path, search_index=False) as db:
        waiters = Waiters(db)
        held = [await db.acquire_session_turn_lease(f"o{number}", "h", FOREVER_S) for number in range(count)]
        others = [asyncio.create_task(waiters.wait(lease.session_id, "w")) for lease in held]
        await db.acquire_session_turn_lease("s", "holder", FOREVER_S)
        await waiters.add("s", FEW)
        counts = await waiters.costs()
        for lease in held:
            await db.release_session_turn_lease(lease)
        for task in [*others, *waiters.tasks]:
            task.cancel()
        await asyncio.gather(*others, *waiters.tasks, return_exceptions=True)
        return counts


async def costs_beside_other_stores(path: Path, count: int) -> Counts:
    """Each of which waits for the same session."""

    def stand_in_the_queue() -> Operation[None]:
        for number in range(count):
            yield from leases.request("s", f"holder {number}", FOREVER_S, f"store {number}", None)

    async with SessionDB(path, search_index=False) as db:
        waiters = Waiters(db)
        await db.acquire_session_turn_lease("s", "holder", FOREVER_S)
        await db._backend.write(stand_in_the_queue)
        await waiters.add("s", FEW)
        counts = await waiters.costs()
        for task in waiters.tasks:
            task.cancel()
        await asyncio.gather(*waiters.tasks, return_exceptions=True)
        return counts


@pytest.mark.parametrize(
    "costs", [costs_beside_waiters, costs_beside_other_sessions, costs_beside_other_stores]
)
def test_a_turn_that_waits_looks_at_all_who_wait(
    tmp_path: Path, costs: Callable[[Path, int], Awaitable[Counts]]
) -> None:
    async def main() -> tuple[Counts, Counts]:
        return await costs(tmp_path / "few.db", FEW), await costs(tmp_path / "many.db", MANY)

    few, many = asyncio.run(main())
    assert same(few, many, MANY) == {}
