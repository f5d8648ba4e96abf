"""What a process inherited when it was forked off: SQLite files that its parent had open.

SQLite keeps its locks of a file in the memory of the process, and a forked child inherits that memory but not
the locks. A second connection of the child's to the same file believes that it is protected; others then
remove the write-ahead log under it, and what it committed is lost without an error. SQLite says: "Do not open
an SQLite database connection, then fork(), then try to use that database connection in the child process",
https://www.sqlite.org/howtocorrupt.html, section 2.6. So such a file is refused in the child.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from pathlib import Path

from hermes_messages import StoreError

__all__ = ["KnownConnection", "identity_of", "refuse_inherited"]

Identity = tuple[int, int]

_open: weakref.WeakSet[KnownConnection] = weakref.WeakSet()
_inherited: set[Identity] = set()


class KnownConnection(sqlite3.Connection):
    """A connection of which is known, as long as it is open, which file it is to."""

    file: Identity | None = None

    def know(self, path: str) -> None:
        """Note the file at `path`, which has just been opened."""
        self.file = identity_of(path)
        _open.add(self)

    def close(self) -> None:
        """Close, and forget the file."""
        super().close()
        _open.discard(self)


def identity_of(path: str) -> Identity | None:
    """Device and number of the file, by which SQLite knows it too; None when there is none."""
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def refuse_inherited(path: str) -> None:
    """Raises `StoreError` for a file that the parent of this process had open when it forked."""
    if _inherited and identity_of(path) in _inherited:
        raise StoreError(
            f"{path} was open when this process was forked off, and SQLite would lose what is written here. "
            "Nothing was done; start processes with 'spawn' or 'forkserver', or close the store before"
        )


def _after_fork() -> None:
    _inherited.update(connection.file for connection in _open if connection.file is not None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
