"""Turn leases: one holder for a lineage of sessions, with a number that grows from holder to holder."""

from __future__ import annotations

from hermes_messages import LeaseLostError
from hermes_messages.protocols import LeaseToken
from hermes_store.backend import Operation, Statement, current_time, on_session
from hermes_store.escaping import escape

__all__ = ["refresh", "release", "try_acquire"]

_LINEAGE = "SELECT coalesce(lineage, id) FROM sessions WHERE id = ?"
_NEXT_NUMBER = "UPDATE counters SET value = value + 1 WHERE name = 'lease' RETURNING value"
_TAKE = """
INSERT INTO leases (lineage, holder, number, expires_at) VALUES (?, ?, ?, ?)
ON CONFLICT (lineage) DO UPDATE
SET holder = excluded.holder, number = excluded.number, expires_at = excluded.expires_at
"""


def try_acquire(session_id: str, holder: str, ttl_s: float) -> Operation[LeaseToken | None]:
    """The lease with a new number, or None while another holder has it."""
    lineage = yield from _lineage(session_id)
    rows = yield Statement("SELECT holder, expires_at FROM leases WHERE lineage = ?", (lineage,))
    now = yield from current_time()
    if rows and rows[0][0] != escape(holder) and rows[0][1] > now:
        return None
    [(number,)] = yield Statement(_NEXT_NUMBER)
    yield Statement(_TAKE, (lineage, escape(holder), number, now + ttl_s))
    return LeaseToken(session_id, holder, number, now + ttl_s)


def refresh(lease: LeaseToken, ttl_s: float) -> Operation[LeaseToken]:
    """The same lease with a later end. Raises `LeaseLostError`."""
    lineage = yield from _lineage(lease.session_id)
    now = yield from current_time()
    rows = yield Statement(
        "UPDATE leases SET expires_at = ? WHERE lineage = ? AND number = ? RETURNING number",
        (now + ttl_s, lineage, lease.number),
    )
    if not rows:
        raise LeaseLostError(
            f"lease {lease.number} of {lease.holder!r} on session {lease.session_id!r} is no longer held"
        )
    return LeaseToken(lease.session_id, lease.holder, lease.number, now + ttl_s)


def release(lease: LeaseToken) -> Operation[None]:
    """Give the lease back, if it is still this one."""
    lineage = yield from _lineage(lease.session_id)
    yield Statement("DELETE FROM leases WHERE lineage = ? AND number = ?", (lineage, lease.number))


def _lineage(session_id: str) -> Operation[str]:
    """The lineage that a lease belongs to. A session that does not exist yet is its own."""
    yield on_session(session_id)
    rows = yield Statement(_LINEAGE, (escape(session_id),))
    return str(rows[0][0]) if rows else escape(session_id)
