"""Searching the text of messages: through the index where it can answer, else by a scan."""

from __future__ import annotations

from typing import assert_never

from msgspec import Struct

from hermes_messages.protocols import MessageHit
from hermes_store.backend import INDEX_READY, Operation, Row, SqlValue, Statement
from hermes_store.escaping import escape, unescape
from hermes_store.migrations import INDEX_STATEMENTS, MARK_INDEX_READY
from hermes_store.search_query import Blank, Indexed, Plan, Scan, contains_all, snippet

__all__ = ["SearchFilter", "rebuild_index", "search"]

_COLUMNS = "SELECT s.id, m.seq, m.role, m.text"
_INDEXED = f"""
{_COLUMNS} FROM message_index
JOIN messages AS m ON m.seq = message_index.rowid
JOIN sessions AS s ON s.key = m.session
WHERE message_index MATCH ?
"""
_SCAN = f"{_COLUMNS} FROM messages AS m JOIN sessions AS s ON s.key = m.session WHERE m.body IS NOT NULL"


class SearchFilter(Struct, frozen=True, kw_only=True):
    """Where to search. None means anywhere."""

    session_id: str | None = None
    role: str | None = None
    source: str | None = None
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
            sql = f"{_INDEXED}{conditions} ORDER BY message_index.rank LIMIT ?"
            rows = yield Statement(sql, (match, *values, where.limit), index=True)
            return _hits(rows or (yield _scan(words, where)), words)
        case unreachable:
            assert_never(unreachable)


def rebuild_index() -> Operation[None]:
    """Make the index anew from the messages, whatever state it is in."""
    yield Statement("DROP TABLE IF EXISTS message_index")
    yield Statement("DROP VIEW IF EXISTS message_index_source")
    for sql in INDEX_STATEMENTS:
        yield Statement(sql)
    yield Statement("INSERT INTO message_index (message_index) VALUES ('rebuild')")
    yield Statement(MARK_INDEX_READY)
    yield INDEX_READY


def _scan(words: tuple[str, ...], where: SearchFilter) -> Statement:
    conditions, values = _conditions(where)
    contained, patterns = contains_all("m.text", words)
    sql = f"{_SCAN}{conditions} AND {contained} ORDER BY m.seq DESC LIMIT ?"
    return Statement(sql, (*values, *patterns, where.limit))


def _conditions(where: SearchFilter) -> tuple[str, list[SqlValue]]:
    columns = {"s.id": where.session_id, "m.role": where.role, "s.source": where.source}
    given = {column: escape(value) for column, value in columns.items() if value is not None}
    return "".join(f" AND {column} = ?" for column in given), list(given.values())


def _hits(rows: list[Row], words: tuple[str, ...]) -> list[MessageHit]:
    return [
        MessageHit(session_id=unescape(id_), seq=seq, role=role, snippet=snippet(unescape(text), words))
        for id_, seq, role, text in rows
    ]
