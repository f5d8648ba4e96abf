"""Reading the `state.db` of Hermes Agent: its documented columns, whichever of them a version has.

Source: https://hermes-agent.nousresearch.com/docs/developer-guide/session-storage (sessions, messages).
Structured content is stored there as JSON behind a marker; a message with `active` 0 was archived by a
compression or taken back.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

import aiosqlite

from hermes_messages import JsonObject, MessageFormatError, StoreSchemaError
from hermes_messages.arrivals import Arrival
from hermes_messages.openai_shape import messages_from_dicts
from hermes_store.escaping import escape
from hermes_store.hermes_values import as_count, as_json, as_number, as_text, text_from_bytes
from hermes_store.rows import encode_metadata, message_to_columns, optional_escape
from hermes_store.sqlite_errors import to_store_error
from hermes_store.transfer_format import MessageLine, SessionDump, SessionLine

__all__ = ["read_hermes_state"]

_CONTENT_MARKERS = ("\x00json:", "\x01json:")
_JSON_COLUMNS = ("tool_calls", "reasoning_details", "codex_reasoning_items", "codex_message_items")
_PLAIN_COLUMNS = ("tool_call_id", "finish_reason", "reasoning", "reasoning_content")
_NEEDED = {"sessions": {"id", "source", "started_at"}, "messages": {"id", "session_id", "role", "timestamp"}}
_COMPRESSED = "compression"
_OWN_COLUMNS = frozenset(
    [
        "id",
        "source",
        "title",
        "model",
        "system_prompt",
        "parent_session_id",
        "started_at",
        "ended_at",
        "end_reason",
        "cwd",
        "billing_provider",
        "message_count",
        "tool_call_count",
        "api_call_count",
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "reasoning_tokens",
        "archived",
    ]
)


async def read_hermes_state(path: str) -> AsyncGenerator[tuple[SessionDump, int], None]:
    """Each session, parents before their children, and how many of its rows are no messages.

    Raises `StoreSchemaError` for another database, `StoreError`.
    """
    arrival = Arrival(sqlite3.Connection.close)
    try:
        async with aiosqlite.Connection(partial(_connect, path, arrival), iter_chunk_size=64) as database:
            arrival.take()
            database.row_factory = sqlite3.Row
            database.text_factory = text_from_bytes
            for table, needed in _NEEDED.items():
                found = {
                    row["name"] for row in await database.execute_fetchall(f"PRAGMA table_info({table})")
                }
                if not needed <= found:
                    raise StoreSchemaError(
                        f"{path} is no state.db of Hermes Agent, {table} lacks {sorted(needed - found)}. "
                        "Nothing was imported"
                    )
            sessions = [dict(row) for row in await database.execute_fetchall("SELECT * FROM sessions")]
            lineages = _lineages(sessions)
            for session in sorted(sessions, key=_age):  # parents before their children
                rows = await database.execute_fetchall(
                    "SELECT * FROM messages WHERE session_id = ? ORDER BY id", (session["id"],)
                )
                line = _session(session, lineages)
                messages, unreadable = _messages([dict(row) for row in rows], line.created_at)
                yield SessionDump(line, messages), unreadable
    except sqlite3.Error as error:
        raise to_store_error(error, path) from error
    finally:
        arrival.give_up()  # where nobody was there to take it


def _connect(path: str, arrival: Arrival[sqlite3.Connection]) -> sqlite3.Connection:
    # Whichever thread comes later closes one that nobody takes.
    connection = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, check_same_thread=False)
    arrival.come(connection)
    return connection


def _age(session: Mapping[str, Any]) -> tuple[float, str]:
    return as_number(session["started_at"]) or 0.0, _id(session)


def _id(session: Mapping[str, Any]) -> str:
    return as_text(session["id"]) or "hermes"


def _lineages(sessions: list[dict[str, Any]]) -> dict[str, str]:
    """For each session that a compression made, the first of its chain."""
    by_id = {_id(session): session for session in sessions}
    lineages: dict[str, str] = {}
    for id_ in by_id:
        root, seen = id_, {id_}
        while (parent := as_text(by_id[root].get("parent_session_id")) or "") in by_id:
            if parent in seen or by_id[parent].get("end_reason") != _COMPRESSED:
                break
            root = parent
            seen.add(root)
        if root != id_:
            lineages[id_] = root
    return lineages


def _session(row: Mapping[str, Any], lineages: Mapping[str, str]) -> SessionLine:
    others = {
        name: as_json(value) for name, value in row.items() if name not in _OWN_COLUMNS and value is not None
    }

    def text(name: str) -> str | None:
        return optional_escape(as_text(row.get(name)))

    def count(name: str) -> int | None:
        return as_count(row.get(name))

    cost = as_number(row.get("actual_cost_usd"))
    started_at = as_number(row["started_at"]) or 0.0
    ended_at = as_number(row.get("ended_at"))
    changed_at = ended_at or started_at
    return SessionLine(
        id=escape(_id(row)),
        source=text("source") or "",
        title=text("title"),
        model=text("model"),
        provider=text("billing_provider"),
        cwd=text("cwd"),
        parent_id=text("parent_session_id"),
        lineage=optional_escape(lineages.get(_id(row))),
        system_prompt=text("system_prompt"),
        metadata=encode_metadata({"hermes": others} if others else {}),
        created_at=started_at,
        updated_at=changed_at,
        ended_at=ended_at,
        end_reason=text("end_reason"),
        archived_at=changed_at if row.get("archived") else None,
        api_calls=count("api_call_count") or 0,
        input_tokens=count("input_tokens"),
        output_tokens=count("output_tokens"),
        cache_read_tokens=count("cache_read_tokens"),
        cache_write_tokens=count("cache_write_tokens"),
        reasoning_tokens=count("reasoning_tokens"),
        cost_usd=as_number(row.get("estimated_cost_usd")) if cost is None else cost,
    )


def _messages(rows: list[dict[str, Any]], started_at: float) -> tuple[tuple[MessageLine, ...], int]:
    lines: list[MessageLine] = []
    for number, row in enumerate(rows):
        try:
            [message] = messages_from_dicts([_message_dict(row)])
        except (MessageFormatError, ValueError, RecursionError):  # a marker row, a role of another program
            continue
        role, shape, text, body = message_to_columns(message)
        id_, time = as_count(row["id"]), as_number(row["timestamp"])
        created_at = started_at if time is None else time
        lines.append(
            MessageLine(
                seq=number,
                uid=f"hermes/row/{number}" if id_ is None else f"hermes/{id_}",
                role=role,
                shape=shape,
                text=text,
                body=body,
                created_at=created_at,
                archived_at=created_at if row.get("active", 1) == 0 else None,
            )
        )
    return tuple(lines), len(rows) - len(lines)


def _message_dict(row: Mapping[str, Any]) -> JsonObject:
    message: JsonObject = {"role": as_text(row["role"]), "content": _content(as_text(row.get("content")))}
    if message["role"] == "tool" and row.get("tool_name") is not None:
        message["name"] = as_text(row["tool_name"])
    for name in _PLAIN_COLUMNS:
        if row.get(name) is not None:
            message[name] = as_text(row[name])
    for name in _JSON_COLUMNS:
        if row.get(name):
            message[name] = json.loads(as_text(row[name]) or "null")
    return message


def _content(stored: str | None) -> Any:
    if stored is not None and stored.startswith(_CONTENT_MARKERS):
        return json.loads(stored[len(_CONTENT_MARKERS[0]) :])
    return stored
