"""Reading transcripts: whole, in windows that never begin inside a tool round, and with their history.

What comes back are rows with the columns seq, uid, shape, text, body, created_at: they are decoded outside of
the transaction (`methods.decoding`).
"""

# ruff: noqa: S608 - the statements are put together from constants of this package

from __future__ import annotations

from hermes_store.backend import Operation, Row, SqlValue, Statement
from hermes_store.operations.access import find_session_key
from hermes_store.rows import LARGEST_NUMBER, within_rows

__all__ = ["get_history", "get_messages"]

_COLUMNS = "SELECT seq, uid, shape, text, body, created_at, role FROM messages WHERE session = ?"
_LIVE = "body IS NOT NULL AND archived_at IS NULL"
_ALL = f"{_COLUMNS} AND {_LIVE} ORDER BY seq"
_NEWEST = f"{_COLUMNS} AND {_LIVE} AND seq < ? ORDER BY seq DESC LIMIT ?"
_BEFORE_THE_ROUND = (
    f"SELECT max(seq) FROM messages WHERE session = ? AND {_LIVE} AND seq < ? AND role <> 'tool'"
)
_BETWEEN = f"{_COLUMNS} AND {_LIVE} AND seq >= ? AND seq < ? ORDER BY seq"
_HISTORY = f"{_COLUMNS} AND body IS NOT NULL AND copy_of IS NULL ORDER BY seq"


def get_messages(session_id: str, limit: int | None, before: int | None) -> Operation[list[Row]]:
    """The newest `limit` messages below the sequence number `before`, in order, open places left out.

    Where they would begin with results, the rest of their round comes along. Raises `SessionNotFoundError`.
    """
    key = yield from find_session_key(session_id)
    if limit is None and before is None:
        return _without_role((yield Statement(_ALL, (key,))))
    if limit is not None and limit <= 0:
        return []
    end = LARGEST_NUMBER if before is None else within_rows(before)
    values: tuple[SqlValue, ...] = (key, end, LARGEST_NUMBER if limit is None else within_rows(limit))
    rows = list(reversed((yield Statement(_NEWEST, values))))
    if rows and rows[0][-1] == "tool":
        [(start,)] = yield Statement(_BEFORE_THE_ROUND, (key, rows[0][0]))
        rows[:0] = yield Statement(_BETWEEN, (key, 0 if start is None else start, rows[0][0]))
    return _without_role(rows)


def get_history(session_id: str) -> Operation[list[Row]]:
    """All that was ever said in the session, archived messages too, each once, in order."""
    key = yield from find_session_key(session_id)
    return _without_role((yield Statement(_HISTORY, (key,))))


def _without_role(rows: list[Row]) -> list[Row]:
    return [row[:6] for row in rows]
