"""A session store in memory that keeps every promise of the Protocols, and fails when a test asks it to."""

from __future__ import annotations

import asyncio
import inspect
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec

from hermes_messages.argument_text import JsonObject, JsonValue
from hermes_messages.errors import LeaseLostError, SessionNotFoundError, StoreError
from hermes_messages.messages import AssistantMessage, Message, ToolMessage
from hermes_messages.parts import content_text
from hermes_messages.protocols.store import (
    LeaseToken,
    MessageHit,
    NewMessage,
    SessionInfo,
    SessionRecord,
    StoredMessage,
    ToolRound,
)
from hermes_messages.usage import Usage, add_usage

__all__ = ["MemoryStore", "StoreHook"]

StoreHook = Callable[[str], Awaitable[None] | None]
"""Called with the name of the method."""


class _Place:
    """A place in the order of a session: a message, or one kept for a result."""

    __slots__ = ("created_at", "message", "seq", "uid")

    def __init__(self, seq: int, uid: str) -> None:
        self.seq = seq
        self.uid = uid
        self.message: Message | None = None
        self.created_at = 0.0


class _Session:
    def __init__(self, session_id: str, info: SessionInfo, now: float) -> None:
        self.id = session_id
        self.info = info
        self.system_prompt = info.system_prompt
        self.metadata = _copy(info.metadata)
        self.created_at = self.updated_at = now
        self.ended_at: float | None = None
        self.end_reason: str | None = None
        self.places: list[_Place] = []
        self.by_uid: dict[str, _Place] = {}
        self.rounds: dict[str, ToolRound] = {}
        self.api_calls = 0
        self.usage = Usage()

    def stored(self) -> list[StoredMessage]:
        return [
            StoredMessage(seq=place.seq, uid=place.uid, message=place.message, created_at=place.created_at)
            for place in self.places
            if place.message is not None
        ]

    def add_place(self, uid: str) -> _Place:
        place = _Place(len(self.places) + 1, uid)
        self.places.append(place)
        self.by_uid[uid] = place
        return place

    def put(self, place: _Place, message: Message, now: float) -> None:
        place.message = message
        place.created_at = self.updated_at = now

    def record(self) -> SessionRecord:
        return SessionRecord(
            id=self.id,
            source=self.info.source,
            title=self.info.title,
            model=self.info.model,
            provider=self.info.provider,
            cwd=self.info.cwd,
            parent_session_id=self.info.parent_session_id,
            system_prompt=self.system_prompt,
            metadata=_copy(self.metadata),
            created_at=self.created_at,
            updated_at=self.updated_at,
            ended_at=self.ended_at,
            end_reason=self.end_reason,
            message_count=sum(place.message is not None for place in self.places),
            api_calls=self.api_calls,
            usage=self.usage,
        )


class _Fault:
    def __init__(self, method: str, error: Exception, times: int, *, after: bool) -> None:
        self.method = method
        self.error = error
        self.times = times
        self.after = after


class MemoryStore:
    """Satisfies `SessionStore`, `SupportsLeases` and `SupportsSearch`.

    Every method suspends once before and once after it does its work, so that a cancellation can meet it
    there; the work itself happens whole or not at all. `before` and `after` are called with the method's name
    at these points. `fail_next` makes a method fail. `calls` lists the methods called.

    `messages` and `record` look into the store without awaiting, also when it is closed. `clock` gives the
    time in seconds since the epoch, for leases that expire when a test says so.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        before: StoreHook | None = None,
        after: StoreHook | None = None,
    ) -> None:
        self._clock = clock
        self.before = before
        self.after = after
        self.calls: list[str] = []
        self.closed = False
        self._sessions: dict[str, _Session] = {}
        self._leases: dict[str, LeaseToken] = {}
        self._lease_numbers: Counter[str] = Counter()
        self._faults: list[_Fault] = []

    def fail_next(self, method: str, error: Exception, *, times: int = 1, after: bool = False) -> None:
        """Make the next `times` calls of `method` raise `error`: before anything is kept, or with `after`
        when all is kept, as when a connection dies under the answer to a commit."""
        self._faults.append(_Fault(method, error, times, after=after))

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

    def held_lease(self, session_id: str) -> LeaseToken | None:
        """The lease that is held on the session now, or None."""
        lease = self._leases.get(session_id)
        return lease if lease is not None and lease.expires_at > self._clock() else None

    async def ensure_session(self, session_id: str, info: SessionInfo) -> SessionRecord:
        """See `SessionStore`."""
        async with self._step("ensure_session"):
            session = self._sessions.get(session_id)
            if session is None:
                session = self._sessions[session_id] = _Session(session_id, info, self._clock())
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
            session.metadata.update(_copy(metadata or {}))
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

    async def try_acquire_session_turn_lease(
        self, session_id: str, holder: str, ttl_s: float
    ) -> LeaseToken | None:
        """See `SupportsLeases`."""
        async with self._step("try_acquire_session_turn_lease"):
            held = self.held_lease(session_id)
            token = None
            if held is None or held.holder == holder:
                self._lease_numbers[session_id] += 1
                token = LeaseToken(session_id, holder, self._lease_numbers[session_id], self._clock() + ttl_s)
                self._leases[session_id] = token
        return token

    async def refresh_session_turn_lease(self, lease: LeaseToken, ttl_s: float) -> LeaseToken:
        """See `SupportsLeases`."""
        async with self._step("refresh_session_turn_lease"):
            current = self._leases.get(lease.session_id)
            if current is None or current.number != lease.number:
                raise LeaseLostError(f"the lease on session {lease.session_id!r} is no longer yours")
            token = msgspec.structs.replace(current, expires_at=self._clock() + ttl_s)
            self._leases[lease.session_id] = token
        return token

    async def release_session_turn_lease(self, lease: LeaseToken) -> None:
        """See `SupportsLeases`."""
        async with self._step("release_session_turn_lease"):
            current = self._leases.get(lease.session_id)
            if current is not None and current.number == lease.number:
                del self._leases[lease.session_id]

    async def search_messages(
        self, query: str, *, session_id: str | None = None, role: str | None = None, limit: int = 20
    ) -> list[MessageHit]:
        """See `SupportsSearch`. Words are compared without case, as parts of the text."""
        async with self._step("search_messages"):
            words = [word for word in re.findall(r"\w+", query.lower()) if word]
            found: list[tuple[int, MessageHit]] = []
            for session in self._sessions.values() if words else ():
                if session_id is None or session.id == session_id:
                    found.extend(_search(session, words, role))
            found.sort(key=lambda hit: -hit[0])
        return [hit for _, hit in found[: max(limit, 0)]]

    def _session(self, session_id: str) -> _Session:
        session = self._sessions.get(session_id)
        if session is None:
            raise SessionNotFoundError(session_id)
        return session

    def _writable(self, session_id: str, lease: LeaseToken | None) -> _Session:
        """The session, if `lease` (or its absence) allows to write its transcript now."""
        session = self._session(session_id)
        if lease is not None and lease.session_id != session_id:
            raise LeaseLostError(f"the lease is for session {lease.session_id!r}, not {session_id!r}")
        if lease is None and self.held_lease(session_id) is not None:
            raise LeaseLostError(f"someone holds a lease on session {session_id!r}; nothing was stored")
        current = self._leases.get(session_id)
        if lease is not None and (current is None or current.number != lease.number):
            raise LeaseLostError(
                f"the lease on session {session_id!r} was taken over or given back; nothing was stored"
            )
        return session

    @asynccontextmanager
    async def _step(self, method: str) -> AsyncIterator[None]:
        """One method: a point before, the work of the block, a point after."""
        self.calls.append(method)
        if self.closed:
            raise StoreError(f"{method} on a closed MemoryStore")
        await asyncio.sleep(0)
        await _call_hook(self.before, method)
        self._fail(method, after=False)
        yield
        self._fail(method, after=True)
        await _call_hook(self.after, method)
        await asyncio.sleep(0)

    def _fail(self, method: str, *, after: bool) -> None:
        for fault in self._faults:
            if fault.method == method and fault.after == after and fault.times > 0:
                fault.times -= 1
                raise fault.error


async def _call_hook(hook: StoreHook | None, method: str) -> None:
    if hook is not None:
        called = hook(method)
        if inspect.isawaitable(called):
            await called


def _copy(metadata: Mapping[str, JsonValue]) -> JsonObject:
    """A copy that shares nothing, as a store makes one. Raises `TypeError` for what is no JSON."""
    return msgspec.json.decode(msgspec.json.encode(metadata), type=dict)


def _search(session: _Session, words: list[str], role: str | None) -> list[tuple[int, MessageHit]]:
    hits = []
    for stored in session.stored():
        message_role = str(stored.message.__struct_config__.tag)
        text = content_text(stored.message.content)
        lowered = text.lower()
        if (role is None or role == message_role) and all(word in lowered for word in words):
            begin = lowered.index(words[0])
            end = begin + len(words[0])
            snippet = f"{text[max(0, begin - 40) : begin]}>>>{text[begin:end]}<<<{text[end : end + 40]}"
            hit = MessageHit(session_id=session.id, seq=stored.seq, role=message_role, snippet=snippet)
            hits.append((sum(lowered.count(word) for word in words), hit))
    return hits
