"""Opening a SQLite database for the store: check, then settings, then the schema. Runs on its thread.

Nothing in the file is changed before the check has found it to be ours, or empty.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote, urlsplit

from msgspec import Struct

from hermes_messages import StoreError, StoreSchemaError
from hermes_store.escaping import unescape
from hermes_store.forks import KnownConnection, refuse_inherited
from hermes_store.migrations import (
    ADDITIONS,
    APPLICATION_ID,
    COLUMNS,
    INDEX_STATEMENTS,
    MARK_INDEX_READY,
    STEPS,
    VERSION,
)
from hermes_store.search_query import to_index_text

__all__ = ["OpenedDatabase", "SqliteOptions", "connect", "prepare"]

logger: logging.Logger = logging.getLogger(__name__)

BUSY_WAIT_MS = 20
"""How long SQLite itself waits for a lock. It blocks the connection's thread, so it is short; the longer
wait happens between attempts, in the event loop, where it can be cancelled."""

LOG_PAGES = 4_000
"""Pages of the write-ahead log (16 MB) after which they are moved into the database, which waits for the disk
twice. SQLite's own figure is 1,000, and an append writes three: every 300th would wait. Up to 4,096 pages are
found through one hash table, so readers pay nothing. https://www.sqlite.org/walformat.html#the_wal_index_file_format"""

_INDEX_STATE = "SELECT value FROM settings WHERE name = 'index'"


class SqliteOptions(Struct, frozen=True, kw_only=True):
    """How a database is opened.

    `synchronous`: `NORMAL` survives the death of the process, `FULL` also that of the machine.
    `journal`: `auto` asks for a write-ahead log and accepts what SQLite can do; `wal` insists; `delete` does
    without, for network file systems. `search_index` False leaves the index alone; searches scan.
    `read_only` opens a database that is there, of this version, and changes nothing.
    """

    synchronous: Literal["NORMAL", "FULL"] = "NORMAL"
    journal: Literal["auto", "wal", "delete"] = "auto"
    search_index: bool = True
    read_only: bool = False


class OpenedDatabase(Struct, frozen=True):
    """What opening found. `index_state` is `ready`, `stale` or `none`."""

    journal_mode: str
    index_state: str
    version: int


def connect(path: str, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection without any implicit transaction. `path` may be a `file:` address."""
    if sqlite3.sqlite_version_info < (3, 37):
        raise StoreError(f"SQLite 3.37 or newer is needed, this Python has {sqlite3.sqlite_version}")
    file, is_address = _file_of(path), path.startswith("file:")
    refuse_inherited(file)
    if os.path.exists(file) and not os.path.isfile(file):  # noqa: PTH110, PTH113 - as SQLite takes the name
        raise StoreError(
            f"{path} is no ordinary file; nothing was opened. Name a file in a folder that exists"
        )
    if read_only:
        address = path if is_address else f"file:{quote(path)}"
        frozen = "&immutable=1" if not is_address and _is_frozen(path) else ""
        path, is_address = f"{address}{'&' if '?' in address else '?'}mode=ro{frozen}", True
    connection = sqlite3.connect(
        path,
        timeout=BUSY_WAIT_MS / 1000,
        isolation_level=None,
        check_same_thread=False,  # an abandoned connection may be collected on another thread
        uri=is_address,
        factory=KnownConnection,
    )
    connection.know(file)
    return connection


def _file_of(path: str) -> str:
    """The name of the file that a path or a `file:` address means."""
    return unquote(urlsplit(path).path) if path.startswith("file:") else path


def _is_frozen(path: str) -> bool:
    """Whether the database lies whole on a file system that nobody can write. SQLite refuses to read one
    with a write-ahead log there, for it can not keep others out, unless told that there are none."""
    try:
        read_only = bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except (OSError, AttributeError):  # it is not there, or this is Windows
        return False
    log = Path(f"{path}-wal")
    return read_only and not (log.exists() and log.stat().st_size)


def prepare(connection: sqlite3.Connection, path: str, options: SqliteOptions) -> OpenedDatabase:
    """Make `connection` ready. Raises `StoreSchemaError` with nothing touched, `sqlite3.Error`."""
    connection.create_function("hermes_index_text", 1, _index_text, deterministic=True)
    version = _known_version(connection, path)
    if options.read_only:
        return _as_it_is(connection, path, version)
    journal_mode = _set_journal_mode(connection, path, options)
    connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
    connection.execute(f"PRAGMA synchronous = {options.synchronous}")
    connection.execute("PRAGMA foreign_keys = ON")
    if version < VERSION:
        _migrate(connection, path)
    else:
        _add_what_is_new(connection, path)
    return OpenedDatabase(journal_mode, _index_state(connection), VERSION)


def _as_it_is(connection: sqlite3.Connection, path: str, version: int) -> OpenedDatabase:
    if version < VERSION:
        raise StoreSchemaError(
            f"{path} has schema version {version}, older than {VERSION}, and may only be read; "
            "open it once for writing to bring it up to date"
        )
    [(journal_mode,)] = connection.execute("PRAGMA journal_mode")
    return OpenedDatabase(str(journal_mode), _index_state(connection), version)


def _index_state(connection: sqlite3.Connection) -> str:
    rows = connection.execute(_INDEX_STATE).fetchall()
    return str(rows[0][0]) if rows else "none"


def _known_version(connection: sqlite3.Connection, path: str) -> int:
    """The schema version, 0 for an empty database. Raises `StoreSchemaError` for everything unknown."""
    [(tables,)] = connection.execute("SELECT count(*) FROM sqlite_master")
    if tables == 0:
        return 0
    [(application_id,)] = connection.execute("PRAGMA application_id")
    [(version,)] = connection.execute("PRAGMA user_version")
    if application_id != APPLICATION_ID:
        raise StoreSchemaError(
            f"{path} is a database of another program; it was not touched. Name another file for the sessions"
        )
    if version > VERSION:
        raise StoreSchemaError(
            f"{path} has schema version {version}, this hermes-store knows {VERSION}; it was not touched. "
            "Install a newer hermes-store"
        )
    if version == VERSION:
        _check_columns(connection, path)
    return int(version)


def _check_columns(connection: sqlite3.Connection, path: str) -> None:
    for table, columns in COLUMNS.items():
        try:
            connection.execute(f"SELECT {columns} FROM {table} LIMIT 0")  # noqa: S608 - names of our own schema
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                raise
            raise StoreSchemaError(
                f"{path} says schema version {VERSION} but lacks a part of it ({error}); it was not touched"
            ) from error


def _set_journal_mode(connection: sqlite3.Connection, path: str, options: SqliteOptions) -> str:
    """Ask for the journal mode and read what SQLite answers: it may be another."""
    wanted = "delete" if options.journal == "delete" else "wal"
    try:
        [(mode,)] = connection.execute(f"PRAGMA journal_mode = {wanted}")
    except sqlite3.OperationalError as error:
        if options.journal != "auto" or error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            raise
        logger.warning("%s: no write-ahead log (%s); using a rollback journal", path, error)
        [(mode,)] = connection.execute("PRAGMA journal_mode = delete")
    if mode in (wanted, "memory"):
        return str(mode)
    if options.journal == "wal":
        raise StoreError(
            f"{path} can not have a write-ahead log: SQLite answered {mode!r}. Use journal='auto'"
        )
    logger.warning("%s: asked for journal mode %s, SQLite answered %s", path, wanted, mode)
    return str(mode)


def _migrate(connection: sqlite3.Connection, path: str) -> None:
    """Bring the schema to the newest version, in one transaction. Another process may have been faster."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _known_version(connection, path)
        for step in range(version + 1, VERSION + 1):
            for statement in STEPS[step]:
                connection.execute(statement)
        for statement in ADDITIONS.values():
            connection.execute(statement)
        if version == 0:
            _create_search_index(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _add_what_is_new(connection: sqlite3.Connection, path: str) -> None:
    """The indexes that an earlier release did not make. Where they can not be made now, another time."""
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'").fetchall()
    for name, statement in ADDITIONS.items():
        if (name,) not in rows:
            try:
                connection.execute(statement)
            except sqlite3.DatabaseError as error:
                logger.debug("%s: the index %s is made another time: %s", path, name, error)


def _create_search_index(connection: sqlite3.Connection) -> None:
    [(has_fts5,)] = connection.execute("SELECT count(*) FROM pragma_module_list WHERE name = 'fts5'")
    if not has_fts5:
        logger.warning("this SQLite has no FTS5; searches scan")
        return
    for statement in INDEX_STATEMENTS:
        connection.execute(statement)
    connection.execute(MARK_INDEX_READY)


def _index_text(text: str) -> str:
    return to_index_text(unescape(text))
