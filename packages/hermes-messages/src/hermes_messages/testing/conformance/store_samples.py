"""Stores and messages that the store checks use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol
from uuid import uuid4

from msgspec import Raw

from hermes_messages.errors import SessionNotFoundError
from hermes_messages.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_messages.parts import FilePart, ImagePart, OpaquePart, Origin, Replay, TextPart
from hermes_messages.protocols.store import (
    NewMessage,
    SessionInfo,
    SessionStore,
    SupportsCompression,
    SupportsLeaseQueue,
    SupportsLeases,
    SupportsSearch,
    SupportsSessionState,
    SupportsSuspension,
)
from hermes_messages.testing.conformance.report import UnmetError, made
from hermes_messages.usage import Usage

__all__ = [
    "ALL_KINDS",
    "ODD_TEXTS",
    "CompressingStore",
    "LeasedStore",
    "Opened",
    "QueueStore",
    "SearchStore",
    "StateStore",
    "SuspendingStore",
    "new_messages",
    "raises_not_found",
    "round_of",
    "stored",
    "with_session",
]

MakeStore = Callable[[], SessionStore | Awaitable[SessionStore]]
"""Makes a store, each time an empty one."""

ODD_TEXTS = (
    "",
    " \n\t ",
    "W\x00s\x00l",
    "\\u0000 is no NUL",
    "back\\slash \\x00 %00 \ue000 \ufffd",
    "a\u2028b\u2029c\r\nd\re",
    "\ufeffstarts with a byte order mark",
    "\U0001f3f4\U000e0067\U000e0062\U000e007f flag \U000e0041 tag",
    "e\u0301 \u200d \u202e right to left",
    "\u5927\u522b\u5c71\u9879\u76ee \U0001f469\u200d\U0001f4bb",
    "\uffff \x01 \x7f \x85",
    "'; DROP TABLE messages; --",
    "x" * 100_000,
)

ALL_KINDS: tuple[Message, ...] = (
    SystemMessage("Be brief."),
    UserMessage((TextPart("look"), ImagePart("data:image/png;base64,AAAA", detail="low"))),
    UserMessage("again", name="ann", extra=Raw(b'{"cache":1}')),
    UserMessage((FilePart(file_id="f1"), OpaquePart(Raw(b'{"type":"odd","n":1}')))),
    AssistantMessage(
        None,
        (ToolCall("call_1", "read", '{"path":  "a"}'), ToolCall("call_2", "read", "{}", Raw(b'{"k":2}'))),
        reasoning="",
        replay=Replay(Origin("p", "h", "m"), "w", (Raw(b'{"type": "thinking","signature":"s"}'),)),
        finish_reason="tool_calls",
        usage=Usage(input_tokens=3, cost_usd=0.25),
    ),
    ToolMessage("call_1", "text", name="read"),
    ToolMessage("call_2", (TextPart("a"), TextPart("b")), status="error"),
    AssistantMessage("", reasoning=None, refusal="no"),
    AssistantMessage("done", reasoning="because"),
)


class Opened:
    """A store that is closed at the end of `async with`."""

    def __init__(self, make_store: MakeStore) -> None:
        self._make = make_store

    async def __aenter__(self) -> SessionStore:
        self._store = await made(self._make())
        return self._store

    async def __aexit__(self, *exc_info: object) -> None:
        await self._store.close()


class LeasedStore(SessionStore, SupportsLeases, Protocol):
    """A store with leases."""


class SearchStore(SessionStore, SupportsSearch, Protocol):
    """A store with search."""


class QueueStore(SessionStore, SupportsLeases, SupportsLeaseQueue, Protocol):
    """A store with leases that can be waited for."""


class SuspendingStore(SessionStore, SupportsSuspension, Protocol):
    """A store that marks rounds which wait."""


class StateStore(SessionStore, SupportsSessionState, Protocol):
    """A store that keeps named values."""


class CompressingStore(SessionStore, SupportsCompression, Protocol):
    """A store whose conversations can be compressed."""


async def raises_not_found(attempt: Awaitable[object], what: str) -> None:
    """Raise `UnmetError` unless `attempt` raises `SessionNotFoundError`."""
    try:
        await attempt
    except SessionNotFoundError:
        return
    raise UnmetError(f"{what} on an unknown session raised no SessionNotFoundError")


async def with_session(store: SessionStore) -> str:
    """The id of a new session in `store`."""
    session_id = f"check-{uuid4().hex}"
    await store.ensure_session(session_id, SessionInfo(source="check"))
    return session_id


async def stored(store: SessionStore, session_id: str) -> list[Message]:
    """The messages of a session."""
    return [found.message for found in await store.get_messages(session_id)]


def new_messages(*texts: str) -> list[NewMessage]:
    """User messages to store, the text being the uid too."""
    return [NewMessage(text, UserMessage(text)) for text in texts]


def round_of(*call_ids: str) -> AssistantMessage:
    """An assistant message with calls of these ids."""
    if not call_ids:
        raise UnmetError("a round needs a call")
    return AssistantMessage(tool_calls=tuple(ToolCall(call_id, "read", "{}") for call_id in call_ids))
