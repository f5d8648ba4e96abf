"""One session out of a database, whole, and into another."""

# ruff: noqa: S608 - the statements are put together from constants of this package

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from hermes_messages import SessionNotFoundError
from hermes_store.backend import Operation, Row, SqlValue, Statement
from hermes_store.escaping import escape, unescape
from hermes_store.operations.sessions import store_prompt
from hermes_store.transfer_format import CallLine, MessageLine, SessionDump, SessionLine, StateLine
from hermes_store.transfer_numbers import given_up_uid, original_uid

__all__ = ["Inserted", "insert_session", "read_session", "session_ids"]

_SESSION_FIELDS = tuple(
    name for name in SessionLine.__struct_fields__ if name not in ("system_prompt", "lines")
)
_MESSAGE_FIELDS = tuple(name for name in MessageLine.__struct_fields__ if name != "pending")
_READ_SESSION = f"""
SELECT {", ".join(f"s.{name}" for name in _SESSION_FIELDS)}, p.text, s.key
FROM sessions AS s LEFT JOIN system_prompts AS p ON p.hash = s.prompt_hash WHERE s.id = ?
"""
_READ_MESSAGES = f"""
SELECT {", ".join(f"m.{name}" for name in _MESSAGE_FIELDS)}, r.pending
FROM messages AS m LEFT JOIN suspended_rounds AS r ON r.round = m.seq
WHERE m.session = ? ORDER BY m.seq
"""
_READ_CALLS = f"SELECT {', '.join(CallLine.__struct_fields__)} FROM calls WHERE session = ? ORDER BY number"
_READ_STATE = "SELECT name, value, updated_at FROM session_state WHERE session = ? ORDER BY name"


def _insert(table: str, *names: str) -> str:
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"


_INSERT_SESSION = (
    f"{_insert('sessions', *_SESSION_FIELDS, 'prompt_hash')} ON CONFLICT (id) DO NOTHING RETURNING key"
)
_INSERT_MESSAGE = f"{_insert('messages', *_MESSAGE_FIELDS[1:], 'session')} RETURNING seq"
_INSERT_CALL = _insert("calls", *CallLine.__struct_fields__, "session")
_READ_UIDS = """
SELECT m.seq, m.uid FROM messages AS m JOIN sessions AS s ON s.key = m.session WHERE s.id = ? ORDER BY m.seq
"""
_INSERT_STATE = _insert("session_state", *StateLine.__struct_fields__, "session")
_INSERT_SUSPENDED = _insert("suspended_rounds", "round", "session", "pending", "created_at")


class Inserted(Struct, frozen=True):
    """Whether the session is new, and the number that each of its messages has here."""

    is_new: bool
    seqs: dict[int, int]


def session_ids(source: str | None) -> Operation[list[str]]:
    """The ids of all sessions, oldest first, or of those from one source."""
    if source is None:
        rows = yield Statement("SELECT id FROM sessions ORDER BY key")
    else:
        rows = yield Statement("SELECT id FROM sessions WHERE source = ? ORDER BY key", (escape(source),))
    return [unescape(row[0]) for row in rows]


def read_session(session_id: str) -> Operation[SessionDump]:
    """Everything about the session. Raises `SessionNotFoundError`."""
    rows = yield Statement(_READ_SESSION, (escape(session_id),))
    if not rows:
        raise SessionNotFoundError(session_id)
    [(*values, prompt, key)] = rows
    session = SessionLine(**dict(zip(_SESSION_FIELDS, values, strict=True)), system_prompt=prompt)
    messages = yield Statement(_READ_MESSAGES, (key,))
    calls = yield Statement(_READ_CALLS, (key,))
    state = yield Statement(_READ_STATE, (key,))
    return SessionDump(
        session,
        tuple(MessageLine(**dict(zip(MessageLine.__struct_fields__, row, strict=True))) for row in messages),
        tuple(CallLine(**dict(zip(CallLine.__struct_fields__, row, strict=True))) for row in calls),
        tuple(StateLine(**dict(zip(StateLine.__struct_fields__, row, strict=True))) for row in state),
    )


def insert_session(dump: SessionDump, known: Mapping[int, int]) -> Operation[Inserted]:
    """Store a session as it was. When there is one of its id, that one is left alone.

    `known` has the new numbers of messages imported before, in which the originals of copied messages are.
    """
    line = dump.session
    prompt = yield from store_prompt(None if line.system_prompt is None else unescape(line.system_prompt))
    values: tuple[SqlValue, ...] = tuple(line.__getattribute__(name) for name in _SESSION_FIELDS)
    rows = yield Statement(_INSERT_SESSION, (*values, prompt))
    if not rows:
        return Inserted(False, (yield from _numbers_there(dump)))
    key = rows[0][0]
    seqs: dict[int, int] = {}
    for message in dump.messages:
        seqs[message.seq] = yield from _insert_message(key, message, seqs, known)
    for call in dump.calls:
        figures = (call.__getattribute__(name) for name in CallLine.__struct_fields__)
        yield Statement(_INSERT_CALL, (*figures, key))
    for item in dump.state:
        yield Statement(_INSERT_STATE, (item.name, item.value, item.updated_at, key))
    return Inserted(True, seqs)


def _insert_message(
    key: int, message: MessageLine, seqs: Mapping[int, int], known: Mapping[int, int]
) -> Operation[int]:
    row = {name: message.__getattribute__(name) for name in _MESSAGE_FIELDS[1:]}
    if message.round is not None:
        row["round"] = seqs.get(message.round)
    if message.copy_of is not None:
        row["copy_of"] = seqs.get(message.copy_of, known.get(message.copy_of))
    uid = original_uid(message.uid)
    if uid is not None:  # the number in it may be another message's here, so not for a moment
        row["uid"] = given_up_uid(message.uid, 0)
    [(seq,)] = yield Statement(_INSERT_MESSAGE, (*row.values(), key))
    if uid is not None:
        yield Statement("UPDATE messages SET uid = ? WHERE seq = ?", (given_up_uid(uid, seq), seq))
    if message.pending is not None:
        yield Statement(_INSERT_SUSPENDED, (seq, key, message.pending, message.created_at))
    return int(seq)


def _numbers_there(dump: SessionDump) -> Operation[dict[int, int]]:
    """The numbers that messages of the dump have in the session that is there: a later session of the file
    may have copies of them."""
    rows = yield Statement(_READ_UIDS, (dump.session.id,))
    there = dict(_by_identity(rows))
    ours = _by_identity((message.seq, message.uid) for message in dump.messages)
    return {seq: there[identity] for identity, seq in ours if identity in there}


def _by_identity(rows: Iterable[Row]) -> Iterator[tuple[tuple[str, int], int]]:
    """Numbers of messages by uid; of those that had one uid after each other, also by which it was."""
    times: Counter[str] = Counter()
    for seq, uid in rows:
        first_uid = original_uid(uid) or uid
        times[first_uid] += 1
        yield (first_uid, times[first_uid]), seq
