"""What SQLite's errors mean to a caller of the store. Codes: https://www.sqlite.org/rescode.html"""

from __future__ import annotations

import sqlite3

from hermes_messages import StoreBusyError, StoreError, StoreSchemaError
from hermes_store.errors import StoreCorruptError, StoreFullError, StoreReadOnlyError

__all__ = ["is_busy", "primary_code", "to_store_error"]

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


def primary_code(error: sqlite3.Error) -> int | None:
    """SQLite's result code without the extension, or None for an error of Python's own module."""
    try:
        return error.sqlite_errorcode & 0xFF
    except AttributeError:
        return None


def is_busy(error: BaseException) -> bool:
    """Whether another writer holds the database, so that trying again makes sense."""
    return isinstance(error, sqlite3.Error) and primary_code(error) in _BUSY


def to_store_error(error: sqlite3.Error, path: str) -> StoreError:
    """The store's error for `error`, met in the database at `path`."""
    code = primary_code(error)
    what = f"{path}: {error}"
    if is_busy(error):
        return StoreBusyError(
            f"{what}; another program writes to it. Nothing of this call was kept; try again"
        )
    match code:
        case sqlite3.SQLITE_FULL:
            return StoreFullError(
                f"{what}; nothing of this write was kept, earlier messages are. Make room and try again"
            )
        case sqlite3.SQLITE_IOERR:
            return _io_error(error, what)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return StoreReadOnlyError(
                f"{what}; nothing was written. Check the rights of the file and its folder"
            )
        case sqlite3.SQLITE_CORRUPT:
            return StoreCorruptError(
                f"{what}; the file was left as it is. Copy it, then try 'sqlite3 FILE .recover'"
            )
        case sqlite3.SQLITE_NOTADB:
            return StoreSchemaError(f"{what}; the file was left as it is. Name another file for the sessions")
        case sqlite3.SQLITE_CANTOPEN:
            return StoreError(
                f"{what}; check that its folder exists and that you may write there. On a "
                "read-only file system a database is opened with read_only=True"
            )
        case _:
            return StoreError(f"{what}; nothing of this call was kept")


def _io_error(error: sqlite3.Error, what: str) -> StoreError:
    """A write that the system refused is how a quota or a file-size limit shows."""
    if error.sqlite_errorcode in (sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_TRUNCATE):
        return StoreFullError(
            f"{what} while writing: a full disk, a quota or a file-size limit. Nothing of this write "
            "was kept, earlier messages are"
        )
    return StoreError(f"{what}; nothing of this call was kept, earlier messages are")
