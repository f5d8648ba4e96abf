"""A session store in memory that keeps every promise of the Protocols, and fails when a test asks it to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from hermes_messages.argument_text import JsonValue
from hermes_messages.errors import ConfigurationError, StoreError
from hermes_messages.messages import AssistantMessage, Message, ToolMessage
from hermes_messages.protocols.store import (
    LeaseToken,
    MessageHit,
    NewMessage,
    SessionInfo,
    SessionRecord,
    StoredMessage,
    SuspendedRound,
    ToolRound,
)
from hermes_messages.testing.memory_sessions import MemorySession, copied, words_of
from hermes_messages.testing.memory_turns import MemoryTurns, StoreHook
from hermes_messages.usage import Usage, add_usage

__all__ = ["MemoryStore", "StoreHook"]


class MemoryStore(MemoryTurns):
    """Satisfies `SessionStore` and every `Supports...` Protocol beside it.

    Every method suspends once before and once after it does its work, so that a cancellation can meet it
    there; the work itself happens whole or not at all. `before` and `after` are called with the method's name
    at these points. `fail_next` makes a method fail. `calls` lists the methods called.

    `messages` and `record` look into the store without awaiting, also when it is closed. `clock` gives the
    time in seconds since the epoch, for leases that expire when a test says so.
    """

    def messages(self, session_id: str) -> list[Message]:
        """The session's messages in order; an empty list when there is no such session."""
        session = self._sessions.get(session_id)
        return [stored.message for stored in session.stored()] if session else []

    def record(self, session_id: str) -> SessionRecord:
        """The session. Raises `SessionNotFoundError`."""
        return self._session(session_id).record()

    @property
    def session_ids(self) -> tuple[str, ...]:
        """All sessions, oldest first."""
        return tuple(self._sessions)

    async def ensure_session(self, session_id: str, info: SessionInfo) -> SessionRecord:
        """See `SessionStore`."""
        async with self._step("ensure_session"):
            session = self._sessions.get(session_id)
            if session is None:
                session = self._sessions[session_id] = MemorySession(session_id, info, self._clock())
            return session.record()

    async def get_session(self, session_id: str) -> SessionRecord | None:
        """See `SessionStore`."""
        async with self._step("get_session"):
            session = self._sessions.get(session_id)
            return session.record() if session else None

    async def get_messages(self, session_id: str) -> list[StoredMessage]:
        """See `SessionStore`. Raises `SessionNotFoundError`."""
        async with self._step("get_messages"):
            return self._session(session_id).stored()

    async def append_messages_batch(
        self, session_id: str, messages: Sequence[NewMessage], *, lease: LeaseToken | None = None
    ) -> tuple[int, ...]:
        """See `SessionStore`."""
        async with self._step("append_messages_batch"):
            session = self._writable(session_id, lease)
            seqs = []
            for new in messages:
                place = session.by_uid.get(new.uid)
                if place is None:
                    place = session.add_place(new.uid)
                    session.put(place, new.message, self._clock())
                seqs.append(place.seq)
        return tuple(seqs)

    async def begin_tool_round(
        self, session_id: str, uid: str, message: AssistantMessage, *, lease: LeaseToken | None = None
    ) -> ToolRound:
        """See `SessionStore`. Raises `StoreError` when `uid` is that of a message of another kind."""
        async with self._step("begin_tool_round"):
            session = self._writable(session_id, lease)
            round_ = session.rounds.get(uid)
            if round_ is None:
                if uid in session.by_uid:
                    raise StoreError(f"uid {uid!r} is that of a message stored before, which began no round")
                place = session.add_place(uid)
                session.put(place, message, self._clock())
                kept = [
                    session.add_place(f"{uid}/result/{position}").seq
                    for position in range(len(message.tool_calls))
                ]
                round_ = session.rounds[uid] = ToolRound(session_id, place.seq, tuple(kept))
        return round_

    async def set_tool_result(
        self, round_: ToolRound, position: int, message: ToolMessage, *, lease: LeaseToken | None = None
    ) -> None:
        """See `SessionStore`. Raises `StoreError` for a position that the round does not have."""
        async with self._step("set_tool_result"):
            session = self._writable(round_.session_id, lease)
            if not 0 <= position < len(round_.result_seqs):
                raise StoreError(f"the round has no call at position {position}; nothing was stored")
            place = session.places[round_.result_seqs[position] - 1]
            if place.message is None:
                session.put(place, message, self._clock())
            if not session.is_open(round_):
                session.suspended.pop(round_.assistant_seq, None)

    async def update_session_meta(
        self,
        session_id: str,
        *,
        system_prompt: str | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> None:
        """See `SessionStore`."""
        async with self._step("update_session_meta"):
            session = self._session(session_id)
            if system_prompt is not None:
                session.system_prompt = system_prompt
            session.metadata.update(copied(metadata or {}))
            session.updated_at = self._clock()

    async def update_token_counts(self, session_id: str, usage: Usage | None, *, api_calls: int) -> None:
        """See `SessionStore`."""
        async with self._step("update_token_counts"):
            session = self._session(session_id)
            session.usage = add_usage(session.usage, usage) or Usage()
            session.api_calls += api_calls

    async def end_session(self, session_id: str, reason: str) -> None:
        """See `SessionStore`."""
        async with self._step("end_session"):
            session = self._session(session_id)
            session.ended_at = self._clock()
            session.end_reason = reason

    async def close(self) -> None:
        """See `SessionStore`. What is in the store can still be looked at."""
        self.calls.append("close")
        self.closed = True

    async def suspend_round(
        self, round_: ToolRound, pending: JsonValue, *, lease: LeaseToken | None = None
    ) -> None:
        """See `SupportsSuspension`. Raises `StoreError` for a round that is not open."""
        async with self._step("suspend_round"):
            session = self._writable(round_.session_id, lease)
            if round_ not in session.rounds.values() or not session.is_open(round_):
                raise StoreError(f"session {session.id!r} has no such open round; nothing was changed")
            kept = copied({"pending": pending})["pending"]
            session.suspended[round_.assistant_seq] = SuspendedRound(round_, kept)

    async def resume_round(self, round_: ToolRound, *, lease: LeaseToken | None = None) -> None:
        """See `SupportsSuspension`."""
        async with self._step("resume_round"):
            self._writable(round_.session_id, lease).suspended.pop(round_.assistant_seq, None)

    async def suspended_rounds(self, session_id: str) -> list[SuspendedRound]:
        """See `SupportsSuspension`."""
        async with self._step("suspended_rounds"):
            return [found for _, found in sorted(self._session(session_id).suspended.items())]

    async def get_session_state(self, session_id: str, name: str) -> JsonValue:
        """See `SupportsSessionState`."""
        async with self._step("get_session_state"):
            return copied(self._session(session_id).state).get(name)

    async def set_session_state(self, session_id: str, name: str, value: JsonValue) -> None:
        """See `SupportsSessionState`."""
        async with self._step("set_session_state"):
            state = self._session(session_id).state
            if value is None:
                state.pop(name, None)
            else:
                state.update(copied({name: value}))

    async def archive_and_compact(
        self,
        session_id: str,
        messages: Sequence[NewMessage],
        *,
        child_session_id: str | None = None,
        lease: LeaseToken | None = None,
    ) -> str:
        """See `SupportsCompression`. Raises `ConfigurationError` for a uid that is given twice."""
        if len({new.uid for new in messages}) != len(messages):
            raise ConfigurationError("two messages have the same uid; nothing was changed")
        async with self._step("archive_and_compact"):
            session = self._writable(session_id, lease)
            if child_session_id is not None:
                self._begin_child(session, child_session_id, messages)
            elif not session.holds(messages):
                _refuse_open_rounds(session)
                session.replace(messages, self._clock())
        return session_id if child_session_id is None else child_session_id

    async def resolve_resume_session_id(self, session_id: str) -> str:
        """See `SupportsCompression`."""
        async with self._step("resolve_resume_session_id"):
            lineage = self._lineage(session_id)
            of_lineage = [session.id for session in self._sessions.values() if session.lineage == lineage]
            return of_lineage[-1] if of_lineage else session_id

    async def search_messages(
        self, query: str, *, session_id: str | None = None, role: str | None = None, limit: int = 20
    ) -> list[MessageHit]:
        """See `SupportsSearch`. Words are compared without case, as parts of the text."""
        async with self._step("search_messages"):
            words = words_of(query)
            found: list[tuple[int, MessageHit]] = []
            for session in self._sessions.values() if words else ():
                if session_id is None or session.id == session_id:
                    found.extend(session.search(words, role))
            found.sort(key=lambda hit: -hit[0])
        return [hit for _, hit in found[: max(limit, 0)]]

    def _begin_child(self, session: MemorySession, child_id: str, messages: Sequence[NewMessage]) -> None:
        """End the session and begin the next of its lineage, unless that was done before."""
        children = [
            other.id
            for other in self._sessions.values()
            if other.info.parent_session_id == session.id and other.lineage == session.lineage
        ]
        if child_id in children:
            return
        if children or child_id in self._sessions:
            raise StoreError(f"session {session.id!r} can not become {child_id!r}; nothing was changed")
        _refuse_open_rounds(session)
        now = self._clock()
        info = msgspec.structs.replace(
            session.info,
            parent_session_id=session.id,
            system_prompt=session.system_prompt,
            metadata=session.metadata,
        )
        child = self._sessions[child_id] = MemorySession(child_id, info, now)
        child.lineage = session.lineage
        child.state = copied(session.state)
        child.replace(messages, now)
        session.ended_at = session.ended_at or now
        session.end_reason = "compression"
        session.updated_at = now


def _refuse_open_rounds(session: MemorySession) -> None:
    if any(session.is_open(round_) for round_ in session.rounds.values()):
        raise StoreError(f"session {session.id!r} is inside a round of tool calls; nothing was changed")
