"""Finding, archiving and deleting old sessions."""

# ruff: noqa: S608 - the statements are put together from constants of this package

from __future__ import annotations

from collections.abc import Sequence

from hermes_store.backend import Operation, Statement, current_time
from hermes_store.escaping import escape, unescape
from hermes_store.operations.sessions import LAST_CHANGE, delete_rows
from hermes_store.retention import Candidate

__all__ = ["archive", "candidates", "delete_lineage"]

_CANDIDATES = f"""
SELECT s.id, coalesce(s.lineage, s.id), s.source, {LAST_CHANGE}, s.ended_at IS NOT NULL,
       s.archived_at IS NOT NULL,
       EXISTS (SELECT 1 FROM leases AS l WHERE l.lineage = coalesce(s.lineage, s.id) AND l.expires_at > ?),
       (SELECT count(*) FROM messages AS m WHERE m.session = s.key AND m.body IS NOT NULL),
       (SELECT coalesce(sum(length(m.text) + length(m.body)), 0) FROM messages AS m
        WHERE m.session = s.key AND m.body IS NOT NULL)
FROM sessions AS s {{where}} ORDER BY s.key
"""
_ARCHIVE = "UPDATE sessions SET archived_at = ? WHERE id = ? AND archived_at IS NULL"
_RESTORE = "UPDATE sessions SET archived_at = NULL WHERE id = ?"


def candidates(lineage: str | None = None) -> Operation[list[Candidate]]:
    """All sessions, oldest first, or those of one lineage."""
    now = yield from current_time()
    if lineage is None:
        rows = yield Statement(_CANDIDATES.format(where=""), (now,))
    else:
        where = "WHERE coalesce(s.lineage, s.id) = ?"
        rows = yield Statement(_CANDIDATES.format(where=where), (now, escape(lineage)))
    return [
        Candidate(
            id=unescape(row[0]),
            lineage=unescape(row[1]),
            source=unescape(row[2]),
            last_change=row[3],
            ended=bool(row[4]),
            archived=bool(row[5]),
            held=bool(row[6]),
            messages=int(row[7]),
            characters=int(row[8]),
        )
        for row in rows
    ]


def delete_lineage(planned: Sequence[Candidate]) -> Operation[bool]:
    """Delete the sessions of a lineage. False when they changed, or a turn began, since they were chosen."""
    current = yield from candidates(planned[0].lineage)
    if current != list(planned):
        return False
    for item in reversed(planned):
        [(key,)] = yield Statement("SELECT key FROM sessions WHERE id = ?", (escape(item.id),))
        yield from delete_rows(key, item.id)
    return True


def archive(session_ids: Sequence[str], *, restore: bool = False) -> Operation[None]:
    """Take sessions out of the lists, or back in. Those that do not exist are left out."""
    now = yield from current_time()
    for session_id in session_ids:
        if restore:
            yield Statement(_RESTORE, (escape(session_id),))
        else:
            yield Statement(_ARCHIVE, (now, escape(session_id)))
