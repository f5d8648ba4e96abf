"""What the entry points of this wheel name."""

from __future__ import annotations

from hermes_messages.protocols import SessionStore
from hermes_store.session_db import SessionDB

__all__ = ["postgres", "sqlite"]


def postgres(target: str) -> SessionStore:
    """A store in the PostgreSQL database at the address `target`. Nothing is opened.

    Raises `ConfigurationError`, also when the extra `postgres` is not installed.
    """
    return SessionDB(target)


def sqlite(target: str) -> SessionStore:
    """A store in the SQLite file `target`. Nothing is opened. Raises `ConfigurationError`."""
    return SessionDB(target)
