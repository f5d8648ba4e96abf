"""Who may write a session of a store in memory, and the points at which a test may meddle."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec

from hermes_messages.errors import LeaseLostError, SessionNotFoundError, StoreBusyError, StoreError
from hermes_messages.protocols.store import LeaseToken
from hermes_messages.testing.memory_sessions import MemorySession

__all__ = ["MemoryTurns", "Place", "StoreHook"]

StoreHook = Callable[[str], Awaitable[None] | None]
"""Called with the name of the method."""

_LOOK_AGAIN_S = 0.02
"""A lease may expire by a clock that this loop can not wait for."""


class Place:
    """A place in the queue for a lease."""

    __slots__ = ("_waiter",)

    def __init__(self) -> None:
        self._waiter: asyncio.Future[None] | None = None

    async def called(self, limit_s: float | None) -> None:
        """Return when `call` is called, or after `limit_s` seconds."""
        self._waiter = asyncio.get_running_loop().create_future()
        await asyncio.wait({self._waiter}, timeout=limit_s)

    def call(self) -> None:
        """Tell it that its turn may have come."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class _Fault:
    def __init__(self, method: str, error: Exception, times: int, *, after: bool) -> None:
        self.method = method
        self.error = error
        self.times = times
        self.after = after


class MemoryTurns:
    """The sessions of a `MemoryStore`, their leases and the queue for these."""

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
        self._sessions: dict[str, MemorySession] = {}
        self._leases: dict[str, LeaseToken] = {}
        self._lease_numbers: Counter[str] = Counter()
        self._queues: defaultdict[str, list[Place]] = defaultdict(list)
        self._faults: list[_Fault] = []

    def fail_next(self, method: str, error: Exception, *, times: int = 1, after: bool = False) -> None:
        """Make the next `times` calls of `method` raise `error`: before anything is kept, or with `after`
        when all is kept, as when a connection dies under the answer to a commit."""
        self._faults.append(_Fault(method, error, times, after=after))

    def held_lease(self, session_id: str) -> LeaseToken | None:
        """The lease that is held on the session (or another of its lineage) now, or None."""
        lease = self._leases.get(self._lineage(session_id))
        return lease if lease is not None and lease.expires_at > self._clock() else None

    async def try_acquire_session_turn_lease(
        self, session_id: str, holder: str, ttl_s: float
    ) -> LeaseToken | None:
        """See `SupportsLeases`. None also while someone waits for it."""
        async with self._step("try_acquire_session_turn_lease"):
            free = not self._queues[self._lineage(session_id)] and self._is_free(session_id, holder)
            return self._take_lease(session_id, holder, ttl_s) if free else None

    async def acquire_session_turn_lease(
        self, session_id: str, holder: str, ttl_s: float, *, wait_s: float | None = None
    ) -> LeaseToken:
        """See `SupportsLeaseQueue`."""
        token: LeaseToken | None = None
        try:
            async with self._step("acquire_session_turn_lease"):
                token = await self._take_in_turn(session_id, holder, ttl_s, wait_s)
        except asyncio.CancelledError:
            if token is not None:
                self._give_back(token)
            raise
        return token

    async def refresh_session_turn_lease(self, lease: LeaseToken, ttl_s: float) -> LeaseToken:
        """See `SupportsLeases`."""
        async with self._step("refresh_session_turn_lease"):
            current = self._leases.get(self._lineage(lease.session_id))
            if current is None or current.number != lease.number:
                raise LeaseLostError(f"the lease on session {lease.session_id!r} is no longer yours")
            token = msgspec.structs.replace(current, expires_at=self._clock() + ttl_s)
            self._leases[self._lineage(lease.session_id)] = token
        return token

    async def release_session_turn_lease(self, lease: LeaseToken) -> None:
        """See `SupportsLeases`."""
        async with self._step("release_session_turn_lease"):
            self._give_back(lease)

    async def _take_in_turn(
        self, session_id: str, holder: str, ttl_s: float, wait_s: float | None
    ) -> LeaseToken:
        queue, place = self._queues[self._lineage(session_id)], Place()
        queue.append(place)
        limit = asyncio.timeout(None if wait_s is None else max(wait_s, 0.0))
        try:
            async with limit:
                while queue[0] is not place or not self._is_free(session_id, holder):
                    await self._called(queue, place)
            return self._take_lease(session_id, holder, ttl_s)
        except TimeoutError:
            text = (
                f"the turn lease of session {session_id!r} did not come free in {wait_s} s; nothing is held"
            )
            raise StoreBusyError(text) from None
        finally:
            queue.remove(place)
            _call_next(queue)

    async def _called(self, queue: Sequence[Place], place: Place) -> None:
        """Return when its turn may have come."""
        await place.called(_LOOK_AGAIN_S if queue[0] is place else None)

    def _give_back(self, lease: LeaseToken) -> None:
        lineage = self._lineage(lease.session_id)
        current = self._leases.get(lineage)
        if current is not None and current.number == lease.number:
            del self._leases[lineage]
            _call_next(self._queues[lineage])

    def _lineage(self, session_id: str) -> str:
        session = self._sessions.get(session_id)
        return session_id if session is None else session.lineage

    def _is_free(self, session_id: str, holder: str) -> bool:
        held = self.held_lease(session_id)
        return held is None or held.holder == holder

    def _take_lease(self, session_id: str, holder: str, ttl_s: float) -> LeaseToken:
        lineage = self._lineage(session_id)
        self._lease_numbers[lineage] += 1
        token = LeaseToken(session_id, holder, self._lease_numbers[lineage], self._clock() + ttl_s)
        self._leases[lineage] = token
        return token

    def _session(self, session_id: str) -> MemorySession:
        session = self._sessions.get(session_id)
        if session is None:
            raise SessionNotFoundError(session_id)
        return session

    def _writable(self, session_id: str, lease: LeaseToken | None) -> MemorySession:
        """The session, if `lease` (or its absence) allows to write its transcript now."""
        session = self._session(session_id)
        lineage = session.lineage
        if lease is not None and self._lineage(lease.session_id) != lineage:
            raise LeaseLostError(f"the lease is for session {lease.session_id!r}, not {session_id!r}")
        if lease is None and self.held_lease(session_id) is not None:
            raise LeaseLostError(f"someone holds a lease on session {session_id!r}; nothing was stored")
        current = self._leases.get(lineage)
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


def _call_next(queue: Sequence[Place]) -> None:
    if queue:
        queue[0].call()


async def _call_hook(hook: StoreHook | None, method: str) -> None:
    if hook is not None:
        called = hook(method)
        if inspect.isawaitable(called):
            await called
