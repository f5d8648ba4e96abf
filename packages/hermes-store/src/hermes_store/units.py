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
from typing import Any, Generic, TypeVar

from hermes_store.backend import INDEX_READY, NOW, Operation, Row, Statement, drive
from hermes_store.connection import hand_over
from hermes_store.errors import StoreClosedError
from hermes_store.migrations import MARK_INDEX_STALE
from hermes_store.sqlite_errors import primary_code

__all__ = ["Unit", "UnitQueue"]

T = TypeVar("T")
_log = logging.getLogger(__name__)

MAX_GROUP = 64
"""Writes that share one commit at most: bounds the time for which a group holds the write lock."""

_INDEX_DAMAGE = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_CONSTRAINT})
"""What a missing or damaged index answers; a full disk or a busy database is not its fault."""


class Unit(Generic[T]):
    """One operation, and the future that gets its outcome."""

    __slots__ = ("error", "future", "operation", "result", "writes")

    def __init__(
        self, operation: Callable[[], Operation[T]], future: asyncio.Future[T], *, writes: bool
    ) -> None:
        self.operation = operation
        self.future = future
        self.writes = writes
        self.result: T | None = None
        self.error: BaseException | None = None


class _IndexBroken(Exception):  # noqa: N818 - a signal inside this module, not an error of the store
    """The search index failed; the base tables are not concerned."""


class UnitQueue:
    """The queue of one connection. The event loop calls `submit` and `withdraw`, its thread the rest."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waiting: deque[Unit[Any]] = deque()
        self.indexing = False
        """Whether the search index is whole and kept up to date."""
        self.must_mark_stale = False
        """Whether the database does not know yet that its index is no longer kept up to date."""

    def submit(self, unit: Unit[T]) -> None:
        """Put the unit in the queue; `drain` must be posted to the thread afterwards."""
        self._waiting.append(unit)

    def withdraw(self, unit: Unit[T]) -> bool:
        """Take the unit out again; False when the thread was faster, and its outcome will come."""
        try:
            self._waiting.remove(unit)
        except ValueError:
            return False
        return True

    def drain(self, connection: sqlite3.Connection | None) -> None:
        """Run everything that waits. Never raises: every failure is a unit's outcome."""
        while (unit := self._take()) is not None:
            group = [unit]
            if connection is None:
                unit.error = StoreClosedError("the session store was closed; nothing was done")
            elif unit.writes:
                group = self._take_writes(unit)
                self._with_index_fallback(self._write_group, connection, group)
            else:
                self._with_index_fallback(self._read, connection, group)
            _deliver_all(group)

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

    def _with_index_fallback(
        self,
        run: Callable[[sqlite3.Connection, list[Unit[Any]]], None],
        connection: sqlite3.Connection,
        group: list[Unit[Any]],
    ) -> None:
        """Run the group; where the search index is broken, once more without it."""
        try:
            run(connection, group)
        except _IndexBroken as broken:
            _log.warning(
                "the search index is unusable (%s); searches scan until it is rebuilt", broken.__cause__
            )
            self.indexing = False
            self.must_mark_stale = True
            for unit in group:
                unit.result = unit.error = None
            try:
                run(connection, group)
            except _IndexBroken as again:
                self.indexing = False
                for unit in group:
                    unit.error = again.__cause__

    def _read(self, connection: sqlite3.Connection, group: list[Unit[Any]]) -> None:
        [unit] = group
        try:
            connection.execute("BEGIN")
            unit.result = self._drive(connection, unit)
        except _IndexBroken:
            raise
        except Exception as error:  # noqa: BLE001 - raised to the caller
            unit.error = error
        finally:
            _roll_back(connection)

    def _write_group(self, connection: sqlite3.Connection, group: list[Unit[Any]]) -> None:
        """One transaction for the group; a unit that fails is undone alone."""
        try:
            connection.execute("BEGIN IMMEDIATE")
            if self.must_mark_stale:
                connection.execute(MARK_INDEX_STALE)
            for unit in group:
                self._write_unit(connection, unit, alone=len(group) == 1)
            if connection.in_transaction:
                self._commit(connection)
                self.must_mark_stale = False
        except _IndexBroken:
            _roll_back(connection)
            raise
        except sqlite3.Error as error:
            _roll_back(connection)
            for unit in group:
                unit.error = unit.error or error

    def _commit(self, connection: sqlite3.Connection) -> None:
        """Commit; the index writes its own pages only now, so its damage may show only now."""
        try:
            connection.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            if self.indexing and primary_code(error) in _INDEX_DAMAGE:
                raise _IndexBroken from error
            raise

    def _write_unit(self, connection: sqlite3.Connection, unit: Unit[Any], *, alone: bool) -> None:
        """Run one unit. Raises `sqlite3.Error` when the failure took the whole transaction with it."""
        if not alone:
            connection.execute("SAVEPOINT unit")
        try:
            unit.result = self._drive(connection, unit)
        except _IndexBroken:
            raise
        except Exception as error:
            unit.error = error
            if alone:
                _roll_back(connection)
                return
            if not connection.in_transaction:
                raise  # SQLite itself rolled everything back, as it does for a full disk
            connection.execute("ROLLBACK TO unit")
        if not alone:
            connection.execute("RELEASE unit")

    def _drive(self, connection: sqlite3.Connection, unit: Unit[T]) -> T:
        def execute(statement: Statement) -> list[Row]:
            if statement is NOW:
                return [(self._clock(),)]
            if statement is INDEX_READY:
                self.indexing, self.must_mark_stale = True, False
                return []
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


def _roll_back(connection: sqlite3.Connection) -> None:
    if not connection.in_transaction:
        return
    try:
        connection.execute("ROLLBACK")
    except sqlite3.Error:
        _log.warning("a rollback failed; the next transaction starts from what was committed", exc_info=True)


def _deliver_all(group: list[Unit[Any]]) -> None:
    """Set the futures of the group, in one wake-up of their loop."""

    def set_outcomes() -> None:
        for unit in group:
            if unit.future.done():
                continue
            if unit.error is not None:
                unit.future.set_exception(unit.error)
            else:
                unit.future.set_result(unit.result)

    hand_over(group[0].future.get_loop(), set_outcomes)
