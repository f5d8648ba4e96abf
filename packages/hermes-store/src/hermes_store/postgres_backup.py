"""A copy of a PostgreSQL database as a SQLite file of the store's own: what `backup()` gives there.

Both keep the same columns under the same escape rule, so rows go over as they are, keys and numbers included.
All tables are read in one snapshot; what is in memory at a time is some rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from psycopg import AsyncConnection, IsolationLevel

from hermes_store.backend import Backend, Operation, Row, SqlValue, Statement
from hermes_store.migrations import COLUMNS

__all__ = ["copy_into"]

TABLES = (
    "system_prompts",
    "sessions",
    "messages",
    "suspended_rounds",
    "session_state",
    "calls",
    "leases",
    "lease_tickets",
)
"""So ordered that every row finds what it refers to. The index is built anew; `settings` are SQLite's."""

ROWS_AT_ONCE = 100
_FETCH = f"FETCH FORWARD {ROWS_AT_ONCE} FROM backup".encode()


async def copy_into(connection: AsyncConnection[Row], target: Backend, schema: str) -> None:
    """Copy `schema`, as one transaction sees it, into `target`, which is new. Others go on writing.

    Raises `psycopg.Error`, `StoreError`.
    """
    await connection.set_isolation_level(IsolationLevel.REPEATABLE_READ)
    await connection.set_read_only(True)
    for table in TABLES:
        read = f'SELECT {COLUMNS[table]} FROM "{schema}".{table}'  # noqa: S608 - ours
        await _carry(connection, read, target, partial(_insert, table))
    read = f'SELECT name, value FROM "{schema}".counters'  # noqa: S608 - ours
    await _carry(connection, read, target, _set_counters)
    await connection.rollback()
    await target.rebuild_search_index()


async def _carry(
    connection: AsyncConnection[Row],
    read: str,
    target: Backend,
    insert: Callable[[Sequence[Row]], Operation[None]],
) -> None:
    """Write the rows that `read` gives into `target`, some at a time.

    The server's cursor has no object here that would need closing: it ends with the transaction.
    """
    await connection.execute(f"DECLARE backup NO SCROLL CURSOR FOR {read}".encode())
    while rows := await (await connection.execute(_FETCH)).fetchall():
        await target.write(partial(insert, rows))
    await connection.execute(b"CLOSE backup")


def _insert(table: str, rows: Sequence[Row]) -> Operation[None]:
    columns = COLUMNS[table]
    places = ", ".join("?" * len(columns.split(",")))
    for row in rows:
        values = cast("tuple[SqlValue, ...]", row)
        yield Statement(f"INSERT INTO {table} ({columns}) VALUES ({places})", values)  # noqa: S608 - ours


def _set_counters(rows: Sequence[Row]) -> Operation[None]:
    for name, value in rows:
        if name != "indexed":
            yield Statement("INSERT OR REPLACE INTO counters (name, value) VALUES (?, ?)", (name, value))
