"""Compression: other messages in the place of a conversation, whose history is kept.

In place, the old messages are archived and the new ones follow them in the same session. Into a child, the
old session ends and a new one of the same lineage begins. Either is one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence

from hermes_messages import ConfigurationError, StoreError
from hermes_messages.protocols import LeaseToken, SessionRecord
from hermes_store.backend import Operation, Row, Statement
from hermes_store.escaping import escape, unescape
from hermes_store.operations.access import WritableSession, open_for_writing
from hermes_store.operations.messages import PreparedMessage
from hermes_store.operations.reading import get_history, get_messages
from hermes_store.operations.sessions import get_session
from hermes_store.transfer_numbers import given_up_uid

__all__ = ["chain_ids", "compact_into_child", "conversations", "lineage_records", "replace", "tip"]

_LIVE = """
SELECT seq, uid, shape, text, body FROM messages
WHERE session = ? AND body IS NOT NULL AND archived_at IS NULL ORDER BY seq
"""
_OPEN_PLACE = "SELECT 1 FROM messages WHERE session = ? AND body IS NULL LIMIT 1"
_ARCHIVE = """
UPDATE messages SET archived_at = ? WHERE session = ? AND body IS NOT NULL AND archived_at IS NULL
"""
_ORIGINAL = "SELECT seq, coalesce(copy_of, seq) FROM messages WHERE session = ? AND uid = ?"
_GIVE_UP_UID = "UPDATE messages SET uid = ? WHERE seq = ?"
_INSERT = """
INSERT INTO messages (session, uid, role, shape, text, body, created_at, copy_of)
VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING seq
"""
_INSERT_CHILD = """
INSERT INTO sessions (id, source, title, model, provider, cwd, parent_id, lineage, prompt_hash, metadata,
                      created_at, updated_at)
SELECT ?, source, title, model, provider, cwd, id, coalesce(lineage, id), prompt_hash, metadata, ?, ?
FROM sessions WHERE key = ? RETURNING key
"""
_COPY_STATE = """
INSERT INTO session_state (session, name, value, updated_at)
SELECT ?, name, value, updated_at FROM session_state WHERE session = ?
"""
_END_PARENT = """
UPDATE sessions SET ended_at = coalesce(ended_at, ?), end_reason = 'compression', updated_at = ? WHERE key = ?
"""
_NEXT_IN_LINEAGE = "SELECT id FROM sessions WHERE parent_id = ? AND lineage IS NOT NULL LIMIT 1"
_CHAIN = """
SELECT id FROM sessions
WHERE id = coalesce((SELECT lineage FROM sessions WHERE id = ?), ?)
   OR lineage = coalesce((SELECT lineage FROM sessions WHERE id = ?), ?)
ORDER BY key
"""


def replace(
    session_id: str, messages: Sequence[PreparedMessage], token: LeaseToken | None
) -> Operation[tuple[int, ...]]:
    """Archive the conversation and store `messages` in its place; their sequence numbers.

    The same messages once more change nothing. Raises `StoreError` while a round is open, `LeaseLostError`.
    """
    _refuse_repeated_uids(messages)
    session = yield from open_for_writing(session_id, token)
    live = yield Statement(_LIVE, (session.key,))
    wanted = [(item.uid, *item.columns[1:]) for item in messages]
    if [tuple(row[1:]) for row in live] == wanted:
        return tuple(row[0] for row in live)
    yield from _refuse_open_rounds(session_id, session)
    yield Statement(_ARCHIVE, (session.now, session.key))
    return (yield from _store_anew(session.key, session, messages))


def compact_into_child(
    session_id: str, child_id: str, messages: Sequence[PreparedMessage], token: LeaseToken | None
) -> Operation[str]:
    """End the session and begin `child_id` with `messages` as the next of its lineage. Once: a repeated call
    finds the child. Raises `StoreError` when the session was compressed into another, or is in a round."""
    _refuse_repeated_uids(messages)
    session = yield from open_for_writing(session_id, token)
    made = yield Statement(_NEXT_IN_LINEAGE, (escape(session_id),))
    if made and made[0][0] == escape(child_id):
        return child_id
    if made or (yield from get_session(child_id)) is not None:
        taken = (
            f"was compressed into {unescape(made[0][0])!r} before" if made else f"can not become {child_id!r}"
        )
        raise StoreError(f"session {session_id!r} {taken}; nothing was changed")
    yield from _refuse_open_rounds(session_id, session)
    values = (escape(child_id), session.now, session.now, session.key)
    [(child_key,)] = yield Statement(_INSERT_CHILD, values)
    yield Statement(_COPY_STATE, (child_key, session.key))
    yield Statement(_END_PARENT, (session.now, session.now, session.key))
    yield from _store_anew(child_key, session, messages)
    return child_id


def chain_ids(session_id: str) -> Operation[list[str]]:
    """The ids of the session's lineage, from the first to the newest. Empty for an unknown session."""
    rows = yield Statement(_CHAIN, (escape(session_id),) * 4)
    return [unescape(row[0]) for row in rows]


def tip(session_id: str) -> Operation[str]:
    """The newest session of the lineage; the session itself when it is unknown."""
    ids = yield from chain_ids(session_id)
    return ids[-1] if ids else session_id


def lineage_records(session_id: str) -> Operation[list[SessionRecord]]:
    """The sessions of the lineage, from the first to the newest."""
    records: list[SessionRecord] = []
    for id_ in (yield from chain_ids(session_id)):
        record = yield from get_session(id_)
        assert record is not None, "it was found in this transaction"
        records.append(record)
    return records


def conversations(session_id: str) -> Operation[tuple[list[Row], list[Row]]]:
    """The newest session's messages, and the history of the whole lineage."""
    ids = yield from chain_ids(session_id)
    live = yield from get_messages(ids[-1] if ids else session_id, None, None)
    history: list[Row] = []
    for id_ in ids:
        history += yield from get_history(id_)
    return live, history


def _store_anew(
    key: int, source: WritableSession, messages: Sequence[PreparedMessage]
) -> Operation[tuple[int, ...]]:
    """Insert messages into session `key`. Those known in `source` are marked as copies, and in the same
    session take the identity over, so that a late retry finds them."""
    seqs: list[int] = []
    for message in messages:
        rows = yield Statement(_ORIGINAL, (source.key, message.uid))
        original = None
        if rows:
            seq, original = rows[0]
            if key == source.key:
                yield Statement(_GIVE_UP_UID, (given_up_uid(message.uid, seq), seq))
        role, shape, text, body = message.columns
        values = (key, message.uid, role, shape, text, body, source.now, original)
        [(seq,)] = yield Statement(_INSERT, values)
        seqs.append(seq)
    return tuple(seqs)


def _refuse_open_rounds(session_id: str, session: WritableSession) -> Operation[None]:
    if (yield Statement(_OPEN_PLACE, (session.key,))):
        raise StoreError(
            f"session {session_id!r} is inside a round of tool calls; nothing was changed. "
            "Store the results, or close the round, first"
        )


def _refuse_repeated_uids(messages: Sequence[PreparedMessage]) -> None:
    if len({message.uid for message in messages}) != len(messages):
        raise ConfigurationError("two messages have the same uid; nothing was changed")
