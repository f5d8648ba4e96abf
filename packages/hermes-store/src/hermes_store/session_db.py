"""SessionDB: durable, searchable sessions in one file."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

import msgspec

from hermes_messages import (
    AssistantMessage,
    ConfigurationError,
    JsonObject,
    JsonValue,
    Message,
    StoreError,
    ToolMessage,
    Usage,
)
from hermes_messages.openai_shape import to_dicts
from hermes_messages.protocols import (
    LeaseToken,
    MessageHit,
    NewMessage,
    SessionInfo,
    SessionRecord,
    SessionStore,
    StoredMessage,
    SupportsLeases,
    SupportsSearch,
    ToolRound,
)
from hermes_store.backend import Operation
from hermes_store.operations import leases, messages, reading, search, sessions
from hermes_store.rows import encode_metadata, message_to_columns
from hermes_store.search_query import Indexed, Scan, plan_search, split_words
from hermes_store.sqlite import SqliteBackend
from hermes_store.sqlite_open import SqliteOptions

__all__ = ["SessionDB"]

_log = logging.getLogger(__name__)

Synchronous = Literal["NORMAL", "FULL"]
Journal = Literal["auto", "wal", "delete"]


class SessionDB:
    """Sessions in one SQLite file. Satisfies `SessionStore`, `SupportsLeases` and `SupportsSearch`.

    Nothing is opened before the first awaited call. A write that returned is committed: with `synchronous`
    `NORMAL` it survives the death of the process, with `FULL` also that of the machine. A cancelled call has
    happened whole or not at all. `busy_timeout_s` bounds the wait for another process's write, in seconds.
    One object serves one event loop at a time; a later `asyncio.run` may use it again.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Synchronous = "NORMAL",
        journal: Journal = "auto",
        search_index: bool = True,
        busy_timeout_s: float = 10.0,
    ) -> None:
        self.path = os.fspath(path)
        if not self.path or "\x00" in self.path:
            raise ConfigurationError(f"{self.path!r} can not be the path of a session database")
        if synchronous not in ("NORMAL", "FULL") or journal not in ("auto", "wal", "delete"):
            raise ConfigurationError(
                f"synchronous={synchronous!r}, journal={journal!r}: use NORMAL or FULL; auto, wal or delete"
            )
        if not busy_timeout_s >= 0:
            raise ConfigurationError(f"busy_timeout_s={busy_timeout_s!r} must be a number of seconds from 0")
        options = SqliteOptions(synchronous=synchronous, journal=journal, search_index=search_index)
        self._uid_process = 0
        self._uid_start = ""
        self._uid_numbers = count()
        self._backend = SqliteBackend(self.path, options, busy_timeout_s=busy_timeout_s)

    def __repr__(self) -> str:
        return f"SessionDB({self.path!r})"

    async def __aenter__(self) -> Self:
        """Open the database now, so that a bad one is found here. Raises `StoreError`."""
        self._backend.reopen()
        try:
            await self._backend.read(_nothing)
        except BaseException:  # nobody will call __aexit__
            await self._backend.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let what was begun end and close the file. Idempotent; later calls raise `StoreClosedError`."""
        await self._backend.close()

    # Sessions

    async def ensure_session(self, session_id: str, info: SessionInfo) -> SessionRecord:
        """The session, made from `info` when it does not exist yet. Raises `ConfigurationError`."""
        if not session_id:
            raise ConfigurationError("a session id must not be empty; nothing was stored")
        metadata = encode_metadata(info.metadata)
        return await self._backend.write(partial(sessions.ensure_session, session_id, info, metadata))

    async def create_session(
        self,
        session_id: str | None = None,
        source: str = "library",
        *,
        title: str | None = None,
        model: str | None = None,
        provider: str | None = None,
        cwd: str | None = None,
        parent_session_id: str | None = None,
        system_prompt: str | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> str:
        """The id of the session: `session_id`, or a new one. One that exists is left as it is."""
        info = SessionInfo(
            source=source,
            title=title,
            model=model,
            provider=provider,
            cwd=cwd,
            parent_session_id=parent_session_id,
            system_prompt=system_prompt,
            metadata=metadata or {},
        )
        record = await self.ensure_session(session_id if session_id is not None else uuid.uuid4().hex, info)
        return record.id

    async def get_session(self, session_id: str) -> SessionRecord | None:
        """The session, or None."""
        return await self._backend.read(partial(sessions.get_session, session_id))

    async def list_sessions(
        self, *, source: str | None = None, limit: int = 50, offset: int = 0
    ) -> list[SessionRecord]:
        """Sessions, last changed first."""
        return await self.search_sessions("", source=source, limit=limit, offset=offset)

    async def search_sessions(
        self, query: str = "", *, source: str | None = None, limit: int = 20, offset: int = 0
    ) -> list[SessionRecord]:
        """Sessions whose title or id contains every word of `query`, last changed first."""
        words = split_words(query)
        return await self._backend.read(
            partial(sessions.list_sessions, source, words, max(limit, 0), max(offset, 0))
        )

    async def set_session_title(self, session_id: str, title: str | None) -> None:
        """Name the session; None takes its name away. Raises `SessionNotFoundError`."""
        await self._backend.write(partial(sessions.set_title, session_id, title))

    async def update_session_meta(
        self,
        session_id: str,
        *,
        system_prompt: str | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> None:
        """Set what is given; `metadata` keys are merged into those stored. Raises `SessionNotFoundError`."""
        encode_metadata(metadata or {})
        await self._backend.write(partial(sessions.update_meta, session_id, system_prompt, metadata))

    async def update_token_counts(self, session_id: str, usage: Usage | None, *, api_calls: int) -> None:
        """Add to the session's totals. Raises `SessionNotFoundError`."""
        await self._backend.write(partial(sessions.add_usage, session_id, usage, api_calls))

    async def end_session(self, session_id: str, reason: str) -> None:
        """Mark the session as ended. Raises `SessionNotFoundError`."""
        await self._backend.write(partial(sessions.end_session, session_id, reason))

    async def reopen_session(self, session_id: str) -> None:
        """Take the mark of `end_session` away. Raises `SessionNotFoundError`."""
        await self._backend.write(partial(sessions.reopen_session, session_id))

    async def delete_session(self, session_id: str, *, lease: LeaseToken | None = None) -> bool:
        """Delete the session with its messages. False when there was none. Raises `LeaseLostError`."""
        return await self._backend.write(partial(sessions.delete_session, session_id, lease))

    async def export_session(self, session_id: str) -> JsonObject | None:
        """The session and its messages as one JSON object, messages in OpenAI shape; None without one."""
        record = await self.get_session(session_id)
        if record is None:
            return None
        stored = await self.get_messages(session_id)
        exported: JsonObject = msgspec.to_builtins(record)
        exported["messages"] = list(to_dicts([item.message for item in stored], full=True))
        return exported

    # Messages

    async def get_messages(self, session_id: str) -> list[StoredMessage]:
        """The session's messages in order; places whose result never came are left out.

        Raises `SessionNotFoundError`.
        """
        return await self._backend.read(partial(reading.get_messages, session_id, None, None))

    async def get_messages_as_conversation(self, session_id: str) -> list[JsonObject]:
        """The session's messages as plain OpenAI-shape dicts."""
        return to_dicts([item.message for item in await self.get_messages(session_id)])

    async def append_message(
        self, session_id: str, message: Message, *, uid: str | None = None, lease: LeaseToken | None = None
    ) -> int:
        """Store one message; its sequence number. A known `uid` adds nothing."""
        prepared = [messages.PreparedMessage.of(uid if uid is not None else self._next_uid(), message)]
        [seq] = await self._backend.write(partial(messages.append, session_id, prepared, lease))
        return seq

    async def append_messages_batch(
        self, session_id: str, messages_: Sequence[NewMessage], *, lease: LeaseToken | None = None
    ) -> tuple[int, ...]:
        """Store messages in order, in one transaction; their sequence numbers. A known uid adds nothing.

        Raises `SessionNotFoundError`, `LeaseLostError`.
        """
        prepared = [messages.PreparedMessage.of(new.uid, new.message) for new in messages_]
        return await self._backend.write(partial(messages.append, session_id, prepared, lease))

    async def begin_tool_round(
        self, session_id: str, uid: str, message: AssistantMessage, *, lease: LeaseToken | None = None
    ) -> ToolRound:
        """Store an assistant message and keep one place for the result of each of its calls, in one
        transaction. A known uid returns the round made before; raises `StoreError` when it made none."""
        prepared, calls = messages.PreparedMessage.of(uid, message), len(message.tool_calls)
        return await self._backend.write(partial(messages.begin_round, session_id, prepared, calls, lease))

    async def set_tool_result(
        self, round_: ToolRound, position: int, message: ToolMessage, *, lease: LeaseToken | None = None
    ) -> None:
        """Store the result of the call at `position`. A second result for one place changes nothing.

        Raises `StoreError` for a position that the round does not have, `LeaseLostError`.
        """
        if not 0 <= position < len(round_.result_seqs):
            raise StoreError(
                f"the round keeps {len(round_.result_seqs)} places, none at {position}; nothing was stored"
            )
        columns = message_to_columns(message)
        await self._backend.write(partial(messages.set_result, round_, position, columns, lease))

    async def open_rounds(self, session_id: str) -> list[ToolRound]:
        """The rounds of tool calls that lack a result, oldest first."""
        return await self._backend.read(partial(messages.open_rounds, session_id))

    async def close_open_rounds(self, session_id: str, *, lease: LeaseToken | None = None) -> int:
        """Give every call without a result one of status `unknown`; how many. For a session that died inside
        a round: nothing runs again, and the next time there is nothing to close."""
        return await self._backend.write(partial(messages.close_open_rounds, session_id, lease))

    def _next_uid(self) -> str:
        """An identity that no other process, and no other object here, gives."""
        if self._uid_process != os.getpid():
            self._uid_process, self._uid_start, self._uid_numbers = os.getpid(), uuid.uuid4().hex, count()
        return f"{self._uid_start}-{next(self._uid_numbers)}"

    # Search

    async def search_messages(
        self,
        query: str,
        *,
        session_id: str | None = None,
        role: str | None = None,
        source: str | None = None,
        limit: int = 20,
    ) -> list[MessageHit]:
        """Messages that contain all words of `query`, best first. Any text is a valid query."""
        where = search.SearchFilter(session_id=session_id, role=role, source=source, limit=max(limit, 0))
        plan = plan_search(query)
        if isinstance(plan, Indexed) and not await self._catch_up():
            plan = Scan(plan.words)
        return await self._backend.read(partial(search.search, plan, where))

    async def _catch_up(self) -> bool:
        """Put the newest messages into the index. False when the database can not be written now."""
        try:
            if await self._backend.read(search.has_unindexed):
                while await self._backend.write(search.take_in):
                    pass
        except StoreError as error:
            _log.warning("the search index could not be brought up to date, searching without it: %s", error)
            return False
        return True

    async def rebuild_search_index(self) -> None:
        """Build the search index anew, after it was switched off or found damaged. Raises `StoreError`."""
        await self._backend.rebuild_search_index()

    # Leases

    async def try_acquire_session_turn_lease(
        self, session_id: str, holder: str, ttl_s: float
    ) -> LeaseToken | None:
        """The lease for `ttl_s` seconds, or None while someone else holds it. Never waits."""
        _check_ttl(ttl_s)
        return await self._backend.write(partial(leases.try_acquire, session_id, holder, ttl_s))

    async def refresh_session_turn_lease(self, lease: LeaseToken, ttl_s: float) -> LeaseToken:
        """Hold on for another `ttl_s` seconds. Raises `LeaseLostError` when it is someone else's by now."""
        _check_ttl(ttl_s)
        return await self._backend.write(partial(leases.refresh, lease, ttl_s))

    async def release_session_turn_lease(self, lease: LeaseToken) -> None:
        """Give it back. A lease that was lost before is left alone."""
        await self._backend.write(partial(leases.release, lease))


def _check_ttl(ttl_s: float) -> None:
    if not 0 < ttl_s < float("inf"):
        raise ConfigurationError(f"a lease needs a positive number of seconds, not {ttl_s!r}")


def _nothing() -> Operation[None]:
    yield from ()


if TYPE_CHECKING:

    def _fits(db: SessionDB) -> tuple[SessionStore, SupportsLeases, SupportsSearch]:
        return db, db, db
