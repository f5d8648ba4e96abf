"""Appends that share a transaction: each is whole, has its own outcome, and waits for no other's session."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import psycopg
import pytest

from hermes_messages import LeaseLostError, StoreBusyError, StoreError, UserMessage
from hermes_store import SessionDB, StoreConnectionError
from hermes_store.append_queue import MAX_GROUP, Lane
from hermes_store.operations.messages import Append, PreparedMessage
from hermes_store.postgres_appends import GroupedAppends
from postgres.backends import ASLEEP, SLEEPING, answered, backend, sleep
from postgres.server import MakeStore, Server
from postgres.test_cancelled_calls import MOST_WAITS, CancelsAt
from postgres.test_failing_servers import END_ALL, connection_lost_at_commit

WAITS_FOR_A_LOCK = "SELECT count(*) = %s FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
ONE_MOMENT = 60.0
"""A bound that only a wait for ever passes."""


async def append_all(db: SessionDB, *wanted: tuple[str, str]) -> list[int | BaseException]:
    """Append a message for each session and uid, all at once."""
    return await asyncio.gather(
        *(db.append_message(session, UserMessage(uid), uid=uid) for session, uid in wanted),
        return_exceptions=True,
    )


async def stored(db: SessionDB, session_id: str) -> list[str]:
    return [item.uid for item in await db.get_messages(session_id)]


async def transactions(server: Server, schema: str) -> int:
    """How many wrote the messages that are there."""
    return int((await server.ask(f'SELECT count(DISTINCT xmin::text) FROM "{schema}".messages'))[0][0])


@contextlib.asynccontextmanager
async def held(
    server: Server, schema: str, session_id: str, sql: str = "SELECT 1"
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Another process works on the session during the block, or until what it gives is called: then, with
    `sql` done, it commits."""
    connection = await psycopg.AsyncConnection.connect(server.dsn())
    try:
        lock = f"hashtextextended('{schema}.' || %s, 0)"
        await connection.execute(f"SELECT pg_advisory_xact_lock({lock})", (session_id,))
        await connection.execute(f'SET LOCAL search_path = "{schema}"')
        await connection.execute(sql)
        yield connection.commit
    finally:
        await connection.close()


def test_appends_of_one_moment_are_one_transaction(
    server: Server, make_store: MakeStore, schema: str
) -> None:
    async def main() -> None:
        async with make_store(busy_timeout_s=ONE_MOMENT) as db:
            sessions = [await db.create_session(f"s{number}") for number in range(5)]
            wanted = [(sessions[number % 5], f"{number}") for number in range(60)]
            seqs = await append_all(db, *wanted)
            assert await transactions(server, schema) == 1
            assert len({*seqs}) == 60
            for name, session in enumerate(sessions):
                own = [uid for _, uid in wanted if int(uid) % 5 == name]
                assert await stored(db, session) == own
                rows = await db.get_messages(session)
                assert [row.seq for row in rows] == [seqs[int(uid)] for uid in own]
            assert await db.check_integrity() == []

    asyncio.run(main())


def test_nobody_waits_for_the_session_of_another(server: Server, make_store: MakeStore, schema: str) -> None:
    """Those of the held session keep their order, and go in together once it is free."""

    async def main() -> None:
        async with make_store(busy_timeout_s=ONE_MOMENT) as db:
            for session in ("a", "b"):
                await db.create_session(session)
            async with held(server, schema, "a") as let_go:
                waiting = [
                    asyncio.create_task(db.append_message("a", UserMessage("x"), uid=f"a{number}"))
                    for number in range(3)
                ]
                free = await append_all(db, ("b", "b0"), ("b", "b1"))
                assert not any(isinstance(seq, BaseException) for seq in free)
                await server.until(WAITS_FOR_A_LOCK, 1)
                waiting.append(asyncio.create_task(db.append_message("a", UserMessage("x"), uid="a3")))
                assert await append_all(db, ("b", "b2")) != []
                assert not any(task.done() for task in waiting)
                assert await transactions(server, schema) == 2
                await let_go()
                seqs = await asyncio.gather(*waiting)
            assert await stored(db, "a") == ["a0", "a1", "a2", "a3"]
            assert seqs == sorted(seqs)
            assert await stored(db, "b") == ["b0", "b1", "b2"]

    asyncio.run(main())


def test_a_lease_that_is_taken_while_an_append_waits_refuses_it(
    server: Server, make_store: MakeStore, schema: str
) -> None:
    """What the append looks at is what is committed once it has its session."""
    lease = """
    INSERT INTO leases (lineage, holder, number, expires_at)
    VALUES ('s', 'other', 7, extract(epoch FROM clock_timestamp()) + 600)
    """

    async def main() -> None:
        async with make_store(busy_timeout_s=ONE_MOMENT) as db:
            await db.create_session("s")
            async with held(server, schema, "s", lease) as let_go:
                tasks = [
                    asyncio.create_task(db.append_message("s", UserMessage("x"), uid=uid)) for uid in "ab"
                ]
                await server.until(WAITS_FOR_A_LOCK, 1)
                await let_go()
                outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [LeaseLostError] * 2
            assert await stored(db, "s") == []

    asyncio.run(main())


def test_a_cancelled_append_leaves_those_that_wait_with_it_alone(
    server: Server, make_store: MakeStore, schema: str
) -> None:
    """Their transaction waits for a lock; it is taken back, and made again without the cancelled ones."""

    async def main() -> None:
        async with make_store(pool_size=2, busy_timeout_s=ONE_MOMENT) as db:
            await db.create_session("s")
            async with held(server, schema, "s") as let_go:
                tasks = [
                    asyncio.create_task(db.append_message("s", UserMessage(uid), uid=uid)) for uid in "abcde"
                ]
                await server.until(WAITS_FOR_A_LOCK, 1)
                for times, place in enumerate((1, 3), 1):
                    for _ in range(times):
                        tasks[place].cancel()
                cancelled = await asyncio.gather(tasks[1], tasks[3], return_exceptions=True)
                assert [type(outcome) for outcome in cancelled] == [asyncio.CancelledError] * 2
                assert not any(tasks[place].done() for place in (0, 2, 4))
                await let_go()
                await asyncio.gather(*(tasks[place] for place in (0, 2, 4)))
            assert await stored(db, "s") == ["a", "c", "e"]
            await append_all(db, *(("s", f"later{number}") for number in range(8)))

    asyncio.run(main())


def test_all_callers_cancelled_leave_nothing_behind(
    server: Server, make_store: MakeStore, schema: str
) -> None:
    async def main() -> None:
        async with make_store(pool_size=1, busy_timeout_s=ONE_MOMENT) as db:
            await db.create_session("s")
            async with held(server, schema, "s"):
                tasks = [
                    asyncio.create_task(db.append_message("s", UserMessage(uid), uid=uid)) for uid in "abc"
                ]
                await server.until(WAITS_FOR_A_LOCK, 1)
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                assert all(task.cancelled() for task in tasks)
                await server.until(WAITS_FOR_A_LOCK, 0)
            assert await stored(db, "s") == []
            assert await db.append_message("s", UserMessage("x")) > 0

    asyncio.run(main())


class CancelsTheWorkers(CancelsAt):
    """Cancels `caller` at the k-th wait of the workers of appends."""

    WATCHED = "GroupedAppends._work"


@pytest.mark.parametrize("refused", [False, True])
def test_cancelled_at_every_wait_of_a_group(make_store: MakeStore, refused: bool) -> None:
    """The others of the group are stored, once and in order; the only connection is there for the next."""

    async def main() -> None:
        async with make_store(pool_size=1, busy_timeout_s=ONE_MOMENT) as db:
            loop = asyncio.get_running_loop()
            for k in range(1, MOST_WAITS):
                session = await db.create_session(f"s{k}")
                await db.append_message(session, UserMessage("first"), uid="first")
                cancels = CancelsTheWorkers(k)
                loop.set_task_factory(cancels)
                wanted = [
                    (session, "a"),
                    (session, "b"),
                    ("none" if refused else session, "c"),
                    (session, "d"),
                ]
                tasks = [
                    loop.create_task(db.append_message(name, UserMessage(uid), uid=uid))
                    for name, uid in wanted
                ]
                cancels.caller = tasks[1]
                try:
                    await asyncio.wait(tasks)
                finally:
                    loop.set_task_factory(None)
                was_cancelled = cancels.waits >= k
                assert tasks[1].cancelled() == was_cancelled
                kept = await stored(db, session)
                others = ["first", "a", "d"] if refused else ["first", "a", "c", "d"]
                assert [uid for uid in kept if uid != "b"] == others
                assert sorted(kept) == sorted({*kept})
                assert was_cancelled or "b" in kept
                assert (tasks[2].exception() is not None) == refused
                if not was_cancelled:
                    break
            assert 2 < k < MOST_WAITS - 1

    asyncio.run(main())


def test_an_append_that_the_database_refuses_costs_the_others_nothing(
    server: Server, make_store: MakeStore, schema: str
) -> None:
    async def main() -> None:
        async with make_store(busy_timeout_s=ONE_MOMENT) as db:
            await db.create_session("s")
            await server.ask(f"ALTER TABLE \"{schema}\".messages ADD CHECK (uid <> 'bad')")
            outcomes = await append_all(db, *(("s", uid) for uid in ("1", "bad", "2", "3")))
            assert [isinstance(outcome, StoreError) for outcome in outcomes] == [False, True, False, False]
            assert sorted(await stored(db, "s")) == ["1", "2", "3"]
            [alone] = await append_all(db, ("s", "bad"))
            assert isinstance(alone, StoreError)

    asyncio.run(main())


def test_a_group_whose_backend_is_ended_is_made_again(
    server: Server, make_store: MakeStore, schema: str
) -> None:
    """Nothing of it was committed, so that it may be, and each message is there once."""
    waiting = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"

    async def main() -> None:
        async with make_store(busy_timeout_s=ONE_MOMENT) as db:
            await db.create_session("s")
            async with held(server, schema, "s") as let_go:
                tasks = [
                    asyncio.create_task(db.append_message("s", UserMessage(uid), uid=uid)) for uid in "abc"
                ]
                await server.until(WAITS_FOR_A_LOCK, 1)
                [(first,)] = await server.ask(waiting)
                await server.ask("SELECT pg_terminate_backend(%s)", first)
                await server.until(f"SELECT count(*) = 1 FROM ({waiting}) AS w WHERE pid <> %s", first)
                await let_go()
                seqs = await asyncio.gather(*tasks)
            kept = await db.get_messages("s")
            assert [(row.uid, row.seq) for row in kept] == list(zip("abc", seqs, strict=True))

    asyncio.run(main())


def test_connections_that_died_in_the_pool_are_replaced_for_appends(
    server: Server, make_store: MakeStore
) -> None:
    async def main() -> None:
        async with make_store(busy_timeout_s=ONE_MOMENT) as db:
            await db.create_session("s")
            await append_all(db, ("s", "a"))
            await server.ask(END_ALL, "%")
            outcomes = await append_all(db, ("s", "b"), ("s", "c"))
            assert not any(isinstance(outcome, BaseException) for outcome in outcomes)
            assert await stored(db, "s") == ["a", "b", "c"]

    asyncio.run(main())


@pytest.mark.parametrize("delivered", [True, False])
def test_a_connection_lost_during_the_commit_of_a_group_leaves_no_doubt(
    server: Server, make_store: MakeStore, schema: str, delivered: bool
) -> None:
    async def main() -> None:
        async with make_store(busy_timeout_s=ONE_MOMENT) as other:
            await other.create_session("s")
            async with connection_lost_at_commit(
                server, delivered=delivered, written=b"INSERT INTO messages"
            ) as address:
                async with SessionDB(address, schema=schema, pool_size=1, busy_timeout_s=ONE_MOMENT) as db:
                    outcomes = await append_all(db, *(("s", uid) for uid in "abc"))
                    kept = await other.get_messages("s")
                    if delivered:
                        assert outcomes == [row.seq for row in kept]
                        assert len(kept) == 3
                    else:
                        assert [type(outcome) for outcome in outcomes] == [StoreConnectionError] * 3
                        assert kept == []
                    await append_all(db, *(("s", uid) for uid in "abc"))
                assert await stored(other, "s") == ["a", "b", "c"]

    asyncio.run(main())


def test_appends_wait_for_a_connection_and_not_for_ever(server: Server, schema: str) -> None:
    async def main() -> None:
        store = backend(server, schema, pool_size=1, busy_timeout_s=0.2)
        holder = asyncio.create_task(store.read(sleep))
        await server.until(ASLEEP, SLEEPING)
        appends = [Append("s", PreparedMessage.of(uid, UserMessage("x")), None) for uid in "ab"]
        outcomes = await asyncio.gather(*map(store.write, appends), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [StoreBusyError] * 2
        holder.cancel()
        await asyncio.gather(holder, return_exceptions=True)
        await store.close()

    asyncio.run(main())


def test_a_busy_session_is_found_out_once_for_all_that_wait_behind(
    server: Server, make_store: MakeStore, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than go into one transaction: they do not wait for the lock one group after the other."""
    attempts: list[int] = []
    run = GroupedAppends._do

    async def counted(self: GroupedAppends, lane: Lane, waiting: Any, how: Any) -> Any:
        attempts.append(len(waiting))
        return await run(self, lane, waiting, how)

    async def main() -> None:
        async with make_store(busy_timeout_s=ONE_MOMENT) as patient:
            await patient.create_session("s")
            db = make_store(busy_timeout_s=2.0)
            await answered(lambda: db.get_session("s"))
            async with held(server, schema, "s"):
                await append_all(db, ("s", "first"))
                monkeypatch.setattr(GroupedAppends, "_do", counted)
                outcomes = await append_all(db, *(("s", f"{number}") for number in range(10 * MAX_GROUP)))
            assert {type(outcome) for outcome in outcomes} == {StoreBusyError}
            assert len(attempts) < 5
            await db.close()
            await append_all(patient, ("s", "after"))
            assert await stored(patient, "s") == ["after"]

    asyncio.run(main())


def test_an_append_whose_connection_hangs_holds_up_no_other(
    server: Server, make_store: MakeStore, schema: str
) -> None:
    """Something outside makes one insert wait, for as long as it likes."""

    async def main() -> None:
        async with make_store(busy_timeout_s=ONE_MOMENT) as db:
            for session in ("a", "b"):
                await db.create_session(session)
            await server.ask(
                f"""
                CREATE FUNCTION "{schema}".hang() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF NEW.uid = 'hangs' THEN PERFORM pg_advisory_xact_lock(4711); END IF; RETURN NEW; END $$
                """
            )
            await server.ask(
                f'CREATE TRIGGER hang BEFORE INSERT ON "{schema}".messages '
                f'FOR EACH ROW EXECUTE FUNCTION "{schema}".hang()'
            )
            async with await psycopg.AsyncConnection.connect(server.dsn()) as outside:
                await outside.execute("SELECT pg_advisory_lock(4711)")
                hangs = asyncio.create_task(db.append_message("a", UserMessage("x"), uid="hangs"))
                await server.until(WAITS_FOR_A_LOCK, 1)
                async with asyncio.timeout(ONE_MOMENT):
                    await append_all(db, *(("b", f"{number}") for number in range(20)))
                assert not hangs.done()
                assert len(await stored(db, "b")) == 20
            await hangs
            assert await stored(db, "a") == ["hangs"]

    asyncio.run(main())


def test_closing_lets_waiting_appends_end(server: Server, make_store: MakeStore, schema: str) -> None:
    async def main() -> None:
        db = make_store(busy_timeout_s=ONE_MOMENT)
        for session in ("a", "b"):
            await db.create_session(session)
        async with held(server, schema, "a") as let_go:
            tasks = [
                asyncio.create_task(db.append_message(session, UserMessage("x"), uid=f"{number}"))
                for number in range(70)
                for session in ("a", "b")
            ]
            await server.until(WAITS_FOR_A_LOCK, 1)
            closing = asyncio.create_task(db.close())
            await asyncio.sleep(0)
            await let_go()
            await closing
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        async with make_store() as db:
            kept = [item.seq for session in ("a", "b") for item in await db.get_messages(session)]
        assert {outcome for outcome in outcomes if isinstance(outcome, int)} <= {*kept}
        assert len(kept) == len({*kept})

    asyncio.run(main())


def test_an_append_is_not_taken_back_for_ever(
    server: Server, make_store: MakeStore, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others that wait with it are cancelled; at last it waits alone."""
    monkeypatch.setattr("hermes_store.postgres_appends.MOST_STOPS", 0)

    async def main() -> None:
        async with make_store(busy_timeout_s=ONE_MOMENT) as db:
            await db.create_session("s")
            async with held(server, schema, "s") as let_go:
                patient = asyncio.create_task(db.append_message("s", UserMessage("x"), uid="patient"))
                other = asyncio.create_task(db.append_message("s", UserMessage("x"), uid="other"))
                await server.until(WAITS_FOR_A_LOCK, 1)
                other.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await other
                await server.until(WAITS_FOR_A_LOCK, 1)
                assert not patient.done()
                await let_go()
                await patient
            assert await stored(db, "s") == ["patient"]

    asyncio.run(main())


def test_appends_outlive_a_worker_that_somebody_cancels(make_store: MakeStore) -> None:
    """Before it begins, and while it works: what it had taken is cancelled, the rest goes on."""

    async def main() -> None:
        async with make_store(pool_size=1, busy_timeout_s=ONE_MOMENT) as db:
            await db.create_session("s")
            await append_all(db, ("s", "0"))
            before = asyncio.all_tasks()
            for turns in (0, 1, 2, 3):
                first = asyncio.create_task(db.append_message("s", UserMessage("x"), uid=f"first {turns}"))
                await asyncio.sleep(0)
                for _ in range(turns):
                    await asyncio.sleep(0)
                second = asyncio.create_task(db.append_message("s", UserMessage("x"), uid=f"second {turns}"))
                await asyncio.sleep(0)
                for task in asyncio.all_tasks() - before - {first, second}:
                    task.cancel()
                async with asyncio.timeout(ONE_MOMENT):
                    outcomes = await asyncio.gather(first, second, return_exceptions=True)
                kept = await stored(db, "s")
                for uid, outcome in zip(("first", "second"), outcomes, strict=True):
                    assert isinstance(outcome, asyncio.CancelledError) or f"{uid} {turns}" in kept
            await append_all(db, ("s", "last"))
            assert (await stored(db, "s"))[-1] == "last"

    asyncio.run(main())
