"""What the entry points of this wheel name."""

from __future__ import annotations

from hermes_messages.protocols import SessionStore
from hermes_store.session_db import SessionDB

__all__ = ["sqlite"]


def sqlite(target: str) -> SessionStore:
    """A store in the SQLite file `target`. Nothing is opened. Raises `ConfigurationError`."""
    return SessionDB(target)
