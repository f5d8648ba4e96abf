"""Whether the file that a connection writes is still the one that its path names. Runs on its thread.

SQLite goes on writing a file that was deleted or replaced under it, and every commit succeeds; what it keeps
is gone with the process. So before each commit the names are looked up again, which costs about as much as
one value of a row.
"""

from __future__ import annotations

import errno
import os
import sqlite3

from hermes_messages import StoreError
from hermes_store.errors import StoreCorruptError, StoreFileChangedError
from hermes_store.forks import identity_of

__all__ = ["WatchedFile"]

_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESTALE})
_RESCUE = (
    "Nothing of this call was kept. Earlier messages can still be read through this object: save them with "
    "export_to_file(), close it, and open the store again"
)
_EMPTIED = (
    "Nothing of this call was kept. Copy what is left, the -wal file too, before closing this object: the "
    "newest messages may be in it"
)


class WatchedFile:
    """The database and its write-ahead log, as they were when `connection` had just opened them."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        [path] = [row[2] for row in connection.execute("PRAGMA database_list") if row[1] == "main"]
        self._path = str(path)
        known = {name: identity_of(name) for name in (self._path, f"{path}-wal")} if path else {}
        self._known = {name: identity for name, identity in known.items() if identity is not None}

    def check(self) -> None:
        """Raises `StoreFileChangedError`, and `StoreCorruptError` for a database cut to nothing."""
        for name, identity in self._known.items():
            try:
                now = os.stat(name)  # noqa: PTH116 - once for each commit: Path takes twice the time
            except OSError as error:
                if error.errno not in _GONE:
                    continue  # it can not be looked at, which says nothing about the file that is open
                raise StoreFileChangedError(f"{name} was removed while it was open. {_RESCUE}") from None
            if (now.st_dev, now.st_ino) != identity:
                raise StoreFileChangedError(f"{name} was replaced while it was open. {_RESCUE}")
            if now.st_size == 0 and name == self._path:
                raise StoreCorruptError(f"{name} was emptied while it was open. {_EMPTIED}")

    def find_change(self) -> StoreError | None:
        """What `check` would raise, or None."""
        try:
            self.check()
        except StoreError as error:
            return error
        return None
