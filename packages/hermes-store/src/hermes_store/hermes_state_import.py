"""Reading the `state.db` of Hermes Agent: its documented columns, whichever of them a version has.

Source: https://hermes-agent.nousresearch.com/docs/developer-guide/session-storage (sessions, messages).
Structured content is stored there as JSON behind a marker; a message with `active` 0 was archived by a
compression or taken back.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncGenerator, Mapping
from typing import Any
from urllib.parse import quote

import aiosqlite

from hermes_messages import JsonObject, MessageFormatError, StoreSchemaError
from hermes_messages.openai_shape import messages_from_dicts
from hermes_store.escaping import escape
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
    try:
        async with aiosqlite.connect(f"file:{quote(path)}?mode=ro", uri=True) as database:
            database.row_factory = sqlite3.Row
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
            for session in _parents_first(sessions):
                rows = await database.execute_fetchall(
                    "SELECT * FROM messages WHERE session_id = ? ORDER BY id", (session["id"],)
                )
                messages, unreadable = _messages([dict(row) for row in rows])
                yield SessionDump(_session(session, lineages), messages), unreadable
    except sqlite3.Error as error:
        raise to_store_error(error, path) from error


def _parents_first(sessions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(sessions, key=lambda session: (session["started_at"] or 0, session["id"]))


def _lineages(sessions: list[dict[str, Any]]) -> dict[str, str]:
    """For each session that a compression made, the first of its chain."""
    by_id = {session["id"]: session for session in sessions}
    lineages: dict[str, str] = {}
    for session in sessions:
        root, seen = session, {session["id"]}
        while (parent := by_id.get(root.get("parent_session_id"))) is not None:
            if parent.get("end_reason") != _COMPRESSED or parent["id"] in seen:
                break
            root = parent
            seen.add(root["id"])
        if root is not session:
            lineages[session["id"]] = root["id"]
    return lineages


def _session(row: Mapping[str, Any], lineages: Mapping[str, str]) -> SessionLine:
    others = {name: value for name, value in row.items() if name not in _OWN_COLUMNS and value is not None}
    cost = row.get("actual_cost_usd")
    ended_at = row.get("ended_at")
    changed_at = ended_at or row["started_at"]
    lineage = lineages.get(row["id"])
    return SessionLine(
        id=escape(row["id"]),
        source=escape(row["source"]),
        title=optional_escape(row.get("title")),
        model=optional_escape(row.get("model")),
        provider=optional_escape(row.get("billing_provider")),
        cwd=optional_escape(row.get("cwd")),
        parent_id=optional_escape(row.get("parent_session_id")),
        lineage=optional_escape(lineage),
        system_prompt=optional_escape(row.get("system_prompt")),
        metadata=encode_metadata({"hermes": others} if others else {}),
        created_at=row["started_at"],
        updated_at=changed_at,
        ended_at=ended_at,
        end_reason=optional_escape(row.get("end_reason")),
        archived_at=changed_at if row.get("archived") else None,
        api_calls=row.get("api_call_count") or 0,
        input_tokens=row.get("input_tokens"),
        output_tokens=row.get("output_tokens"),
        cache_read_tokens=row.get("cache_read_tokens"),
        cache_write_tokens=row.get("cache_write_tokens"),
        reasoning_tokens=row.get("reasoning_tokens"),
        cost_usd=row.get("estimated_cost_usd") if cost is None else cost,
    )


def _messages(rows: list[dict[str, Any]]) -> tuple[tuple[MessageLine, ...], int]:
    lines: list[MessageLine] = []
    for row in rows:
        try:
            [message] = messages_from_dicts([_message_dict(row)])
        except (MessageFormatError, ValueError):  # a marker row, or a role of another program
            continue
        role, shape, text, body = message_to_columns(message)
        lines.append(
            MessageLine(
                seq=row["id"],
                uid=f"hermes/{row['id']}",
                role=role,
                shape=shape,
                text=text,
                body=body,
                created_at=row["timestamp"],
                archived_at=row["timestamp"] if row.get("active", 1) == 0 else None,
            )
        )
    return tuple(lines), len(rows) - len(lines)


def _message_dict(row: Mapping[str, Any]) -> JsonObject:
    message: JsonObject = {"role": row["role"], "content": _content(row.get("content"))}
    if row["role"] == "tool" and row.get("tool_name") is not None:
        message["name"] = row["tool_name"]
    for name in _PLAIN_COLUMNS:
        if row.get(name) is not None:
            message[name] = row[name]
    for name in _JSON_COLUMNS:
        if row.get(name):
            message[name] = json.loads(row[name])
    return message


def _content(stored: str | None) -> Any:
    if stored is not None and stored.startswith(_CONTENT_MARKERS):
        return json.loads(stored[len(_CONTENT_MARKERS[0]) :])
    return stored
