"""Turn leases: one holder for a lineage of sessions, with a number that grows from holder to holder.

A store in which somebody waits has a ticket with a number. The lease goes to the lowest ticket that is alive,
in whatever process its owner runs; an owner that is gone shows its ticket no longer and loses its place.
"""

from __future__ import annotations

from hermes_messages import LeaseLostError
from hermes_messages.protocols import LeaseToken
from hermes_store.backend import Operation, Statement, current_time, on_session
from hermes_store.escaping import escape
from hermes_store.rows import key_text

__all__ = [
    "TICKET_STATEMENTS",
    "TICKET_TTL_S",
    "refresh",
    "release",
    "request",
    "try_acquire",
    "withdraw",
]

_LINEAGE = "SELECT coalesce(lineage, id) FROM sessions WHERE id = ?"
_NEXT_NUMBER = "UPDATE counters SET value = value + 1 WHERE name = ? RETURNING value"
_TAKE = """
INSERT INTO leases (lineage, holder, number, expires_at) VALUES (?, ?, ?, ?)
ON CONFLICT (lineage) DO UPDATE
SET holder = excluded.holder, number = excluded.number, expires_at = excluded.expires_at
"""
_FIRST_TICKET = """
SELECT number, holder, expires_at FROM lease_tickets WHERE lineage = ? ORDER BY number LIMIT 1
"""
_REMOVE_TICKET = "DELETE FROM lease_tickets WHERE number = ?"
_WITHDRAW_TICKET = "DELETE FROM lease_tickets WHERE number = ? AND holder = ?"
TICKET_TTL_S = 5.0
"""How long a place in the queue is kept for a waiter that does not ask again."""
# A ticket that ends later than a new one would: the clock was set back, and whoever lives takes another.
_RENEW_TICKET = """
UPDATE lease_tickets SET expires_at = ?
WHERE number = ? AND holder = ? AND lineage = ? AND expires_at > ? AND expires_at <= ? RETURNING number
"""
_INSERT_TICKET = "INSERT INTO lease_tickets (number, lineage, holder, expires_at) VALUES (?, ?, ?, ?)"
TICKET_STATEMENTS = (_FIRST_TICKET, _REMOVE_TICKET, _WITHDRAW_TICKET, _RENEW_TICKET, _INSERT_TICKET)
"""Whatever is asked of the queue: each touches one row, by its number or by `lease_tickets_by_lineage`."""


def try_acquire(session_id: str, holder: str, ttl_s: float) -> Operation[LeaseToken | None]:
    """The lease with a new number, or None while another holder has it or waits for it."""
    lineage = yield from _lineage(session_id)
    now = yield from current_time()
    if not (yield from _is_free(lineage, holder, now)):
        return None
    if (yield from _first_ticket(lineage, now)) is not None:
        return None
    return (yield from _take(session_id, lineage, holder, now + ttl_s))


def request(
    session_id: str, holder: str, ttl_s: float, owner: str, ticket: int | None
) -> Operation[LeaseToken | int]:
    """The lease, when it is free and nobody came before; else the number of a ticket of `owner` in the queue,
    `ticket` again while it lives. A ticket that is not shown again for `TICKET_TTL_S` seconds is void."""
    lineage = yield from _lineage(session_id)
    now = yield from current_time()
    first = yield from _first_ticket(lineage, now)
    if first in (None, (ticket, escape(owner))) and (yield from _is_free(lineage, holder, now)):
        if ticket is not None:
            yield from withdraw(owner, ticket)
        return (yield from _take(session_id, lineage, holder, now + ttl_s))
    if ticket is not None:
        end = now + TICKET_TTL_S
        if (yield Statement(_RENEW_TICKET, (end, ticket, owner, lineage, now, end))):
            return ticket
        yield from withdraw(owner, ticket)
    [(number,)] = yield Statement(_NEXT_NUMBER, ("ticket",))
    yield Statement(_INSERT_TICKET, (number, lineage, escape(owner), now + TICKET_TTL_S))
    return int(number)


def withdraw(owner: str, ticket: int) -> Operation[None]:
    """Wait no longer."""
    yield Statement(_WITHDRAW_TICKET, (ticket, escape(owner)))


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
    yield Statement(
        "DELETE FROM leases WHERE lineage = ? AND number = ? AND holder = ?",
        (lineage, lease.number, escape(lease.holder)),
    )


def _first_ticket(lineage: str, now: float) -> Operation[tuple[int, str] | None]:
    """The lowest ticket that is alive, and its owner. Those before it go, each of them once."""
    while rows := (yield Statement(_FIRST_TICKET, (lineage,))):
        [(number, owner, expires_at)] = rows
        if now < expires_at <= now + TICKET_TTL_S:
            return int(number), str(owner)
        yield Statement(_REMOVE_TICKET, (number,))
    return None


def _is_free(lineage: str, holder: str, now: float) -> Operation[bool]:
    rows = yield Statement("SELECT holder, expires_at FROM leases WHERE lineage = ?", (lineage,))
    return not rows or rows[0][0] == escape(holder) or rows[0][1] <= now


def _take(session_id: str, lineage: str, holder: str, expires_at: float) -> Operation[LeaseToken]:
    [(number,)] = yield Statement(_NEXT_NUMBER, ("lease",))
    yield Statement(_TAKE, (lineage, escape(holder), number, expires_at))
    return LeaseToken(session_id, holder, number, expires_at)


def _lineage(session_id: str) -> Operation[str]:
    """The lineage that a lease belongs to. A session that does not exist yet is its own."""
    yield on_session(session_id)
    rows = yield Statement(_LINEAGE, (escape(session_id),))
    return str(rows[0][0]) if rows else key_text(session_id, "a session id")
