"""One transaction on PostgreSQL: an operation's statements, awaited one by one, under the locks it needs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Generic, Literal, TypeAlias, TypeVar

import psycopg
from psycopg import AsyncConnection, AsyncCursor, AsyncPipeline, IsolationLevel
from psycopg.pq import PipelineStatus, TransactionStatus

from hermes_messages import StoreSchemaError
from hermes_store import postgres_dialect as dialect
from hermes_store.backend import DIALECT, INDEX_READY, NOW, ON_SESSION, Operation, Row, SqlValue, Statement
from hermes_store.escaping import escape
from hermes_store.operations.messages import Append
from hermes_store.postgres_answers import answered_within
from hermes_store.postgres_schema import VERSION
from hermes_store.postgres_search import BESIDE_OTHERS

__all__ = ["Call", "IndexBrokenError", "NotAppended", "Transaction", "undo"]

T = TypeVar("T")
logger: logging.Logger = logging.getLogger(__name__)

NotAppended: TypeAlias = Literal["nothing added", "session held"]
"""The message is there, or may not be; or nobody looked, since another transaction has its session."""

ROWS_AT_ONCE = 200
UNDO_S = 2.0
"""How long a rollback may take before the connection is given up; the server then rolls back by itself."""


class IndexBrokenError(Exception):
    """The search index failed; the base tables are not concerned. Never leaves the back end."""


class Call(Generic[T]):
    """What somebody wants done in a transaction, until when it may wait for locks, and how far it is."""

    __slots__ = ("deadline", "has_begun", "is_committing", "uses_index", "work", "writes")

    def __init__(
        self,
        work: Callable[[Transaction], Awaitable[T]],
        deadline: float,
        *,
        writes: bool,
        uses_index: bool,
    ) -> None:
        self.work: Callable[[Transaction], Awaitable[T]] = work
        self.deadline: float = deadline
        self.writes: bool = writes
        self.uses_index: bool = uses_index
        self.has_begun: bool = False
        self.is_committing: bool = False


class Transaction:
    """A transaction on a connection, not begun yet. Used once.

    A read sees one snapshot. A write sees what is committed at each of its statements, and holds locks under
    which nobody changes what it looks at.
    """

    def __init__(
        self, connection: AsyncConnection[Row], *, writes: bool, uses_index: bool, answer_s: float
    ) -> None:
        self.connection: AsyncConnection[Row] = connection
        self._answer_s = answer_s
        self.number: str | None = None
        """The server's number for it, by which its outcome can be asked for later."""
        self.has_begun: bool = False
        """Whether the server answered any statement of it."""
        self._writes = writes
        self._uses_index = uses_index
        self._now = 0.0
        self._locked: str | None = None

    async def run(self, operation: Callable[[], Operation[T]]) -> T:
        """Run the operation; the caller commits. Raises `psycopg.Error`, `IndexBrokenError`."""
        await self._set_up()
        return await _drive(operation(), self._execute)

    async def append_all(self, appends: Sequence[Append], *, waits: bool) -> list[int | NotAppended]:
        """Append messages, in order; the caller commits. The sequence number of each, or why it has none.

        With `waits` all are of one session, whose lock is waited for; else sessions whose lock another
        transaction has are left out. Raises `psycopg.Error`, `StoreSchemaError`.
        """
        if not self.connection.autocommit:  # else the driver waits for the answer to its BEGIN
            await self.connection.set_autocommit(True)
        ids = [escape(append.session_id) for append in appends]
        rows = [(append.message.uid, *append.message.columns) for append in appends]
        numbers = [None if append.token is None else append.token.number for append in appends]
        lock, values = (dialect.LINEAGE, (ids[0], ids[0])) if waits else (dialect.LINEAGES_IF_FREE, (ids,))
        with answered_within(self.connection, self._answer_s):
            async with _in_one_trip(self.connection):
                await self.connection.execute(dialect.BEGIN)
                locked = await self.connection.execute(lock, values)
                inserted = await self.connection.execute(
                    dialect.APPEND_ALL, (ids, *map(list, zip(*rows, strict=True)), numbers)
                )
        self.has_begun = True
        [(now, number, version, *free)] = await locked.fetchall()
        self._note(now, number, version)
        seqs = {(id_, uid): seq for seq, id_, uid in await inserted.fetchall()}
        return [
            # Taken out: who comes with the same uid in the same group added nothing.
            seqs.pop((id_, append.message.uid), "nothing added")
            if waits or place in free[0]
            else "session held"
            for place, (id_, append) in enumerate(zip(ids, appends, strict=True), 1)
        ]

    async def _set_up(self) -> None:
        if self.connection.autocommit:
            await self.connection.set_autocommit(False)
        level = IsolationLevel.READ_COMMITTED if self._writes else IsolationLevel.REPEATABLE_READ
        if self.connection.isolation_level != level:
            await self.connection.set_isolation_level(level)
        # None, not False: a server or user that is set up to read only stays so.
        read_only = None if self._writes else True
        if self.connection.read_only != read_only:
            await self.connection.set_read_only(read_only)

    async def _execute(self, statement: Statement) -> list[Row]:
        if statement.only == "sqlite" or (statement.index and statement.only is None):
            return []
        if statement is DIALECT:
            return [("postgres",)]
        if statement is INDEX_READY:
            return []
        if self._writes and await self._lock(statement):
            return []
        if statement.sql is ON_SESSION:
            return []
        if statement is NOW:
            return [(self._now,)] if self._writes else await self._send(dialect.CLOCK, ())
        if statement.index:
            return await self._ask_index(statement)
        return await self._send(dialect.to_postgres(statement.sql), statement.values)

    async def _lock(self, statement: Statement) -> bool:
        """Take the locks that the transaction's first statement calls for. Whether that was all it said."""
        if statement.sql is ON_SESSION:
            id_ = escape(str(statement.values[0]))
            if self._locked not in (id_, dialect.ALONE):
                await self._take(dialect.LINEAGE, (id_, id_))
                self._locked = id_
            return True
        if self._locked is None:
            how = dialect.BESIDE_OTHERS if statement is BESIDE_OTHERS else dialect.ALONE
            await self._take(how, ())
            self._locked = how
        return statement is BESIDE_OTHERS

    async def _take(self, sql: str, values: tuple[SqlValue, ...]) -> None:
        [(now, number, version)] = await self._send(sql, values)
        self._note(now, number, version)

    def _note(self, now: float, number: str, version: int) -> None:
        """What the server answers once it has the locks."""
        self._now, self.number = now, number
        if version != VERSION:
            raise StoreSchemaError(
                f"another program gave the database schema version {version}, this hermes-store "
                f"knows {VERSION}; nothing was written. Install a newer hermes-store"
            )

    async def _ask_index(self, statement: Statement) -> list[Row]:
        if not self._uses_index:
            return []
        try:
            return await self._send(dialect.to_postgres(statement.sql), statement.values)
        except (psycopg.ProgrammingError, psycopg.DataError, psycopg.InternalError) as error:
            raise IndexBrokenError from error

    async def _send(self, sql: str, values: tuple[SqlValue, ...]) -> list[Row]:
        with answered_within(self.connection, self._answer_s):
            cursor = await self.connection.execute(sql, values)
        self.has_begun = True
        return await _rows_of(cursor) if cursor.description is not None else []

    async def commit(self) -> None:
        """Commit. Raises `psycopg.Error`."""
        with answered_within(self.connection, self._answer_s):
            await self.connection.commit()


async def _rows_of(cursor: AsyncCursor[Row]) -> list[Row]:
    """All rows, made some at a time: to make those of a long transcript takes the loop long."""
    rows: list[Row] = []
    while part := await cursor.fetchmany(ROWS_AT_ONCE):
        rows += part
        if len(part) < ROWS_AT_ONCE:
            break
        await asyncio.sleep(0)
    return rows


@asynccontextmanager
async def _in_one_trip(connection: AsyncConnection[Row]) -> AsyncIterator[None]:
    """Send the statements of the block together, where the driver's libpq can (14 or newer)."""
    if not AsyncPipeline.is_supported():
        yield
        return
    try:
        async with connection.pipeline():
            yield
    except BaseException:
        if not connection.closed and connection.pgconn.pipeline_status != PipelineStatus.OFF:
            await connection.close()  # answers are still to come; the server rolls back
        raise


async def undo(connection: AsyncConnection[Row]) -> None:
    """End whatever the connection is in the middle of: by a rollback, or else by closing it."""
    if connection.closed or connection.info.transaction_status == TransactionStatus.IDLE:
        return
    try:
        async with asyncio.timeout(UNDO_S):
            await connection.rollback()
    except (psycopg.Error, TimeoutError) as error:
        logger.warning("a connection that could not roll back is given up: %s", error)
        await connection.close()
    except asyncio.CancelledError:
        await connection.close()
        raise


async def _drive(operation: Operation[T], execute: Callable[[Statement], Awaitable[list[Row]]]) -> T:
    """Run `operation` to its end with `execute`. An exception of `execute` ends it and is raised."""
    try:
        statement = next(operation)
        while True:
            rows = await execute(statement)
            statement = operation.send(rows)
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        operation.close()
