"""What PostgreSQL's errors mean to a caller of the store.

Codes: https://www.postgresql.org/docs/current/errcodes-appendix.html
"""

from __future__ import annotations

import psycopg

from hermes_messages import StoreBusyError, StoreError, StoreSchemaError
from hermes_store.errors import (
    StoreConnectionError,
    StoreCorruptError,
    StoreFullError,
    StoreReadOnlyError,
)
from hermes_store.postgres_dsn import Dsn

__all__ = ["is_connection_lost", "to_store_error"]

_BUSY = frozenset(
    {
        "40001",  # serialization_failure
        "40P01",  # deadlock_detected
        "53300",  # too_many_connections
        "55P03",  # lock_not_available: our lock_timeout
        "57014",  # query_canceled: a statement_timeout of the server's
        "57P03",  # cannot_connect_now: it starts up or shuts down
    }
)
_GONE = frozenset({"25P03", "57P01", "57P02", "57P05"})
"""Idle in a transaction too long, and the ways in which a server ends a session."""


def is_connection_lost(error: psycopg.Error) -> bool:
    """Whether the connection ended under the statement, so that the server can not have answered it."""
    state = error.sqlstate
    if state is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return state in _GONE or state.startswith("08")


def to_store_error(error: psycopg.Error, dsn: Dsn) -> StoreError:
    """The store's error for `error`, without the secrets of `dsn`."""
    # Of the server's answer the message only: details quote rows.
    said = error.diag.message_primary or str(error).strip()
    what = dsn.mask(f"{dsn.name}: {said}")
    if is_connection_lost(error):
        return StoreConnectionError(
            f"{what}. Nothing of this call was kept; try again once the server answers"
        )
    return _by_state(error.sqlstate or "", what)


def _by_state(state: str, what: str) -> StoreError:
    if state in _BUSY:
        return StoreBusyError(f"{what}. Nothing of this call was kept; try again")
    match state[:2]:
        case "28" | "3D":
            return StoreConnectionError(f"{what}. Nothing was done; check user, password and database name")
        case "53":
            return StoreFullError(
                f"{what}; nothing of this write was kept, earlier messages are. Make room and try again"
            )
        case "25":
            return StoreReadOnlyError(f"{what}; nothing was written. Connect to a server that accepts writes")
        case "XX" | "58":
            return StoreCorruptError(f"{what}; the server reports damage or an internal error. See its log")
        case _:
            pass
    match state:
        case "42501":
            return StoreReadOnlyError(f"{what}; nothing was written. Give the user the rights it lacks")
        case "42P01" | "42703" | "3F000":
            return StoreSchemaError(f"{what}; a part of the store's schema is missing. Nothing was changed")
        case _:
            return StoreError(f"{what}; nothing of this call was kept")
