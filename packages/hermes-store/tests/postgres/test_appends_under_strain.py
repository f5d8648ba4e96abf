"""Appends while sessions are held, leases change hands, callers are cancelled, connections die: at random."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections import defaultdict

import psycopg
import pytest

from hermes_messages import LeaseLostError, StoreBusyError, UserMessage
from hermes_store import SessionDB, StoreConnectionError
from hermes_store.postgres import PostgresBackend
from postgres.server import MakeStore, Server

NIGHTLY = os.environ.get("HERMES_TEST_PROFILE") == "nightly"
WRITERS, TURNS = (24, 50) if NIGHTLY else (10, 12)
SESSIONS = 6
FREE_OF = "SELECT count(*) = 0 FROM pg_locks WHERE locktype = 'advisory'"
END_ONE = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE usename = 'hermes' AND pid <> pg_backend_pid() AND query NOT LIKE '%pg_stat_activity%'
ORDER BY random() LIMIT 1
"""
FOREVER_S = 1800.0
"""A bound that only a wait for ever passes."""


class Strain:
    """What goes on, and what was acknowledged."""

    def __init__(self, server: Server, schema: str, seed: int) -> None:
        self.server, self.schema = server, schema
        self.chance = random.Random(seed)
        self.ends = asyncio.Event()
        self.acknowledged: dict[tuple[str, str], int] = {}

    async def append_many(self, db: SessionDB, number: int) -> None:
        """One after the other, some with a uid again, some cancelled."""
        last: dict[str, int] = defaultdict(int)
        for turn in range(TURNS):
            session, uid = f"s{self.chance.randrange(SESSIONS)}", f"{number}-{turn}"
            again = self.chance.random() < 0.2
            tasks = [
                asyncio.create_task(db.append_message(session, UserMessage(uid), uid=uid))
                for _ in range(1 + again)
            ]
            if self.chance.random() < 0.3:
                await asyncio.wait(tasks, timeout=self.chance.choice([0, 0.001, 0.01, 0.05]))
                self.chance.choice(tasks).cancel()
            await asyncio.wait(tasks)
            for task in tasks:
                if task.cancelled():
                    continue
                if task.exception() is None:
                    seq = task.result()
                    assert self.acknowledged.setdefault((session, uid), seq) == seq
                    assert seq > last[session] or again
                    last[session] = max(last[session], seq)
                else:
                    assert isinstance(
                        task.exception(), StoreConnectionError | LeaseLostError | StoreBusyError
                    )

    async def hold(self) -> None:
        """Another process takes sessions, or all, for a while; each `commit` lets them go."""
        while not self.ends.is_set():
            with contextlib.suppress(psycopg.Error):
                async with await psycopg.AsyncConnection.connect(self.server.dsn()) as outside:
                    which = self.chance.randrange(SESSIONS + 1)
                    name = self.schema if which == SESSIONS else f"{self.schema}.s{which}"
                    await outside.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (name,))
                    await asyncio.sleep(self.chance.choice([0, 0.005, 0.05]))
            await asyncio.sleep(self.chance.choice([0, 0.01]))

    async def kill(self) -> None:
        while not self.ends.is_set():
            await self.server.ask(END_ONE.replace("%", "%%"))
            await asyncio.sleep(self.chance.uniform(0.02, 0.3))

    async def lease(self, db: SessionDB, holder: str) -> None:
        """Short leases of session s0, under which, and past which, a message says the number of its lease."""
        number = 0
        while not self.ends.is_set():
            with contextlib.suppress(StoreConnectionError, StoreBusyError, LeaseLostError):
                token = await db.try_acquire_session_turn_lease("s0", holder, 0.02)
                for _ in range(4 if token else 0):
                    number += 1
                    text = UserMessage(f"lease {token.number}" if token else "")
                    await db.append_message("s0", text, uid=f"{holder} {number}", lease=token)
            await asyncio.sleep(0)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kills", [False, True])
def test_nothing_is_lost_and_nobody_waits_for_ever(
    server: Server, make_store: MakeStore, schema: str, kills: bool
) -> None:
    """What was acknowledged is there, once, in order; no message came under a lease that was over."""

    async def main() -> None:
        strain = Strain(server, schema, seed=kills)
        stores = [make_store(pool_size=size, busy_timeout_s=FOREVER_S) for size in (1, 4)]
        for name in range(SESSIONS):
            await stores[0].create_session(f"s{name}")
        others = [strain.hold(), strain.hold()]
        others += [strain.lease(db, f"holder {place}") for place, db in enumerate(stores)]
        others += [strain.kill()] if kills else []
        async with asyncio.timeout(FOREVER_S), asyncio.TaskGroup() as group:
            beside = [group.create_task(work) for work in others]
            await asyncio.gather(*(strain.append_many(db, n) for n, db in enumerate(stores * (WRITERS // 2))))
            strain.ends.set()
            await asyncio.wait(beside)
        seqs: list[int] = []
        for name in range(SESSIONS):
            rows = await stores[1].get_messages(f"s{name}")
            seqs += [row.seq for row in rows]
            assert len({row.uid for row in rows}) == len(rows)
            there = {row.uid: row.seq for row in rows}
            for (session, uid), seq in strain.acknowledged.items():
                assert session != f"s{name}" or there[uid] == seq
            leases = [int(str(row.message.content)[6:]) for row in rows if row.uid.startswith("holder")]
            assert leases == sorted(leases)
        assert kills or len(strain.acknowledged) > WRITERS
        assert len({*seqs}) == len(seqs)
        for db in stores:
            backend = db._backend
            assert isinstance(backend, PostgresBackend)
            assert backend._link is not None
            assert not backend._link.appends._queue._lanes
            await db.close()
        await server.until(FREE_OF)

    asyncio.run(main())
