"""Finding a session for reading, and for writing under its lease."""

from __future__ import annotations

from msgspec import Struct

from hermes_messages import LeaseLostError, SessionNotFoundError
from hermes_messages.protocols import LeaseToken
from hermes_store.backend import Operation, Statement, current_time, on_session
from hermes_store.escaping import escape, unescape
from hermes_store.fencing import HeldLease, refusal

__all__ = ["WritableSession", "find_session_key", "open_for_writing"]

_FIND = "SELECT key FROM sessions WHERE id = ?"
_FIND_WITH_LEASE = """
SELECT s.key, l.holder, l.number, l.expires_at
FROM sessions AS s LEFT JOIN leases AS l ON l.lineage = coalesce(s.lineage, s.id)
WHERE s.id = ?
"""


class WritableSession(Struct, frozen=True):
    """A session whose transcript may be written in this transaction, and the transaction's time."""

    key: int
    now: float


def find_session_key(session_id: str) -> Operation[int]:
    """The session's number. Raises `SessionNotFoundError`."""
    yield on_session(session_id)
    rows = yield Statement(_FIND, (escape(session_id),))
    if not rows:
        raise SessionNotFoundError(session_id)
    return int(rows[0][0])


def open_for_writing(session_id: str, token: LeaseToken | None) -> Operation[WritableSession]:
    """The session, once the lease rule allows the write. Raises `SessionNotFoundError`, `LeaseLostError`."""
    yield on_session(session_id)
    rows = yield Statement(_FIND_WITH_LEASE, (escape(session_id),))
    if not rows:
        raise SessionNotFoundError(session_id)
    [(key, holder, number, expires_at)] = rows
    now = yield from current_time()
    held = None if number is None else HeldLease(unescape(holder), number, expires_at)
    reason = refusal(held, token, now)
    if reason is not None:
        raise LeaseLostError(f"session {session_id!r} was not written: {reason}")
    return WritableSession(key, now)
