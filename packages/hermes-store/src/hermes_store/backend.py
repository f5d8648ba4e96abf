"""What a database has to do for the store, and the form in which the store asks for it.

An operation is a generator: it yields statements and receives their rows, decides, and returns its result.
It never awaits and never touches a connection, so one text of it serves every back end: SQLite runs it whole
on the connection's thread, one hop for a whole transaction; a networked database can await each statement.

    def touch(session_id: str) -> Operation[bool]:
        rows = yield Statement("UPDATE sessions SET title = title WHERE id = ? RETURNING id", (session_id,))
        return bool(rows)

A back end may run an operation again from its start (after a busy answer, or with the search index switched
off), so an operation must not change anything but through its statements.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import lru_cache
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from msgspec import Struct

__all__ = [
    "DIALECT",
    "INDEX_READY",
    "NOW",
    "ON_SESSION",
    "Backend",
    "Dialect",
    "OneInsert",
    "Operation",
    "Row",
    "SqlValue",
    "Statement",
    "current_dialect",
    "current_time",
    "drive",
    "on_session",
    "without_returning",
]

T = TypeVar("T")

SqlValue: TypeAlias = "int | float | str | None"
Row: TypeAlias = tuple[Any, ...]
Dialect: TypeAlias = Literal["sqlite", "postgres"]


class Statement(Struct, frozen=True):
    """One SQL statement with `?` for its values.

    `index` marks a statement that only serves the search index. Where there is no usable index it is skipped
    and answers no rows; where it fails, the operation runs again without it. `only` names the one dialect
    that the statement is for; others skip it, which answers no rows. `inserts` marks an INSERT of at most one
    row that ends in RETURNING its integer key: SQLite knows that key without being asked, and faster.
    """

    sql: str
    values: tuple[SqlValue, ...] = ()
    index: bool = False
    only: Dialect | None = None
    inserts: bool = False


NOW = Statement("now")
"""Answers one row with the database's time in seconds since the epoch (SQLite: the machine's clock)."""

DIALECT = Statement("dialect")
"""Answers one row with the name of the back end's SQL, for the few operations that have two texts."""

ON_SESSION = "on session"
"""The text of the statement that `on_session` makes."""

INDEX_READY = Statement("index ready")
"""Tells the back end that its search index is whole from here on. Answers no rows."""

Operation: TypeAlias = Generator[Statement, list[Row], T]


class OneInsert(Struct, frozen=True):
    """An operation that mostly is one INSERT of one row, and answers its key.

    A back end may run it like any other, by calling it. Or it runs `sql` alone, many at once where they wait:
    that inserts the row, and where a rule forbids it, or the row is there, none. Only then is the rest
    called for, which finds out why, and answers the key of a row that is there.
    """

    @property
    def sql(self) -> str:
        """The INSERT, without RETURNING."""
        raise NotImplementedError

    def values(self, now: float) -> tuple[SqlValue, ...]:
        """Its values at the database's time `now`."""
        raise NotImplementedError

    def __call__(self) -> Operation[int]:
        """The whole operation."""
        raise NotImplementedError


class Backend(Protocol):
    """A database that runs operations, each in one transaction."""

    async def read(self, operation: Callable[[], Operation[T]]) -> T:
        """Run an operation that only reads, on one snapshot. Raises `StoreError`."""
        ...

    async def write(self, operation: Callable[[], Operation[T]]) -> T:
        """Run an operation and commit before returning. Raises `StoreError` with nothing written.

        A cancelled call was either committed whole or not done at all when CancelledError is raised.
        """
        ...

    @property
    def read_only(self) -> bool:
        """Whether every write is refused."""
        ...

    async def rebuild_search_index(self) -> None:
        """Build the search index anew from the messages."""
        ...

    async def vacuum(self) -> None:
        """Give room back that deleted rows took."""
        ...

    async def check_integrity(self) -> list[str]:
        """What is wrong with the database, one line each. Changes nothing."""
        ...

    async def backup(self, path: str) -> None:
        """Copy the database to a new SQLite file. Raises `ConfigurationError`, `StoreError`."""
        ...

    async def close(self) -> None:
        """Let go of the database. Idempotent."""
        ...

    def reopen(self) -> None:
        """Allow calls again after `close`."""
        ...


def current_time() -> Operation[float]:
    """The database's time, in seconds since the epoch."""
    [(now,)] = yield NOW
    return float(now)


def on_session(session_id: str) -> Statement:
    """Says, as the first statement of a writing operation, that it changes one session and its lineage only.

    Where transactions run side by side such operations exclude each other only on one lineage; an operation
    that begins with anything else runs alone. It answers no rows, and nothing at all in a read.
    """
    return Statement(ON_SESSION, (session_id,))


def current_dialect() -> Operation[Dialect]:
    """Which SQL the back end speaks."""
    [(name,)] = yield DIALECT
    dialect: Dialect = name
    return dialect


@lru_cache(maxsize=16)
def without_returning(sql: str) -> str:
    """The text of a statement that `inserts`, for a back end that knows the key of a row it inserts."""
    return sql.rpartition(" RETURNING ")[0]


def drive(operation: Operation[T], execute: Callable[[Statement], list[Row]]) -> T:
    """Run `operation` to its end with `execute`. An exception of `execute` ends it and is raised."""
    try:
        statement = next(operation)
        while True:
            rows = execute(statement)
            statement = operation.send(rows)
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        operation.close()
