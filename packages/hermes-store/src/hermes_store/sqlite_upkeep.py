"""Vacuum, integrity check and copy of a SQLite database. Runs on a connection's thread."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from typing import TypeVar

from hermes_store.connection import hand_over
from hermes_store.errors import StoreClosedError

__all__ = ["copy_into", "find_damage", "run_and_settle", "vacuum"]

T = TypeVar("T")


def vacuum(connection: sqlite3.Connection) -> None:
    """Write the file anew without the room of deleted rows, and empty its log."""
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def find_damage(connection: sqlite3.Connection) -> list[str]:
    """What SQLite finds wrong with the file, one line each, and rows that refer to nothing."""
    try:
        found = [str(line) for (line,) in connection.execute("PRAGMA integrity_check")]
        orphans = connection.execute("PRAGMA foreign_key_check").fetchall()
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise
        return [str(error)]
    problems = [line for line in found if line != "ok"]
    return problems + [f"row {row[1]} of {row[0]} refers to a missing row of {row[2]}" for row in orphans]


def copy_into(connection: sqlite3.Connection, path: str) -> None:
    """Write the database, as one transaction sees it, to the file `path`, which must not be there."""
    connection.execute("VACUUM INTO ?", (path,))


def run_and_settle(
    connection: sqlite3.Connection | None,
    work: Callable[[sqlite3.Connection], T],
    outcome: asyncio.Future[T],
) -> None:
    """Do `work` and set `outcome` in its event loop. Never raises."""
    loop = outcome.get_loop()
    if connection is None:
        closed = StoreClosedError("the session store was closed; nothing was done")
        hand_over(loop, lambda: None if outcome.done() else outcome.set_exception(closed))
        return
    try:
        result = work(connection)
    except Exception as error:  # noqa: BLE001 - raised to the one who waits
        failure = error
        hand_over(loop, lambda: None if outcome.done() else outcome.set_exception(failure))
        return
    hand_over(loop, lambda: None if outcome.done() else outcome.set_result(result))
