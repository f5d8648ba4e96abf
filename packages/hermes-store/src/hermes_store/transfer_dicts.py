"""A session as one plain dict, the form of `export_session`, for import."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, MsgspecError, Struct, UnsetType, convert

from hermes_messages import ConfigurationError, JsonValue, MessageFormatError, Usage
from hermes_messages.openai_shape import messages_from_dicts
from hermes_store.escaping import escape
from hermes_store.rows import encode_metadata, message_to_columns, optional_escape
from hermes_store.transfer_format import MessageLine, SessionDump, SessionLine

__all__ = ["dump_from_dict"]


class _Exported(Struct, kw_only=True):
    id: str
    source: str = "import"
    title: str | None = None
    model: str | None = None
    provider: str | None = None
    cwd: str | None = None
    parent_session_id: str | None = None
    system_prompt: str | None = None
    metadata: dict[str, Any] = {}
    created_at: float | UnsetType = UNSET
    updated_at: float | UnsetType = UNSET
    ended_at: float | None = None
    end_reason: str | None = None
    api_calls: int = 0
    usage: Usage = Usage()
    messages: list[dict[str, Any]]


def dump_from_dict(exported: Mapping[str, JsonValue]) -> SessionDump:
    """Raises `ConfigurationError` for what is no session. Messages get their place as identity."""
    try:
        session = convert(exported, _Exported)
        messages = messages_from_dicts(session.messages)
    except (MsgspecError, MessageFormatError) as error:
        raise ConfigurationError(f"this is no exported session: {error}; it was not imported") from None
    created_at = time.time() if session.created_at is UNSET else session.created_at
    usage = session.usage
    line = SessionLine(
        id=escape(session.id),
        source=escape(session.source),
        title=optional_escape(session.title),
        model=optional_escape(session.model),
        provider=optional_escape(session.provider),
        cwd=optional_escape(session.cwd),
        parent_id=optional_escape(session.parent_session_id),
        lineage=None,
        system_prompt=optional_escape(session.system_prompt),
        metadata=encode_metadata(session.metadata),
        created_at=created_at,
        updated_at=created_at if session.updated_at is UNSET else session.updated_at,
        ended_at=session.ended_at,
        end_reason=optional_escape(session.end_reason),
        archived_at=None,
        api_calls=session.api_calls,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        cost_usd=usage.cost_usd,
    )
    rows: list[MessageLine] = []
    for number, message in enumerate(messages):
        role, shape, text, body = message_to_columns(message)
        rows.append(
            MessageLine(
                seq=number,
                uid=f"import/{number}",
                role=role,
                shape=shape,
                text=text,
                body=body,
                created_at=created_at,
            )
        )
    return SessionDump(line, tuple(rows))
