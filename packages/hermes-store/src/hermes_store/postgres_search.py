"""The search index on PostgreSQL: a tsvector for each message, made from our own words.

The index answers which messages have all the words; that they stand side by side where a search asks for it
is looked up in the text itself, since a tsvector forgets places in long texts. Texts that are too long for
the index are kept out of it and looked through by every search.
"""

# ruff: noqa: S608 - the statements are put together from constants of this package

from __future__ import annotations

from collections.abc import Sequence

from hermes_store.backend import Operation, Row, SqlValue, Statement
from hermes_store.escaping import unescape
from hermes_store.postgres_words import contains_phrase, query_text, vector_text, words_of
from hermes_store.search_query import contains_all

__all__ = ["BESIDE_OTHERS", "empty_index", "find", "has_unindexed", "take_in"]

BESIDE_OTHERS = Statement("beside others", only="postgres")
"""First statement of a write that needs no session, only that nobody works alone meanwhile."""

LONGEST_INDEXED = 200_000
"""Bytes of a text that the index takes; making words of it takes some milliseconds of the event loop."""
TAKEN_AT_ONCE = 500
TAKEN_BYTES = 200_000
"""What one transaction puts into the index, at most."""
_FIRST_LOOK = 100
_PARAMETERS_AT_ONCE = 100

_COLUMNS = "SELECT s.id, m.seq, m.role, m.text"
_TABLES = """
FROM message_index AS i JOIN messages AS m ON m.seq = i.seq JOIN sessions AS s ON s.key = m.session
"""
_FIND = f"{_COLUMNS} {_TABLES} WHERE i.words @@ CAST(? AS tsquery)"
_BEST_FIRST = " ORDER BY ts_rank(i.words, CAST(? AS tsquery), 2) DESC, m.seq DESC LIMIT ? OFFSET ?"
_TOO_LONG = f"{_COLUMNS} {_TABLES} WHERE i.words IS NULL"
_WAITING = """
SELECT u.seq, octet_length(m.text) FROM unindexed AS u JOIN messages AS m ON m.seq = u.seq
ORDER BY u.seq LIMIT ? FOR UPDATE OF u
"""
_PUT = """
INSERT INTO message_index (seq, words) VALUES (?, CAST(? AS tsvector))
ON CONFLICT (seq) DO UPDATE SET words = excluded.words
"""
_WANTED = "body IS NOT NULL AND text <> '' AND copy_of IS NULL"


def find(
    words: tuple[str, ...], conditions: str, values: Sequence[SqlValue], limit: int
) -> Operation[list[Row]]:
    """Messages that contain `words`, best first: session id, seq, role, text."""
    phrases = [words_of(word) for word in words]
    if limit <= 0 or not all(phrases):
        return []
    query = query_text(phrases)
    long = [phrase for phrase in phrases if len(phrase) > 1]
    found: list[Row] = []
    offset, look = 0, limit if not long else max(limit, _FIRST_LOOK)
    while len(found) < limit:
        sql = f"{_FIND}{conditions}{_BEST_FIRST}"
        rows = yield Statement(sql, (query, *values, query, look, offset), index=True, only="postgres")
        found += [row for row in rows if _has_phrases(row[3], long)]
        if len(rows) < look:
            break
        offset, look = offset + look, look * 4
    if len(found) < limit:
        contained, patterns = contains_all("m.text", words)
        sql = f"{_TOO_LONG}{conditions} AND {contained} ORDER BY m.seq DESC LIMIT ?"
        found += yield Statement(sql, (*values, *patterns, limit), index=True, only="postgres")
    return found[:limit]


def has_unindexed() -> Operation[bool]:
    """Whether there are messages that the index could take in."""
    rows = yield Statement("SELECT 1 FROM unindexed LIMIT 1", index=True, only="postgres")
    return bool(rows)


def take_in() -> Operation[bool]:
    """Put messages that wait for it into the index, oldest first. Whether more of them may wait."""
    yield BESIDE_OTHERS
    waiting = yield Statement(_WAITING, (TAKEN_AT_ONCE,), index=True, only="postgres")
    chosen, size = 0, 0
    for _, length in waiting:
        size += length if length <= LONGEST_INDEXED else 0
        if chosen and size > TAKEN_BYTES:
            break
        chosen += 1
    taken = waiting[:chosen]
    short = [seq for seq, length in taken if length <= LONGEST_INDEXED]
    for seq, length in taken:
        if length > LONGEST_INDEXED:
            yield Statement(_PUT, (seq, None), index=True, only="postgres")
    for start in range(0, len(short), _PARAMETERS_AT_ONCE):
        seqs = short[start : start + _PARAMETERS_AT_ONCE]
        texts = yield Statement(f"SELECT seq, text FROM messages WHERE seq IN ({_places(seqs)})", tuple(seqs))
        for seq, text in texts:
            vector = vector_text(unescape(text))
            yield Statement(_PUT, (seq, vector), index=True, only="postgres")
    seqs = [seq for seq, _ in taken]
    for start in range(0, len(seqs), _PARAMETERS_AT_ONCE):
        part = seqs[start : start + _PARAMETERS_AT_ONCE]
        yield Statement(f"DELETE FROM unindexed WHERE seq IN ({_places(part)})", tuple(part))
    return len(taken) < len(waiting) or len(waiting) == TAKEN_AT_ONCE


def empty_index() -> Operation[None]:
    """Make the index anew, with every message still to be put into it, whatever state it is in."""
    for statement in (
        "DROP TABLE IF EXISTS message_index",
        *INDEX_TABLE,
        "DELETE FROM unindexed",
        f"INSERT INTO unindexed (seq) SELECT seq FROM messages WHERE {_WANTED}",
    ):
        yield Statement(statement)


INDEX_TABLE = (
    """
    CREATE TABLE message_index (
        seq bigint PRIMARY KEY REFERENCES messages (seq) ON DELETE CASCADE,
        words tsvector
    )
    """,
    "CREATE INDEX message_index_words ON message_index USING gin (words)",
    "CREATE INDEX message_index_too_long ON message_index (seq) WHERE words IS NULL",
)
"""The table of the index, as schema 1 makes it."""


def _has_phrases(text: str, phrases: Sequence[Sequence[str]]) -> bool:
    if not phrases:
        return True
    words = words_of(unescape(text))
    return all(contains_phrase(words, phrase) for phrase in phrases)


def _places(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
