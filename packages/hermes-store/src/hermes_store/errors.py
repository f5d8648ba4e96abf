"""Errors that only the store's own environment can cause; all are `StoreError`s.

StoreError
|-- StoreConnectionError  a server that can not be reached, or went away
|-- StoreFullError        no space left, or a file-size limit
|-- StoreReadOnlyError    a database that may not be written
|-- StoreCorruptError     a file whose content is damaged
|-- StoreFileChangedError a file that was removed or replaced while it was open
`-- StoreClosedError      a call after close()
"""

from __future__ import annotations

from hermes_messages import StoreError

__all__ = [
    "StoreClosedError",
    "StoreConnectionError",
    "StoreCorruptError",
    "StoreFileChangedError",
    "StoreFullError",
    "StoreReadOnlyError",
]


class StoreConnectionError(StoreError):
    """The database server can not be reached, refused us, or went away. What was acknowledged is kept."""


class StoreFullError(StoreError):
    """There is no room for the write. Nothing of it was kept; what was acknowledged before is there."""


class StoreReadOnlyError(StoreError):
    """The database, or its folder, may not be written. Nothing was changed."""


class StoreCorruptError(StoreError):
    """The database file is damaged. It was left as it is: make a copy before trying to recover it."""


class StoreFileChangedError(StoreError):
    """The database file was removed or replaced while it was open. Nothing of the call was kept; what was
    acknowledged before can still be read through the same object, until it is closed."""


class StoreClosedError(StoreError):
    """The store was closed. Nothing was done."""
