"""Sessions: making, finding, listing, describing, ending and deleting them."""

# ruff: noqa: S608 - the statements are put together from constants of this package

from __future__ import annotations

from collections.abc import Mapping

from hermes_messages import JsonValue
from hermes_messages.protocols import LeaseToken, SessionInfo, SessionRecord
from hermes_store.backend import Operation, SqlValue, Statement, current_time, on_session
from hermes_store.escaping import escape
from hermes_store.operations.access import find_session_key, open_for_writing
from hermes_store.operations.search import take_out
from hermes_store.rows import (
    decode_metadata,
    encode_metadata,
    optional_escape,
    prompt_hash,
    session_from_row,
)
from hermes_store.search_query import contains_all

__all__ = [
    "LAST_CHANGE",
    "delete_rows",
    "delete_session",
    "end_session",
    "ensure_session",
    "get_session",
    "list_sessions",
    "reopen_session",
    "set_title",
    "store_prompt",
    "update_meta",
]

_LIVE = "FROM messages AS m WHERE m.session = s.key AND m.body IS NOT NULL AND m.archived_at IS NULL"
_LAST_MESSAGE_AT = f"(SELECT m.created_at {_LIVE} ORDER BY m.seq DESC LIMIT 1)"
LAST_CHANGE = f"CASE WHEN {_LAST_MESSAGE_AT} > s.updated_at THEN {_LAST_MESSAGE_AT} ELSE s.updated_at END"
SELECT_SESSION = f"""
SELECT s.id, s.source, s.title, s.model, s.provider, s.cwd, s.parent_id, p.text, s.metadata,
       s.created_at, {LAST_CHANGE}, s.ended_at, s.end_reason, (SELECT count(*) {_LIVE}), s.api_calls,
       s.input_tokens, s.output_tokens, s.cache_read_tokens, s.cache_write_tokens, s.reasoning_tokens,
       s.cost_usd
FROM sessions AS s LEFT JOIN system_prompts AS p ON p.hash = s.prompt_hash
"""
_INSERT_SESSION = """
INSERT INTO sessions (id, source, title, model, provider, cwd, parent_id, prompt_hash, metadata,
                      created_at, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING
"""
_INSERT_PROMPT = "INSERT INTO system_prompts (hash, text) VALUES (?, ?) ON CONFLICT (hash) DO NOTHING"


_FIRST_COPIES = """
SELECT min(c.seq) FROM messages AS o JOIN messages AS c ON c.copy_of = o.seq AND c.session <> o.session
WHERE o.session = ? GROUP BY c.copy_of
"""
_KEEP_TEXT_OF_COPIES = f"INSERT OR IGNORE INTO unindexed (seq) {_FIRST_COPIES}"
_OTHER_COPIES_FOLLOW = f"""
UPDATE messages
SET copy_of = (SELECT min(c.seq) FROM messages AS c WHERE c.copy_of = messages.copy_of AND c.session <> ?)
WHERE session <> ? AND copy_of IN (SELECT o.seq FROM messages AS o WHERE o.session = ?)
AND seq NOT IN ({_FIRST_COPIES})
"""
_COPIES_BECOME_ORIGINALS = (
    f"UPDATE messages SET copy_of = NULL WHERE session <> ? AND seq IN ({_FIRST_COPIES})"
)


def get_session(session_id: str) -> Operation[SessionRecord | None]:
    """The session, or None."""
    rows = yield Statement(f"{SELECT_SESSION} WHERE s.id = ?", (escape(session_id),))
    return session_from_row(rows[0]) if rows else None


def ensure_session(session_id: str, info: SessionInfo, metadata: str) -> Operation[SessionRecord]:
    """The session, made from `info` and the encoded `metadata` when it does not exist yet."""
    yield on_session(session_id)
    known = yield from get_session(session_id)
    if known is not None:
        return known
    stored_prompt = yield from store_prompt(info.system_prompt)
    now = yield from current_time()
    yield Statement(
        _INSERT_SESSION,
        (
            escape(session_id),
            escape(info.source),
            optional_escape(info.title),
            optional_escape(info.model),
            optional_escape(info.provider),
            optional_escape(info.cwd),
            optional_escape(info.parent_session_id),
            stored_prompt,
            metadata,
            now,
            now,
        ),
    )
    made = yield from get_session(session_id)
    assert made is not None, "the row was inserted in this transaction"
    return made


def update_meta(
    session_id: str, system_prompt: str | None, metadata: Mapping[str, JsonValue] | None
) -> Operation[None]:
    """Set the prompt, merge the metadata; None leaves either alone."""
    key = yield from find_session_key(session_id)
    now = yield from current_time()
    if system_prompt is not None:
        stored_prompt = yield from store_prompt(system_prompt)
        yield Statement(
            "UPDATE sessions SET prompt_hash = ?, updated_at = ? WHERE key = ?", (stored_prompt, now, key)
        )
    if metadata is not None:
        [(stored,)] = yield Statement("SELECT metadata FROM sessions WHERE key = ?", (key,))
        merged = encode_metadata({**decode_metadata(stored), **metadata})
        yield Statement("UPDATE sessions SET metadata = ?, updated_at = ? WHERE key = ?", (merged, now, key))


def end_session(session_id: str, reason: str) -> Operation[None]:
    """Mark the session as ended."""
    key = yield from find_session_key(session_id)
    now = yield from current_time()
    yield Statement(
        "UPDATE sessions SET ended_at = ?, end_reason = ?, updated_at = ? WHERE key = ?",
        (now, escape(reason), now, key),
    )


def reopen_session(session_id: str) -> Operation[None]:
    """Take the mark of `end_session` away."""
    key = yield from find_session_key(session_id)
    yield Statement("UPDATE sessions SET ended_at = NULL, end_reason = NULL WHERE key = ?", (key,))


def set_title(session_id: str, title: str | None) -> Operation[None]:
    """Name the session, or take its name away."""
    key = yield from find_session_key(session_id)
    now = yield from current_time()
    yield Statement(
        "UPDATE sessions SET title = ?, updated_at = ? WHERE key = ?", (optional_escape(title), now, key)
    )


def list_sessions(
    source: str | None, words: tuple[str, ...], limit: int, offset: int, archived: bool
) -> Operation[list[SessionRecord]]:
    """Sessions, last changed first, whose title or id contains all `words`; with `archived` those too."""
    conditions: list[str] = [] if archived else ["s.archived_at IS NULL"]
    values: list[SqlValue] = []
    if source is not None:
        conditions.append("s.source = ?")
        values.append(escape(source))
    contained, patterns = contains_all("(s.id || ' ' || coalesce(s.title, ''))", words)
    conditions.append(contained)
    values += patterns
    order = f"ORDER BY {LAST_CHANGE} DESC, s.key DESC"
    # Which ones first: their messages are counted only for those that are returned.
    found = f"SELECT s.key FROM sessions AS s WHERE {' AND '.join(conditions)} {order} LIMIT ? OFFSET ?"
    sql = f"{SELECT_SESSION} WHERE s.key IN ({found}) {order}"
    rows = yield Statement(sql, (*values, limit, offset))
    return [session_from_row(row) for row in rows]


def delete_session(session_id: str, token: LeaseToken | None) -> Operation[bool]:
    """Delete the session and its messages; its children stay, without a parent. False: there was none."""
    if (yield from get_session(session_id)) is None:
        return False
    session = yield from open_for_writing(session_id, token)
    yield from delete_rows(session.key, session_id)
    return True


def delete_rows(key: int, session_id: str) -> Operation[None]:
    """Delete all rows of a session. What other sessions carried over from it becomes theirs."""
    yield from take_out(key)
    yield Statement(_KEEP_TEXT_OF_COPIES, (key,), only="sqlite")
    yield Statement(_OTHER_COPIES_FOLLOW, (key,) * 4)
    yield Statement(_COPIES_BECOME_ORIGINALS, (key, key))
    yield Statement("DELETE FROM messages WHERE session = ?", (key,))
    yield Statement("UPDATE sessions SET parent_id = NULL WHERE parent_id = ?", (escape(session_id),))
    rows = yield Statement("DELETE FROM sessions WHERE key = ? RETURNING prompt_hash", (key,))
    [(orphan,)] = rows
    yield Statement(
        "DELETE FROM system_prompts WHERE hash = ? "
        "AND NOT EXISTS (SELECT 1 FROM sessions WHERE prompt_hash = ?)",
        (orphan, orphan),
    )


def store_prompt(prompt: str | None) -> Operation[str | None]:
    """Store a system prompt once; the name under which sessions refer to it."""
    if prompt is None:
        return None
    hash_ = prompt_hash(prompt)
    yield Statement(_INSERT_PROMPT, (hash_, escape(prompt)))
    return hash_
