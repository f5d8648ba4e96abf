"""`session_search`: what was said in earlier conversations, found in a store that can be searched."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from hermes_messages import AssistantMessage, Message, content_text
from hermes_messages.abilities import supports
from hermes_messages.protocols import (
    MessageHit,
    SessionStore,
    StoredMessage,
    SupportsAvailability,
    SupportsSearch,
    Tool,
    ToolCallContext,
    Toolset,
    TurnContext,
)
from hermes_tools.errors import ToolFailure
from hermes_tools.tool import tool
from hermes_tools.toolsets import SupportsRefresh

__all__ = ["SessionSearchToolset"]

MOST_HITS = 50
NEIGHBOURS = 5
LONGEST_MESSAGE = 2_000
_NO_STORE = "there is no session store"
_NO_SEARCH = "the session store can not be searched"


class SessionSearchToolset:
    """The toolset `session_search`. It is absent where the turn has no store that can be searched."""

    name = "session_search"

    def __init__(self) -> None:
        self._reason: str | None = None

        @tool(scheduling="parallel", idempotent=True)
        async def session_search(
            context: ToolCallContext,
            query: str = "",
            session_id: str | None = None,
            around: int | None = None,
            role: Literal["user", "assistant", "tool"] | None = None,
            limit: int = 10,
        ) -> str:
            """Find messages of earlier conversations. With session_id and around: read what was said there.

            Args:
                query: words that must all occur
                session_id: search this conversation only
                around: number of a message found before
                role: who said it
                limit: most results
            """
            store = context.round.store
            reason = _reason_of(store)
            if store is None or reason is not None:
                raise ToolFailure(reason or _NO_STORE)
            if around is not None:
                return await _read(store, session_id, around)
            return await _search(store, query, session_id, context.round.session_id, role, limit)

        self._tools: tuple[Tool, ...] = (session_search,)

    @property
    def tools(self) -> Sequence[Tool]:
        """Its one tool."""
        return self._tools

    async def refresh(self, context: TurnContext) -> None:
        """See what store the turn has."""
        self._reason = _reason_of(context.store)

    def unavailable_reason(self) -> str | None:
        """Says what the store lacks, if it lacks anything."""
        return self._reason


def _reason_of(store: SessionStore | None) -> str | None:
    if store is None:
        return _NO_STORE
    return None if supports(store, SupportsSearch) else _NO_SEARCH


async def _search(
    store: SessionStore, query: str, wanted: str | None, own: str, role: str | None, limit: int
) -> str:
    """Hits by conversation. The conversation that asks is left out unless it is asked for."""
    if not query.strip():
        raise ToolFailure("the query is empty")
    assert supports(store, SupportsSearch)
    limit = min(max(1, limit), MOST_HITS)
    own_hits = 0 if wanted else limit  # there may be so many of one's own before the others
    hits = await store.search_messages(query, session_id=wanted, role=role, limit=limit + own_hits)
    groups: dict[str, list[MessageHit]] = {}
    for hit in [hit for hit in hits if wanted or hit.session_id != own][:limit]:
        groups.setdefault(hit.session_id, []).append(hit)
    if not groups:
        return f"nothing found for {query.strip()}"
    parts = []
    for session_id, found in groups.items():
        lines = [f"{hit.seq} {hit.role}: {' '.join(hit.snippet.split())}" for hit in found]
        parts.append("\n".join([await _heading(store, session_id), *lines]))
    return "\n\n".join([*parts, "[To read more: session_id and around, the number before the role.]"])


async def _heading(store: SessionStore, session_id: str) -> str:
    record = await store.get_session(session_id)
    if record is None:
        return f"session {session_id}"
    day = datetime.fromtimestamp(record.updated_at, UTC).strftime("%Y-%m-%d %H:%M")
    return f"session {session_id} ({record.title or 'untitled'}, {day} UTC)"


async def _read(store: SessionStore, session_id: str | None, around: int) -> str:
    """The messages next to one."""
    if session_id is None:
        raise ToolFailure("around needs a session_id")
    messages = await store.get_messages(session_id)
    if not messages:
        raise ToolFailure(f"there is no session {session_id!r}, or nothing in it")
    nearest = min(range(len(messages)), key=lambda index: abs(messages[index].seq - around))
    shown = messages[max(0, nearest - NEIGHBOURS) : nearest + NEIGHBOURS + 1]
    return "\n\n".join([await _heading(store, session_id), *map(_shown, shown)])


def _shown(stored: StoredMessage) -> str:
    text = _text_of(stored.message)
    more = f" [... {len(text) - LONGEST_MESSAGE:,} characters more]" if len(text) > LONGEST_MESSAGE else ""
    role = type(stored.message).__struct_config__.tag
    return f"{stored.seq} {role}: {text[:LONGEST_MESSAGE]}{more}"


def _text_of(message: Message) -> str:
    text = content_text(message.content) if message.content else ""
    if isinstance(message, AssistantMessage):
        calls = [f"[called {call.name} {call.arguments}]" for call in message.tool_calls]
        return "\n".join(part for part in [text, *calls] if part)
    return text


if TYPE_CHECKING:

    def _fits(toolset: SessionSearchToolset) -> tuple[Toolset, SupportsRefresh, SupportsAvailability]:
        return toolset, toolset, toolset
