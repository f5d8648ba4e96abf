"""Units of work on the connection's thread: one operation each, coinciding writes in one commit.

A unit stands in a queue until somebody takes it out: the thread, to run it, or its caller, who was cancelled
before it began. Whoever takes it out owns it; that is all the locking there is. A unit that the thread owns
runs to its end, so its outcome is always known: committed, or nothing.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections import deque
from collections.abc import Callable
from itertools import groupby
from typing import Any, Generic, TypeVar

from msgspec import Struct

from hermes_messages import StoreSchemaError
from hermes_store.backend import (
    DIALECT,
    INDEX_READY,
    NOW,
    ON_SESSION,
    OneInsert,
    Operation,
    Row,
    Statement,
    drive,
    without_returning,
)
from hermes_store.connection import hand_over
from hermes_store.errors import StoreClosedError
from hermes_store.migrations import MARK_INDEX_STALE
from hermes_store.operations.search import take_in
from hermes_store.sqlite_errors import is_busy, primary_code
from hermes_store.sqlite_file import WatchedFile

__all__ = ["Unit", "UnitQueue", "deliver"]

T = TypeVar("T")
logger: logging.Logger = logging.getLogger(__name__)

MAX_GROUP = 64
"""Writes that share one commit at most: bounds the time for which a group holds the write lock."""
WRITES_BEFORE_INDEXING = 256
"""Writes after which the search index is brought up to date in the next pause, without a search asking."""
MOST_WRITES_BEFORE_INDEXING = 4_096
"""Writes after which it is brought up to date although no pause came: else a search would have to wait."""

_INDEX_DAMAGE = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_CONSTRAINT})
"""What a missing or damaged index answers; a full disk or a busy database is not its fault."""


class Unit(Struct, Generic[T], eq=False):
    """One operation, and the future that gets its outcome."""

    operation: Callable[[], Operation[T]]
    future: asyncio.Future[T] | None
    writes: bool
    result: T | None = None
    error: BaseException | None = None
    is_delivered: bool = False


class _IndexBroken(Exception):  # noqa: N818 - a signal inside this module, not an error of the store
    """The search index failed; the base tables are not concerned."""


class UnitQueue:
    """The queue of one connection. The event loop calls `submit` and `withdraw`, its thread the rest."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waiting: deque[Unit[Any]] = deque()
        self._drain_posted = False
        self.calls: int = 0
        """Units that were ever submitted."""
        self.unindexed: int = 0
        """Writes since the search index was brought up to date."""
        self.indexing: bool = False
        """Whether the search index is whole and kept up to date."""
        self.must_mark_stale: bool = False
        """Whether the database does not know yet that its index is no longer kept up to date."""
        self.file: WatchedFile | None = None
        """What is written, once it is open."""
        self.schema_version: int | None = None
        """The version that writes are for, once it is known."""

    def submit(self, unit: Unit[T]) -> bool:
        """Put the unit in the queue. True when `drain` must be posted to the thread now."""
        self.calls += 1
        self._waiting.append(unit)
        if self._drain_posted:
            return False
        self._drain_posted = True
        return True

    def withdraw(self, unit: Unit[T]) -> bool:
        """Take the unit out again; False when the thread was faster, and its outcome will come."""
        try:
            self._waiting.remove(unit)
        except ValueError:
            return False
        return True

    def drain(self, connection: sqlite3.Connection | None) -> None:
        """Run everything that waits. Never raises: every failure is a unit's outcome."""
        # Before the first look: what is submitted after the last one then gets a drain of its own.
        self._drain_posted = False
        while (unit := self._take()) is not None:
            group = [unit]
            if connection is None:
                unit.error = StoreClosedError("the session store was closed; nothing was done")
            elif unit.writes:
                group = self._take_writes(unit)
                self._write(connection, group)
                self.unindexed += len(group)
            else:
                self._read(connection, unit)
            deliver(group)
        if self.unindexed >= MOST_WRITES_BEFORE_INDEXING:
            self.take_in(connection)

    def take_in(self, connection: sqlite3.Connection | None) -> None:
        """Bring the search index up to date while nothing else waits. Never raises."""
        self.unindexed = 0
        while connection is not None and self.indexing and not self._waiting:
            unit = Unit[bool](take_in, None, writes=True)
            self._write(connection, [unit])
            if unit.error is not None:
                logger.debug("the search index is brought up to date later: %s", unit.error)
            if not unit.result:
                break

    def _take(self) -> Unit[Any] | None:
        try:
            return self._waiting.popleft()
        except IndexError:
            return None

    def _take_writes(self, first: Unit[Any]) -> list[Unit[Any]]:
        """`first` and the writes that stand directly behind it."""
        group = [first]
        while len(group) < MAX_GROUP:
            unit = self._take()
            if unit is None:
                break
            if not unit.writes:
                self._waiting.appendleft(unit)
                break
            group.append(unit)
        return group

    def _read(self, connection: sqlite3.Connection, unit: Unit[Any]) -> None:
        unit.error = self._attempt(connection, "BEGIN", [unit])

    def _write(self, connection: sqlite3.Connection, group: list[Unit[Any]]) -> None:
        """One transaction for the group; where a unit fails, one for each, so that only that one fails."""
        error = self._attempt(connection, "BEGIN IMMEDIATE", group)
        for unit in group:
            if error is None or is_busy(error) or len(group) == 1:
                unit.error = error
            else:
                unit.error = self._attempt(connection, "BEGIN IMMEDIATE", [unit])

    def _attempt(
        self, connection: sqlite3.Connection, begin: str, group: list[Unit[Any]]
    ) -> BaseException | None:
        """One transaction, again without the search index where that is broken. What went wrong, or None."""
        try:
            return self._transact(connection, begin, group)
        except _IndexBroken as broken:
            logger.warning(
                "the search index is unusable (%s); searches scan until it is rebuilt", broken.__cause__
            )
        self.indexing, self.must_mark_stale = False, True
        try:
            return self._transact(connection, begin, group)
        except _IndexBroken as broken:
            self.indexing = False
            return broken.__cause__

    def _transact(
        self, connection: sqlite3.Connection, begin: str, group: list[Unit[Any]]
    ) -> Exception | None:
        """Run the group and commit. What went wrong, with nothing written, or None."""
        writes = group[0].writes
        try:
            connection.execute(begin)
            if writes:
                self._refuse_other_schema(connection)
            if writes and self.must_mark_stale:
                connection.execute(MARK_INDEX_STALE)
            self._run(connection, group)
            if writes and self.file is not None:
                self.file.check()
            self._commit(connection)
        except _IndexBroken:
            _roll_back(connection)
            raise
        except Exception as error:  # noqa: BLE001 - raised to the caller
            _roll_back(connection)
            is_of_the_file = isinstance(error, sqlite3.Error | StoreSchemaError)
            changed = self.file.find_change() if self.file is not None and is_of_the_file else None
            return changed or error
        if writes:
            self.must_mark_stale = False
        return None

    def _refuse_other_schema(self, connection: sqlite3.Connection) -> None:
        """A newer version of this library may have changed the schema while the database was open here."""
        [(version,)] = connection.execute("PRAGMA user_version")
        if self.schema_version not in (None, version):
            raise StoreSchemaError(
                f"another program gave the database schema version {version}, this hermes-store "
                f"knows {self.schema_version}; nothing was written. Install a newer hermes-store"
            )

    def _commit(self, connection: sqlite3.Connection) -> None:
        """Commit; the index writes its own pages only now, so its damage may show only now."""
        try:
            connection.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            if self.indexing and primary_code(error) in _INDEX_DAMAGE:
                raise _IndexBroken from error
            raise

    def _run(self, connection: sqlite3.Connection, group: list[Unit[Any]]) -> None:
        """Set the result of each unit, in order. Appends that stand side by side are one call of SQLite's."""
        for sql, run in groupby(group, _sql_of_insert):
            units = list(run)
            if sql is None or not self._insert(connection, sql, units):
                for unit in units:
                    unit.result = self._drive(connection, unit)

    def _insert(self, connection: sqlite3.Connection, sql: str, units: list[Unit[int]]) -> bool:
        """Whether each unit inserted its row. Their keys follow each other: nobody else writes meanwhile."""
        now = self._clock()
        rows = [unit.operation.values(now) for unit in units if isinstance(unit.operation, OneInsert)]
        if len(rows) == 1:
            cursor = connection.execute(sql, rows[0])
            last = cursor.lastrowid or 0
        else:
            cursor = connection.executemany(sql, rows)
            [(last,)] = connection.execute("SELECT last_insert_rowid()")
        for key, unit in enumerate(units, last - len(units) + 1):
            unit.result = key
        return cursor.rowcount == len(units)

    def _drive(self, connection: sqlite3.Connection, unit: Unit[T]) -> T:
        def execute(statement: Statement) -> list[Row]:
            if statement is NOW:
                return [(self._clock(),)]
            if statement is DIALECT:
                return [("sqlite",)]
            if statement is INDEX_READY:
                self.indexing, self.must_mark_stale = True, False
                return []
            if statement.only == "postgres" or statement.sql is ON_SESSION:
                return []
            if statement.inserts:
                cursor = connection.execute(without_returning(statement.sql), statement.values)
                return [(cursor.lastrowid,)] if cursor.rowcount == 1 else []
            if not statement.index:
                return connection.execute(statement.sql, statement.values).fetchall()
            if not self.indexing:
                return []
            try:
                return connection.execute(statement.sql, statement.values).fetchall()
            except sqlite3.DatabaseError as error:
                if primary_code(error) not in _INDEX_DAMAGE:
                    raise
                raise _IndexBroken from error

        return drive(unit.operation(), execute)


def _sql_of_insert(unit: Unit[Any]) -> str | None:
    return unit.operation.sql if isinstance(unit.operation, OneInsert) else None


def _roll_back(connection: sqlite3.Connection) -> None:
    if not connection.in_transaction:
        return
    try:
        connection.execute("ROLLBACK")
    except sqlite3.Error:
        logger.warning(
            "a rollback failed; the next transaction starts from what was committed", exc_info=True
        )


def deliver(group: list[Unit[Any]]) -> None:
    """Set the futures of the group, in one wake-up of their loop."""

    def set_outcomes() -> None:
        for unit in group:
            unit.is_delivered = True
            if unit.future is None or unit.future.done():
                continue
            if unit.error is not None:
                unit.future.set_exception(unit.error)
            else:
                unit.future.set_result(unit.result)

    future = group[0].future
    if future is not None:
        hand_over(future.get_loop(), set_outcomes)
