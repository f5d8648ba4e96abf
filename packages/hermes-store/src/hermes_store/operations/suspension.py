"""Rounds of tool calls that wait for a person's decision, across turns and processes."""

from __future__ import annotations

import json

from hermes_messages import StoreError
from hermes_messages.protocols import LeaseToken, SuspendedRound, ToolRound
from hermes_store.backend import Operation, Statement
from hermes_store.operations.access import find_session_key, open_for_writing

__all__ = ["resume", "suspend", "suspended"]

_IS_OPEN = "SELECT 1 FROM messages WHERE round = ? AND session = ? AND body IS NULL LIMIT 1"
_SUSPEND = """
INSERT INTO suspended_rounds (round, session, pending, created_at) VALUES (?, ?, ?, ?)
ON CONFLICT (round) DO UPDATE SET pending = excluded.pending
"""
_SUSPENDED = """
SELECT s.round, s.pending, place.seq
FROM suspended_rounds AS s JOIN messages AS place ON place.round = s.round
WHERE s.session = ? ORDER BY s.round, place.position
"""


def suspend(round_: ToolRound, pending: str, token: LeaseToken | None) -> Operation[None]:
    """Mark the round. Raises `StoreError` when no result of it is missing, `LeaseLostError`."""
    session = yield from open_for_writing(round_.session_id, token)
    if not (yield Statement(_IS_OPEN, (round_.assistant_seq, session.key))):
        raise StoreError(
            f"session {round_.session_id!r} has no open round {round_.assistant_seq}; nothing was changed"
        )
    yield Statement(_SUSPEND, (round_.assistant_seq, session.key, pending, session.now))


def resume(round_: ToolRound, token: LeaseToken | None) -> Operation[None]:
    """Take the mark away."""
    session = yield from open_for_writing(round_.session_id, token)
    yield Statement(
        "DELETE FROM suspended_rounds WHERE round = ? AND session = ?", (round_.assistant_seq, session.key)
    )


def suspended(session_id: str) -> Operation[list[SuspendedRound]]:
    """The marked rounds, oldest first. Raises `SessionNotFoundError`."""
    key = yield from find_session_key(session_id)
    rows = yield Statement(_SUSPENDED, (key,))
    places: dict[int, list[int]] = {}
    pending: dict[int, str] = {}
    for round_, text, seq in rows:
        places.setdefault(round_, []).append(seq)
        pending[round_] = text
    return [
        SuspendedRound(ToolRound(session_id, round_, tuple(seqs)), json.loads(pending[round_]))
        for round_, seqs in places.items()
    ]
