"""Usage per call, per model and in sum; small state that belongs to a session."""

# ruff: noqa: S608 - the statements are put together from constants of this package

from __future__ import annotations

import json

from hermes_messages import JsonValue, Usage
from hermes_store.backend import Operation, Row, Statement, current_time
from hermes_store.escaping import escape, unescape
from hermes_store.operations.access import find_session_key
from hermes_store.records import CallRecord, ModelUsage
from hermes_store.rows import optional_escape

__all__ = ["add_usage", "calls", "get_state", "set_state", "usage_by_model"]

FIGURES = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "cost_usd",
)
_COLUMNS = ", ".join(FIGURES)
_INSERT_CALL = f"""
INSERT INTO calls (session, uid, model, provider, api_calls, {_COLUMNS}, created_at)
SELECT s.key, ?, coalesce(?, s.model), coalesce(?, s.provider), ?, ?, ?, ?, ?, ?, ?, ?
FROM sessions AS s WHERE s.key = ?
ON CONFLICT (session, uid) DO NOTHING RETURNING number
"""
_ADD = f"""
UPDATE sessions SET updated_at = ?, api_calls = api_calls + ?,
{", ".join(f"{name} = coalesce({name} + ?, {name}, ?)" for name in FIGURES)}
WHERE key = ?
"""
_CALLS = f"""
SELECT model, provider, api_calls, created_at, {_COLUMNS} FROM calls WHERE session = ? ORDER BY number
"""
_BY_MODEL = f"""
SELECT model, provider, sum(api_calls), {", ".join(f"sum({name})" for name in FIGURES)}
FROM calls {{where}} GROUP BY model, provider ORDER BY model, provider
"""
_SET_STATE = """
INSERT INTO session_state (session, name, value, updated_at) VALUES (?, ?, ?, ?)
ON CONFLICT (session, name) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at
"""


def add_usage(
    session_id: str,
    usage: Usage | None,
    api_calls: int,
    model: str | None,
    provider: str | None,
    uid: str | None,
) -> Operation[None]:
    """Note the call and add to the totals; a figure that is unknown on one side is taken from the other.

    A known `uid` adds nothing. Raises `SessionNotFoundError`.
    """
    key = yield from find_session_key(session_id)
    now = yield from current_time()
    added = usage or Usage()
    figures = (
        added.input_tokens,
        added.output_tokens,
        added.cache_read_tokens,
        added.cache_write_tokens,
        added.reasoning_tokens,
        added.cost_usd,
    )
    names = (optional_escape(uid), optional_escape(model), optional_escape(provider))
    if (yield Statement(_INSERT_CALL, (*names, api_calls, *figures, now, key))):
        twice = tuple(figure for figure in figures for _ in range(2))
        yield Statement(_ADD, (now, api_calls, *twice, key))


def calls(session_id: str) -> Operation[list[CallRecord]]:
    """What was reported, in order. Raises `SessionNotFoundError`."""
    key = yield from find_session_key(session_id)
    rows = yield Statement(_CALLS, (key,))
    return [
        CallRecord(
            model=_named(row[0]),
            provider=_named(row[1]),
            api_calls=row[2],
            usage=Usage(*row[4:]),
            created_at=row[3],
        )
        for row in rows
    ]


def usage_by_model(session_id: str | None) -> Operation[list[ModelUsage]]:
    """The sums for each model, of one session or of all. Raises `SessionNotFoundError`."""
    if session_id is None:
        rows = yield Statement(_BY_MODEL.format(where=""))
    else:
        key = yield from find_session_key(session_id)
        rows = yield Statement(_BY_MODEL.format(where="WHERE session = ?"), (key,))
    return [_model_usage(row) for row in rows]


def get_state(session_id: str, name: str) -> Operation[JsonValue]:
    """The value stored under `name`, or None. Raises `SessionNotFoundError`."""
    key = yield from find_session_key(session_id)
    rows = yield Statement(
        "SELECT value FROM session_state WHERE session = ? AND name = ?", (key, escape(name))
    )
    value: JsonValue = json.loads(rows[0][0]) if rows else None
    return value


def set_state(session_id: str, name: str, value: str | None) -> Operation[None]:
    """Store the encoded `value` under `name`; None removes it. Raises `SessionNotFoundError`."""
    key = yield from find_session_key(session_id)
    if value is None:
        yield Statement("DELETE FROM session_state WHERE session = ? AND name = ?", (key, escape(name)))
        return
    now = yield from current_time()
    yield Statement(_SET_STATE, (key, escape(name), value, now))


def _model_usage(row: Row) -> ModelUsage:
    model, provider, api_calls, *sums, cost = row
    read, written, cached_read, cached_written, reasoning = (
        None if figure is None else int(figure) for figure in sums
    )
    usage = Usage(read, written, cached_read, cached_written, reasoning, cost)
    return ModelUsage(model=_named(model), provider=_named(provider), api_calls=int(api_calls), usage=usage)


def _named(text: str | None) -> str | None:
    return None if text is None else unescape(text)
