"""Searching the text of messages: through the index where it can answer, else by a scan."""

# ruff: noqa: S608 - the statements are put together from constants of this package

from __future__ import annotations

from typing import assert_never

from msgspec import Struct

from hermes_messages.protocols import MessageHit
from hermes_store import postgres_search
from hermes_store.backend import INDEX_READY, Operation, Row, SqlValue, Statement, current_dialect
from hermes_store.escaping import unescape
from hermes_store.migrations import INDEX_STATEMENTS, MARK_INDEX_READY
from hermes_store.rows import optional_escape
from hermes_store.search_query import Blank, Indexed, Plan, Scan, contains_all, snippet

__all__ = ["SearchFilter", "has_unindexed", "rebuild_index", "search", "take_in", "take_out"]

LONGEST_INDEXED = 200_000
"""Characters of a text that the index takes; longer ones are looked through by every search."""
INDEXED_MESSAGES = (
    f"body IS NOT NULL AND text <> '' AND copy_of IS NULL AND length(text) <= {LONGEST_INDEXED}"
)
"""Which messages the index holds: those with a text, each once."""

_COLUMNS = "SELECT s.id, m.seq, m.role, m.text"
_INDEXED = f"""
{_COLUMNS} FROM message_index
JOIN messages AS m ON m.seq = message_index.rowid
JOIN sessions AS s ON s.key = m.session
WHERE message_index MATCH ?
"""
_SCAN = f"""{_COLUMNS} FROM messages AS m JOIN sessions AS s ON s.key = m.session
WHERE m.body IS NOT NULL AND m.copy_of IS NULL"""

_TOO_LONG = f" AND length(m.text) > {LONGEST_INDEXED}"

TAKEN_AT_ONCE = 500
TAKEN_CHARACTERS = 1_000_000
"""What one transaction puts into the index at most: it bounds how long other writers wait for it."""

_SIZE = f"CASE WHEN length(m.text) <= {LONGEST_INDEXED} THEN length(m.text) ELSE 0 END"
_NEXT = f"""
SELECT m.seq, {_SIZE} FROM messages AS m
WHERE m.seq > (SELECT value FROM counters WHERE name = 'indexed') ORDER BY m.seq LIMIT ?
"""
_NEXT_LATE = f"""
SELECT u.seq, {_SIZE} FROM unindexed AS u JOIN messages AS m ON m.seq = u.seq ORDER BY u.seq LIMIT ?
"""
_INTO_INDEX = f"""
INSERT INTO message_index (rowid, words)
SELECT seq, hermes_index_text(text) FROM messages WHERE {INDEXED_MESSAGES}
"""
_TAKE_IN = f"{_INTO_INDEX} AND seq > (SELECT value FROM counters WHERE name = 'indexed') AND seq <= ?"
_TAKE_IN_LATE = f"{_INTO_INDEX} AND seq IN (SELECT seq FROM unindexed WHERE seq <= ?)"
_UP_TO_COUNTER = " AND seq <= (SELECT value FROM counters WHERE name = 'indexed')"
_TAKE_OUT = f"""
INSERT INTO message_index (message_index, rowid, words)
SELECT 'delete', seq, hermes_index_text(text) FROM messages
WHERE session = ? AND {INDEXED_MESSAGES} AND seq <= (SELECT value FROM counters WHERE name = 'indexed')
AND seq NOT IN (SELECT seq FROM unindexed)
"""
_HAS_UNINDEXED = """
SELECT 1 WHERE EXISTS (SELECT 1 FROM unindexed)
OR EXISTS (SELECT 1 FROM messages WHERE seq > (SELECT value FROM counters WHERE name = 'indexed'))
"""
_ALL_INDEXED = """
UPDATE counters SET value = (SELECT coalesce(max(seq), 0) FROM messages) WHERE name = 'indexed'
"""


class SearchFilter(Struct, frozen=True, kw_only=True):
    """Where to search. None means anywhere."""

    session_id: str | None = None
    role: str | None = None
    source: str | None = None
    model: str | None = None
    after: float | None = None
    before: float | None = None
    limit: int = 20


def search(plan: Plan, where: SearchFilter) -> Operation[list[MessageHit]]:
    """The messages that `plan` finds: best first through the index, newest first by a scan.

    The index knows whole words; when it finds none the words are looked for inside others.
    """
    match plan:
        case Blank():
            return []
        case Scan(words=words):
            return _hits((yield _scan(words, where)), words)
        case Indexed(match=match, words=words):
            conditions, values = _conditions(where)
            if (yield from current_dialect()) == "postgres":
                rows = yield from postgres_search.find(words, conditions, values, where.limit)
            else:
                sql = f"{_INDEXED}{conditions} ORDER BY message_index.rank LIMIT ?"
                rows = yield Statement(sql, (match, *values, where.limit), index=True)
                if 0 < len(rows) < where.limit:
                    rows += yield _scan(words, where, _TOO_LONG, where.limit - len(rows))
            return _hits(rows or (yield _scan(words, where)), words)
        case unreachable:
            assert_never(unreachable)


def has_unindexed() -> Operation[bool]:
    """Whether there are messages that the index could take in."""
    if (yield from current_dialect()) == "postgres":
        return (yield from postgres_search.has_unindexed())
    rows = yield Statement(_HAS_UNINDEXED, index=True)
    return bool(rows)


def take_in() -> Operation[bool]:
    """Put messages that wait for it into the index, oldest first. Whether more of them may wait."""
    if (yield from current_dialect()) == "postgres":
        return (yield from postgres_search.take_in())
    late, more_late = _first((yield Statement(_NEXT_LATE, (TAKEN_AT_ONCE,), index=True)))
    if late is not None:
        # Before the counter moves: those above it that came late are in the range that is taken in next.
        yield Statement(_TAKE_IN_LATE + _UP_TO_COUNTER, (late,), index=True)
        yield Statement("DELETE FROM unindexed WHERE seq <= ?", (late,), index=True)
    last, more = _first((yield Statement(_NEXT, (TAKEN_AT_ONCE,), index=True)))
    if last is not None:
        yield Statement(_TAKE_IN, (last,), index=True)
        yield Statement("UPDATE counters SET value = ? WHERE name = 'indexed'", (last,), index=True)
    return more or more_late


def _first(waiting: list[Row]) -> tuple[int | None, bool]:
    """Of messages that wait, each with its size: the last that is taken in now, and whether more may wait."""
    last, size = None, 0
    for number, (seq, characters) in enumerate(waiting):
        size += characters
        if number and size > TAKEN_CHARACTERS:
            return last, True
        last = seq
    return last, len(waiting) == TAKEN_AT_ONCE


def take_out(session_key: int) -> Operation[None]:
    """Take a session's messages out of the index, before they are deleted."""
    yield Statement(_TAKE_OUT, (session_key,), index=True)
    yield Statement(
        "DELETE FROM unindexed WHERE seq IN (SELECT seq FROM messages WHERE session = ?)",
        (session_key,),
        only="sqlite",
    )


def rebuild_index() -> Operation[None]:
    """Make the index anew from the messages, whatever state it is in."""
    yield Statement("DROP TABLE IF EXISTS message_index")
    yield Statement("DROP VIEW IF EXISTS message_index_source")
    yield Statement("DROP INDEX IF EXISTS long_messages")
    for sql in INDEX_STATEMENTS:
        yield Statement(sql)
    yield Statement("INSERT INTO message_index (message_index) VALUES ('rebuild')")
    yield Statement("DELETE FROM unindexed")
    yield Statement(_ALL_INDEXED)
    yield Statement(MARK_INDEX_READY)
    yield INDEX_READY


def _scan(
    words: tuple[str, ...], where: SearchFilter, which: str = "", limit: int | None = None
) -> Statement:
    conditions, values = _conditions(where)
    contained, patterns = contains_all("m.text", words)
    sql = f"{_SCAN}{which}{conditions} AND {contained} ORDER BY m.seq DESC LIMIT ?"
    return Statement(sql, (*values, *patterns, where.limit if limit is None else limit))


def _conditions(where: SearchFilter) -> tuple[str, list[SqlValue]]:
    tests: dict[str, SqlValue] = {
        "s.id = ?": optional_escape(where.session_id),
        "m.role = ?": optional_escape(where.role),
        "s.source = ?": optional_escape(where.source),
        "s.model = ?": optional_escape(where.model),
        "m.created_at >= ?": where.after,
        "m.created_at < ?": where.before,
    }
    given = {test: value for test, value in tests.items() if value is not None}
    return "".join(f" AND {test}" for test in given), list(given.values())


def _hits(rows: list[Row], words: tuple[str, ...]) -> list[MessageHit]:
    return [
        MessageHit(session_id=unescape(id_), seq=seq, role=role, snippet=snippet(unescape(text), words))
        for id_, seq, role, text in rows
    ]
