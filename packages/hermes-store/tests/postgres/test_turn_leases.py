"""One writer at a time, by the server's clock, with the token checked in the transaction of the write."""

import asyncio
import re
from functools import partial

import psycopg
import pytest

from hermes_messages import AssistantMessage, LeaseLostError, ToolCall, ToolMessage, UserMessage
from hermes_store import SessionDB
from hermes_store.backend import Operation, Row, SqlValue, Statement
from hermes_store.methods import turn_leases
from hermes_store.operations import leases
from hermes_store.operations.access import open_for_writing
from hermes_store.postgres_transaction import Transaction
from postgres.backends import ASLEEP, backend
from postgres.server import MakeStore, Server

ROUND = AssistantMessage(tool_calls=(ToolCall("a", "f", "{}"),))


def test_a_late_writer_changes_nothing(server: Server, make_store: MakeStore, schema: str) -> None:
    async def main() -> None:
        async with make_store() as old, make_store() as new:
            await old.create_session("s")
            late = await old.try_acquire_session_turn_lease("s", "old", 60)
            assert late is not None
            assert await new.try_acquire_session_turn_lease("s", "new", 60) is None
            round_ = await old.begin_tool_round("s", "r", ROUND, lease=late)
            # The server's clock passes the end of the lease, whatever clock this machine has.
            await server.ask(f'UPDATE "{schema}".leases SET expires_at = expires_at - 61')
            await old.append_message("s", UserMessage("nobody took it"), lease=late)
            held = await new.try_acquire_session_turn_lease("s", "new", 60)
            assert held is not None
            assert held.number > late.number
            before = await new.get_messages("s")
            for lease in (late, None):
                for write in (
                    old.append_message("s", UserMessage("late"), lease=lease),
                    old.begin_tool_round("s", "r2", ROUND, lease=lease),
                    old.set_tool_result(round_, 0, ToolMessage("a", "late"), lease=lease),
                    old.close_open_rounds("s", lease=lease),
                    old.delete_session("s", lease=lease),
                ):
                    with pytest.raises(LeaseLostError):
                        await write
            with pytest.raises(LeaseLostError):
                await old.refresh_session_turn_lease(late, 60)
            assert await new.get_messages("s") == before
            await new.append_message("s", UserMessage("in time"), lease=held)
            await old.release_session_turn_lease(late)
            assert await old.try_acquire_session_turn_lease("s", "third", 60) is None

    asyncio.run(main())


def test_a_lease_can_not_be_taken_between_the_check_and_the_commit(
    server: Server, make_store: MakeStore, schema: str
) -> None:
    """The write that passed the check is committed before another holder has the lease."""

    def slow_write() -> Operation[None]:
        session = yield from open_for_writing("s", None)
        yield Statement("SELECT pg_sleep(0.5)")
        yield Statement(
            "INSERT INTO messages (session, uid, role, shape, text, body, created_at) "
            "VALUES (?, 'slow', 'user', 0, '', '{\"role\":\"user\",\"content\":\"slow\"}', ?)",
            (session.key, session.now),
        )

    async def main() -> None:
        store = backend(server, schema)
        async with make_store() as db:
            await db.create_session("s")
            await db.create_session("other")
            write = asyncio.create_task(store.write(slow_write))
            await server.until(ASLEEP, "SELECT pg_sleep(0.5)%")
            # Another lineage waits for nobody.
            assert await db.try_acquire_session_turn_lease("other", "b", 60) is not None
            assert not write.done()
            assert await db.try_acquire_session_turn_lease("s", "b", 60) is not None
            assert [item.uid for item in await db.get_messages("s")] == ["slow"]
            await write
            with pytest.raises(LeaseLostError):
                await store.write(slow_write)
        await store.close()

    asyncio.run(main())


def test_holders_that_ask_at_once_on_many_connections(make_store: MakeStore) -> None:
    async def main() -> None:
        stores = [make_store(pool_size=2) for _ in range(4)]
        for _ in range(10):
            answers = await asyncio.gather(
                *(db.try_acquire_session_turn_lease("s", f"h{i}", 60) for i, db in enumerate(stores))
            )
            held = [answer for answer in answers if answer is not None]
            assert len(held) == 1
            await stores[0].release_session_turn_lease(held[0])
        for db in stores:
            await db.close()

    asyncio.run(main())


def test_an_operation_that_names_no_session_runs_alone(server: Server, schema: str) -> None:
    """Read, think, write: without a lock of its own two of these would lose a count."""

    def count_up() -> Operation[None]:
        [(value,)] = yield Statement("SELECT value FROM counters WHERE name = 'ticket'")
        yield Statement("SELECT pg_sleep(0.005)")
        yield Statement("UPDATE counters SET value = ? WHERE name = 'ticket'", (value + 1,))

    def value() -> Operation[int]:
        [(number,)] = yield Statement("SELECT value FROM counters WHERE name = 'ticket'")
        return int(number)

    async def main() -> None:
        stores = [backend(server, schema, pool_size=4) for _ in range(2)]
        await asyncio.gather(*(store.write(partial(count_up)) for store in stores for _ in range(10)))
        assert await stores[0].read(value) == 20
        for store in stores:
            await store.close()

    asyncio.run(main())


TYPES = {"number": "bigint", "expires_at": "float8", "lineage": "text", "holder": "text"}
MANY_TICKETS = """
INSERT INTO "{schema}".lease_tickets (number, lineage, holder, expires_at)
SELECT n, 's' || mod(n, 10), 'h' || n, 1e12 FROM generate_series(1000001, 1001000) AS n
"""


def test_a_statement_about_tickets_reads_the_whole_table(
    server: Server, make_store: MakeStore, schema: str
) -> None:
    """Each finds its one row through an index, also in the plan that is made without the values."""

    async def main() -> None:
        async with make_store() as db:
            await db.create_session("s")
        await server.ask(MANY_TICKETS.format(schema=schema))
        await server.ask(f'ANALYZE "{schema}".lease_tickets')
        async with await psycopg.AsyncConnection.connect(server.dsn()) as connection:
            await connection.execute(f'SET search_path = "{schema}"')
            await connection.execute("SET plan_cache_mode = force_generic_plan")
            for number, sql in enumerate(leases.TICKET_STATEMENTS):
                if sql.startswith("INSERT"):
                    continue
                types = [TYPES[name] for name in re.findall(r"(\w+) (?:=|>|<=) \?", sql)]
                for place, _ in enumerate(types, 1):
                    sql = sql.replace("?", f"${place}", 1)  # noqa: PLW2901 - as PREPARE reads it
                await connection.execute(f"PREPARE p{number} ({', '.join(types)}) AS {sql}".encode())
                values = ", ".join("NULL" for _ in types)
                cursor = await connection.execute(f"EXPLAIN EXECUTE p{number} ({values})".encode())
                plan = "\n".join(row[0] for row in await cursor.fetchall())
                assert "Index Scan" in plan, plan
                assert "Seq Scan" not in plan, plan
                assert "Sort" not in plan, plan

    asyncio.run(main())


def test_turns_that_wait_ask_the_server_for_each_other(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What six times as many turns send, one after the other, is six times as much."""
    monkeypatch.setattr(turn_leases, "FIRST_PAUSE_S", 3600.0)
    monkeypatch.setattr(turn_leases, "LONGEST_PAUSE_S", 3600.0)
    monkeypatch.setattr(leases, "TICKET_TTL_S", 3600.0)
    sent = 0
    send = Transaction._send

    async def counting(self: Transaction, sql: str, values: tuple[SqlValue, ...]) -> list[Row]:
        nonlocal sent
        sent += 1
        return await send(self, sql, values)

    async def turn(db: SessionDB, number: int) -> None:
        lease = await db.acquire_session_turn_lease("s", str(number), 3600)
        while (line := db._lines.get("s")) and line.ticket is None:  # noqa: ASYNC110 - in a database
            await asyncio.sleep(0.001)
        await db.release_session_turn_lease(lease)

    async def cost(db: SessionDB, turns: int) -> int:
        """Of `turns` that wait until one before them is done."""
        nonlocal sent
        held = await db.acquire_session_turn_lease("s", "holder", 3600)
        sent = 0
        tasks = [asyncio.create_task(turn(db, number)) for number in range(turns)]
        while (line := db._lines.get("s")) is None or line.ticket is None:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.001)
        await db.release_session_turn_lease(held)
        await asyncio.gather(*tasks)
        return sent

    async def main() -> None:
        monkeypatch.setattr(Transaction, "_send", counting)
        async with make_store(search_index=False) as db:
            one, five, many = [await cost(db, turns) for turns in (1, 5, 25)]
        assert many - one == 6 * (five - one)

    asyncio.run(main())
