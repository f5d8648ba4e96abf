"""Connections that die, servers that stop, conflicts, a broken index: typed errors, nothing by halves."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import psycopg
import pytest

from hermes_messages import StoreBusyError, StoreError, StoreSchemaError, UserMessage
from hermes_store import (
    SessionDB,
    StoreConnectionError,
    StoreCorruptError,
    StoreFullError,
    StoreReadOnlyError,
)
from hermes_store.backend import Operation, Statement, on_session
from hermes_store.postgres import Dsn, PostgresBackend, PostgresOptions
from hermes_store.postgres_errors import to_store_error
from postgres.backends import (
    ASLEEP,
    COMMITTING,
    PATIENCE_S,
    SLEEPING,
    answered,
    backend,
    count,
    insert,
    sleep,
    slow_commits,
)
from postgres.server import MakeStore, Server

END_ALL = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = 'postgres' AND pid <> pg_backend_pid() AND query LIKE %s
"""


def test_a_backend_ended_in_the_middle_of_a_write(server: Server, schema: str) -> None:
    async def main() -> None:
        store = backend(server, schema)
        task = asyncio.create_task(store.write(partial(insert, "x", sleeps=True)))
        await server.until(ASLEEP, SLEEPING)
        await server.ask(END_ALL, SLEEPING)
        with pytest.raises(StoreConnectionError, match="Nothing of this call was kept"):
            await task
        assert await store.read(partial(count, "x")) == 0
        await store.write(partial(insert, "x"))
        assert await store.read(partial(count, "x")) == 1
        await store.close()

    asyncio.run(main())


def test_connections_that_died_in_the_pool_are_replaced_unseen(server: Server, schema: str) -> None:
    async def main() -> None:
        store = backend(server, schema, pool_size=4)
        tasks = [asyncio.create_task(store.read(sleep)) for _ in range(4)]
        await server.until("SELECT count(*) = 4 FROM pg_stat_activity WHERE query LIKE %s", SLEEPING)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.ask(END_ALL, "%")
        await store.write(partial(insert, "x"))
        assert await asyncio.gather(*(store.read(partial(count, "x")) for _ in range(8))) == [1] * 8
        await store.close()

    asyncio.run(main())


def test_a_server_that_stops_and_comes_back(server: Server, make_store: MakeStore) -> None:
    async def main() -> None:
        async with make_store(busy_timeout_s=2.0) as db:
            await answered(lambda: db.create_session("s"))
            await answered(lambda: db.append_message("s", UserMessage("before"), uid="before"))
            server.stop(signal.SIGINT)
            try:
                for _ in range(2):
                    async with asyncio.timeout(PATIENCE_S):
                        with pytest.raises(StoreConnectionError):
                            await db.append_message("s", UserMessage("lost"))
            finally:
                server.start()
            await answered(lambda: db.append_message("s", UserMessage("after"), uid="after"))
            stored = [item.message for item in await answered(lambda: db.get_messages("s"))]
            assert stored == [UserMessage("before"), UserMessage("after")]

    asyncio.run(main())


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
def test_a_server_restarted_under_many_writers_loses_and_repeats_nothing(
    server: Server, make_store: MakeStore, how: signal.Signals
) -> None:
    """Each writer repeats what failed under the same uid, as a program does that was told to try again."""
    writers, least = 8, 25

    async def main() -> None:
        acknowledged: list[str] = []
        failures: list[StoreError] = []
        stop = asyncio.Event()

        async def write(db: SessionDB, name: int) -> int:
            number = 0
            while not stop.is_set():
                uid = f"{name}-{number}"
                try:
                    await db.append_message("s", UserMessage(uid), uid=uid)
                except StoreError as error:
                    failures.append(error)
                    await asyncio.sleep(0.05)
                else:
                    acknowledged.append(uid)
                    number += 1
            return number

        async def grown_by(count: int) -> None:
            wanted = len(acknowledged) + count
            async with asyncio.timeout(PATIENCE_S):
                while len(acknowledged) < wanted:  # noqa: ASYNC110 - the writers tell nobody
                    await asyncio.sleep(0.005)

        async with make_store(busy_timeout_s=1.0) as db:
            await answered(lambda: db.create_session("s"))
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(write(db, name)) for name in range(writers)]
                await grown_by(least)
                server.stop(how)
                server.start()
                await grown_by(least)
                stop.set()
            stored = [item.uid for item in await answered(lambda: db.get_messages("s"))]
            assert sorted(acknowledged) == sorted(stored)
            for name, task in enumerate(tasks):
                own = [uid for uid in stored if uid.startswith(f"{name}-")]
                assert own == [f"{name}-{number}" for number in range(task.result())]
            assert all(isinstance(error, StoreConnectionError | StoreBusyError) for error in failures)

    asyncio.run(main())


def test_a_backend_ended_during_its_commit_has_kept_nothing(server: Server, schema: str) -> None:
    async def main() -> None:
        store = backend(server, schema, pool_size=1)
        await store.read(partial(count, "x"))
        await slow_commits(server, schema, 30)
        task = asyncio.create_task(store.write(partial(insert, "x")))
        await server.until(ASLEEP, COMMITTING)
        await server.ask(END_ALL, COMMITTING)
        with pytest.raises(StoreConnectionError, match="Nothing of this call was kept"):
            await task
        assert await store.read(partial(count, "x")) == 0
        await store.close()

    asyncio.run(main())


@asynccontextmanager
async def connection_lost_at_commit(
    server: Server,
    *,
    delivered: bool,
    meanwhile: Callable[[], Awaitable[None]] | None = None,
    written: bytes = b"INSERT INTO counters",
) -> AsyncIterator[str]:
    """The address of a relay to the server that breaks once, at the commit after something was `written`:
    with the commit delivered and the answer not, or before. The client learns of it after `meanwhile`."""
    broken = False
    relays: set[asyncio.Task[None]] = set()

    async def relay(client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        nonlocal broken
        here = asyncio.current_task()
        assert here is not None
        relays.add(here)
        upstream, to_server = await asyncio.open_connection("127.0.0.1", server.port)
        answers = asyncio.create_task(copy(upstream, to_client))
        has_written = False
        try:
            while data := await client.read(65536):
                has_written = has_written or written in data
                if has_written and b"COMMIT\x00" in data and not broken:
                    broken = True
                    answers.cancel()
                    await asyncio.gather(answers, return_exceptions=True)
                    if delivered:
                        to_server.write(data)
                        await to_server.drain()
                        await upstream.read(65536)
                    if meanwhile is not None:
                        await meanwhile()
                    break
                to_server.write(data)
                await to_server.drain()
        finally:
            answers.cancel()
            await asyncio.gather(answers, return_exceptions=True)
            for writer in (to_client, to_server):
                writer.transport.abort()
                await asyncio.gather(writer.wait_closed(), return_exceptions=True)

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
        target.write_eof()

    listener = await asyncio.start_server(relay, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    try:
        yield server.dsn(sslmode="disable", gssencmode="disable").replace(f":{server.port}/", f":{port}/")
        assert broken
    finally:
        listener.close()
        await listener.wait_closed()
        await asyncio.wait(relays, timeout=PATIENCE_S)  # each ends with its client


@pytest.mark.parametrize("delivered", [True, False])
def test_a_connection_lost_during_the_commit_leaves_no_doubt(
    server: Server, schema: str, delivered: bool
) -> None:
    """The server knows by the transaction's number what became of it."""

    async def main() -> None:
        other = backend(server, schema)
        await other.read(partial(count, "x"))
        async with connection_lost_at_commit(server, delivered=delivered) as address:
            store = PostgresBackend(
                Dsn(address), PostgresOptions(schema=schema, pool_size=1, busy_timeout_s=PATIENCE_S)
            )
            broken: list[StoreError] = []
            try:
                await store.write(partial(insert, "y"))
            except StoreConnectionError as error:
                broken.append(error)
            assert await other.read(partial(count, "y")) == (0 if broken else 1)
            assert bool(broken) is not delivered
            await store.write(partial(insert, "z"))
            await store.close()
        await other.close()

    asyncio.run(main())


@pytest.mark.parametrize("restarted", [True, False])
def test_a_number_that_another_transaction_got_after_a_crash_tells_nothing(
    server: Server, schema: str, restarted: bool
) -> None:
    """The server forgets numbers that it gave out shortly before a crash, and gives them out again: another
    transaction of that number may be committed where ours was lost."""

    async def next_number() -> int:
        return int((await server.ask("SELECT pg_current_xact_id()::text"))[0][0])

    async def main() -> None:
        other = backend(server, schema)
        await other.read(partial(count, "x"))
        await other.close()
        number = await next_number()

        async def crash() -> None:
            if restarted:
                server.stop(signal.SIGQUIT)
                server.start()
            else:
                await server.crash()
            while await next_number() < number + 20:
                pass

        async with connection_lost_at_commit(server, delivered=False, meanwhile=crash) as address:
            store = PostgresBackend(
                Dsn(address), PostgresOptions(schema=schema, pool_size=1, busy_timeout_s=PATIENCE_S)
            )
            with pytest.raises(StoreConnectionError):
                await store.write(partial(insert, "y"))
            assert await store.read(partial(count, "y")) == 0
            await store.close()

    asyncio.run(main())


def conflict(state: str, attempts: list[str], *, times: int) -> Operation[None]:
    attempts.append(state)
    yield on_session("s")
    yield Statement("INSERT INTO counters (name, value) VALUES (?, 1)", (f"{times} {len(attempts)}",))
    if len(attempts) <= times:
        yield Statement(f"DO $$ BEGIN RAISE EXCEPTION 'a conflict' USING ERRCODE = '{state}'; END $$")


@pytest.mark.parametrize("state", ["40001", "40P01"])
def test_conflicts_are_tried_again_and_not_for_ever(server: Server, schema: str, state: str) -> None:
    async def main() -> None:
        store = backend(server, schema)
        attempts: list[str] = []
        await store.write(lambda: conflict(state, attempts, times=2))
        assert len(attempts) == 3
        assert [await store.read(partial(count, f"2 {number}")) for number in (1, 2, 3)] == [0, 0, 1]
        await store.close()
        for limit_s in (0.3, 3.0, 30.0):
            store = backend(server, schema, busy_timeout_s=limit_s)
            await answered(partial(store.read, partial(count, "x")))
            attempts = []
            with pytest.raises(StoreBusyError, match="a conflict"):
                await store.write(partial(conflict, state, attempts, times=10_000))
            await store.close()
            if len(attempts) > 3:
                break
        assert 3 < len(attempts) < 100

    asyncio.run(main())


def test_operations_that_wait_for_each_other_both_end_well(server: Server, schema: str) -> None:
    """A deadlock: each has a session and wants the other's."""

    def both(first: str, second: str, arrived: Callable[[], bool]) -> Operation[None]:
        yield on_session(first)
        while not arrived():
            yield Statement("SELECT pg_sleep(0.02)")
        yield on_session(second)
        yield Statement("UPDATE counters SET value = value + 1 WHERE name = 'ticket'")

    async def main() -> None:
        store = backend(server, schema)
        began: set[str] = set()

        def arrived(name: str) -> bool:
            began.add(name)
            return len(began) == 2

        await asyncio.gather(
            store.write(lambda: both("a", "b", lambda: arrived("a"))),
            store.write(lambda: both("b", "a", lambda: arrived("b"))),
        )
        rows = await server.ask(f"SELECT value FROM \"{schema}\".counters WHERE name = 'ticket'")
        assert rows == [(2,)]
        await store.close()

    asyncio.run(main())


def test_a_broken_index_blocks_no_write_and_searches_scan(
    server: Server, make_store: MakeStore, schema: str
) -> None:
    async def main() -> None:
        async with make_store() as db:
            await db.create_session("s")
            await db.append_message("s", UserMessage("the first stork"))
            assert len(await db.search_messages("stork")) == 1
            await server.ask(f'DROP TABLE "{schema}".message_index')
            await db.append_message("s", UserMessage("the second stork"))
            assert len(await db.search_messages("stork")) == 2
            assert any("message_index" in line for line in await db.check_integrity())
            await db.rebuild_search_index()
            assert len(await db.search_messages("stork")) == 2
            assert await db.check_integrity() == []
            await db.vacuum()

    asyncio.run(main())


def test_who_may_not_write_is_told_so(server: Server, make_store: MakeStore, schema: str) -> None:
    async def main() -> None:
        async with make_store() as db:
            await db.create_session("s")
        await server.ask(f"CREATE ROLE reader_{schema} LOGIN PASSWORD 'pw'")
        await server.ask(f'GRANT USAGE ON SCHEMA "{schema}" TO reader_{schema}')
        await server.ask(f'GRANT SELECT ON ALL TABLES IN SCHEMA "{schema}" TO reader_{schema}')
        address = f"postgresql://reader_{schema}:pw@127.0.0.1:{server.port}/postgres"
        async with SessionDB(address, schema=schema) as db:
            assert await db.get_session("s") is not None
            with pytest.raises(StoreReadOnlyError, match="permission denied"):
                await db.append_message("s", UserMessage("x"))
        with pytest.raises(StoreReadOnlyError, match="permission denied"):
            async with SessionDB(address, schema=f"{schema}_other"):
                pass
        await server.ask(f"ALTER ROLE reader_{schema} SET default_transaction_read_only = on")
        async with SessionDB(address, schema=schema) as db:
            with pytest.raises(StoreReadOnlyError, match="read-only"):
                await db.append_message("s", UserMessage("x"))
        async with make_store(read_only=True) as db:
            assert await db.get_messages("s") == []
            for write in (db.append_message("s", UserMessage("x")), db.vacuum()):
                with pytest.raises(StoreReadOnlyError, match="read_only=True"):
                    await write

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (psycopg.errors.DiskFull("no room"), StoreFullError),
        (psycopg.errors.OutOfMemory("no memory"), StoreFullError),
        (psycopg.errors.TooManyConnections("no slot"), StoreBusyError),
        (psycopg.errors.LockNotAvailable("held"), StoreBusyError),
        (psycopg.errors.CannotConnectNow("starts up"), StoreBusyError),
        (psycopg.errors.AdminShutdown("stops"), StoreConnectionError),
        (psycopg.errors.IdleInTransactionSessionTimeout("stood still"), StoreConnectionError),
        (psycopg.OperationalError("server closed the connection unexpectedly"), StoreConnectionError),
        (psycopg.errors.DataCorrupted("page"), StoreCorruptError),
        (psycopg.errors.ReadOnlySqlTransaction("standby"), StoreReadOnlyError),
        (psycopg.errors.UndefinedTable("gone"), StoreSchemaError),
        (psycopg.errors.CheckViolation("odd"), StoreError),
    ],
)
def test_what_the_servers_errors_mean(error: psycopg.Error, kind: type[StoreError]) -> None:
    told = to_store_error(error, Dsn("postgresql://ann:secret@host/db"))
    assert type(told) is kind
    assert "postgresql://ann@host/db" in str(told)
