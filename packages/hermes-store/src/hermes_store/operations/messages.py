"""Transcripts: appending, reading, and the rounds of tool calls whose results come one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from msgspec import Struct

from hermes_messages import AssistantMessage, ConfigurationError, Message, StoreError, ToolCall, ToolMessage
from hermes_messages.protocols import LeaseToken, ToolRound
from hermes_store.backend import (
    OneInsert,
    Operation,
    Row,
    SqlValue,
    Statement,
    current_time,
    on_session,
    without_returning,
)
from hermes_store.escaping import escape
from hermes_store.operations.access import WritableSession, find_session_key, open_for_writing
from hermes_store.records import InterruptedCall
from hermes_store.rows import (
    MessageColumns,
    key_text,
    message_from_columns,
    message_to_columns,
)

__all__ = [
    "FREE_TO_WRITE",
    "WRITES_UNDER_LEASE",
    "Append",
    "PreparedMessage",
    "append",
    "begin_round",
    "close_open_rounds",
    "interrupted_calls",
    "open_rounds",
    "set_result",
]

UNKNOWN_OUTCOME = (
    "[interrupted: the process ended before the result of this call was recorded. "
    "Its outcome is unknown: it may have run. It was not run again.]"
)

_INSERT = """
INSERT INTO messages (session, uid, role, round, position, shape, text, body, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (session, uid) DO NOTHING RETURNING seq
"""
# One statement for the whole of an ordinary append: the session, the lease rule of `fencing`, the identity.
# When it inserts nothing, the slow way finds out why.
_APPEND = """
INSERT INTO messages (session, uid, role, shape, text, body, created_at)
SELECT s.key, ?, ?, ?, ?, ?, ? FROM sessions AS s WHERE s.id = ? AND {allowed}
ON CONFLICT (session, uid) DO NOTHING RETURNING seq
"""
FREE_TO_WRITE = (
    "NOT EXISTS (SELECT 1 FROM leases AS l "
    "WHERE l.lineage = coalesce(s.lineage, s.id) AND l.expires_at > {now})"
)
"""Condition on a row `s` of sessions: the lease rule of `fencing` for a write that has no token."""
WRITES_UNDER_LEASE = (
    "EXISTS (SELECT 1 FROM leases AS l WHERE l.lineage = coalesce(s.lineage, s.id) AND l.number = {lease})"
)
"""The same for one that has."""
_APPEND_WITHOUT_TOKEN = _APPEND.format(allowed=FREE_TO_WRITE.format(now="?"))
_APPEND_WITH_TOKEN = _APPEND.format(allowed=WRITES_UNDER_LEASE.format(lease="?"))
_INSERT_WITHOUT_TOKEN = without_returning(_APPEND_WITHOUT_TOKEN)
_INSERT_WITH_TOKEN = without_returning(_APPEND_WITH_TOKEN)
_FIND = "SELECT seq FROM messages WHERE session = ? AND uid = ?"
_FILL = """
UPDATE messages SET shape = ?, text = ?, body = ?, created_at = ?
WHERE seq = ? AND session = ? AND round = ? AND position = ? AND body IS NULL RETURNING seq
"""
_PLACE_EXISTS = "SELECT 1 FROM messages WHERE seq = ? AND session = ? AND round = ? AND position = ?"
_PLACES_OF_OPEN_ROUNDS = """
SELECT place.round, place.seq FROM messages AS place
WHERE place.round IN (
    SELECT open.round FROM messages AS open JOIN sessions AS s ON s.key = open.session
    WHERE s.id = ? AND open.body IS NULL
) ORDER BY place.round, place.position
"""
_OPEN_PLACES = """
SELECT place.seq, place.round, place.position, asked.shape, asked.text, asked.body
FROM messages AS place JOIN messages AS asked ON asked.seq = place.round
WHERE place.session = ? AND place.body IS NULL
AND NOT EXISTS (SELECT 1 FROM suspended_rounds AS s WHERE s.round = place.round) ORDER BY place.seq
"""
_NO_LONGER_SUSPENDED = """
DELETE FROM suspended_rounds WHERE round = ?
AND NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.round = suspended_rounds.round AND m.body IS NULL)
"""
_TO_INDEX = "INSERT INTO unindexed (seq) VALUES (?)"


_MESSAGES: tuple[type, ...] = get_args(Message)


class PreparedMessage(Struct, frozen=True):
    """A message encoded before any transaction begins, so that bad input has no side effect."""

    uid: str
    columns: MessageColumns

    @classmethod
    def of(cls, uid: str, message: Message) -> PreparedMessage:
        """The message with its identity, as columns. Raises `ConfigurationError` for what is no message."""
        given: object = message
        if not isinstance(given, _MESSAGES):
            raise ConfigurationError(
                f"a session stores messages of hermes_messages, not {type(given).__name__}; "
                "hermes_messages.messages_from_dicts reads dicts. Nothing was stored"
            )
        return cls(key_text(uid, "the uid of a message"), message_to_columns(message))


class Append(OneInsert, frozen=True):
    """Store one message; its sequence number, also where the uid is known, and then nothing is added."""

    session_id: str
    message: PreparedMessage
    token: LeaseToken | None

    @property
    def sql(self) -> str:
        """The guarded INSERT, as SQLite runs it."""
        return _INSERT_WITHOUT_TOKEN if self.token is None else _INSERT_WITH_TOKEN

    def values(self, now: float) -> tuple[SqlValue, ...]:
        """Its values at the database's time `now`."""
        message, token = self.message, self.token
        allowed_by = now if token is None else token.number
        return message.uid, *message.columns, now, escape(self.session_id), allowed_by

    @property
    def size(self) -> int:
        """How many characters it stores."""
        _, _, text, body = self.message.columns
        return len(text) + len(body)

    def __call__(self) -> Operation[int]:
        """The whole operation. Raises `SessionNotFoundError`, `LeaseLostError`."""
        [seq] = yield from append(self.session_id, (self.message,), self.token)
        return seq


def append(
    session_id: str, messages: Sequence[PreparedMessage], token: LeaseToken | None
) -> Operation[tuple[int, ...]]:
    """Store messages in order; a known uid adds nothing. The sequence number of each."""
    yield on_session(session_id)
    now = yield from current_time()
    id_ = escape(session_id)
    sql = _APPEND_WITHOUT_TOKEN if token is None else _APPEND_WITH_TOKEN
    allowed_by = now if token is None else token.number
    if not messages:
        yield from open_for_writing(session_id, token)
    seqs: list[int] = []
    for message in messages:
        values = (message.uid, *message.columns, now, id_, allowed_by)
        rows = yield Statement(sql, values, inserts=True)
        if not rows:
            session = yield from open_for_writing(session_id, token)
            rows = yield Statement(_FIND, (session.key, message.uid))
        seqs.append(rows[0][0])
    return tuple(seqs)


def begin_round(
    session_id: str, message: PreparedMessage, calls: int, token: LeaseToken | None
) -> Operation[ToolRound]:
    """Store an assistant message and an open place for the result of each of its calls.

    A known uid gives the round that it began; raises `StoreError` when it began none.
    """
    session = yield from open_for_writing(session_id, token)
    seq, is_new = yield from _insert(session, message)
    if not is_new:
        rows = yield Statement("SELECT seq FROM messages WHERE round = ? ORDER BY position", (seq,))
        if len(rows) != calls:
            raise StoreError(
                f"message {message.uid!r} is stored and began no such round; nothing was changed"
            )
        return ToolRound(session_id, seq, tuple(row[0] for row in rows))
    places: list[int] = []
    for position in range(calls):
        uid = f"{message.uid}/result/{position}"
        values = (session.key, uid, "tool", seq, position, 0, "", None, session.now)
        rows = yield Statement(_INSERT, values, inserts=True)
        if not rows:
            raise StoreError(f"session {session_id!r} already has a message {uid!r}; nothing was stored")
        places.append(rows[0][0])
    return ToolRound(session_id, seq, tuple(places))


def set_result(
    round_: ToolRound, position: int, columns: MessageColumns, token: LeaseToken | None
) -> Operation[None]:
    """Fill an open place; a filled one stays as it is."""
    session = yield from open_for_writing(round_.session_id, token)
    seq = round_.result_seqs[position]
    if (yield from _fill(session, seq, round_.assistant_seq, position, columns)):
        yield Statement(_NO_LONGER_SUSPENDED, (round_.assistant_seq,))
        return
    known = yield Statement(_PLACE_EXISTS, (seq, session.key, round_.assistant_seq, position))
    if not known:
        raise StoreError(f"session {round_.session_id!r} keeps no place {seq} for a tool result")


def open_rounds(session_id: str) -> Operation[list[ToolRound]]:
    """The rounds that lack a result, oldest first."""
    rows = yield Statement(_PLACES_OF_OPEN_ROUNDS, (escape(session_id),))
    places: dict[int, list[int]] = {}
    for round_, seq in rows:
        places.setdefault(round_, []).append(seq)
    return [ToolRound(session_id, round_, tuple(seqs)) for round_, seqs in places.items()]


def interrupted_calls(session_id: str) -> Operation[list[InterruptedCall]]:
    """The calls without a result, oldest first, but for those of suspended rounds. Raises
    `SessionNotFoundError`."""
    key = yield from find_session_key(session_id)
    rounds = {round_.assistant_seq: round_ for round_ in (yield from open_rounds(session_id))}
    rows = yield Statement(_OPEN_PLACES, (key,))
    return [InterruptedCall(rounds[row[1]], row[2], _call_at(row)) for row in rows]


def close_open_rounds(session_id: str, token: LeaseToken | None) -> Operation[int]:
    """Give every open place a result of status `unknown`; how many."""
    session = yield from open_for_writing(session_id, token)
    rows = yield Statement(_OPEN_PLACES, (session.key,))
    for row in rows:
        seq, round_, position, *_ = row
        call = _call_at(row)
        result = ToolMessage(call.id, UNKNOWN_OUTCOME, name=call.name, status="unknown")
        columns = message_to_columns(result)
        yield from _fill(session, seq, round_, position, columns)
    return len(rows)


def _call_at(row: Row) -> ToolCall:
    """The call that an open place waits for."""
    _, _, position, shape, text, body = row
    asked = message_from_columns(shape, text, body)
    assert isinstance(asked, AssistantMessage), "only begin_round makes places"
    return asked.tool_calls[position]


def _insert(session: WritableSession, message: PreparedMessage) -> Operation[tuple[int, bool]]:
    """The message's sequence number, and whether it is new."""
    role, shape, text, body = message.columns
    values = (session.key, message.uid, role, None, None, shape, text, body, session.now)
    rows = yield Statement(_INSERT, values, inserts=True)
    if not rows:
        [(known,)] = yield Statement(_FIND, (session.key, message.uid))
        return known, False
    seq: int = rows[0][0]
    return seq, True


def _fill(
    session: WritableSession, seq: int, round_: int, position: int, columns: MessageColumns
) -> Operation[bool]:
    _, shape, text, body = columns
    rows = yield Statement(_FILL, (shape, text, body, session.now, seq, session.key, round_, position))
    if rows and text:
        yield Statement(_TO_INDEX, (seq,), only="sqlite")
    return bool(rows)
