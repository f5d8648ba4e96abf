"""Waiting for a turn lease, first come first served."""

# ruff: noqa: D102 - each check is named after the promise that it checks

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hermes_messages.abilities import supports
from hermes_messages.errors import StoreBusyError
from hermes_messages.protocols.store import LeaseToken, SupportsLeaseQueue, SupportsLeases
from hermes_messages.testing.conformance.report import (
    CANCEL_POINTS,
    UnmetError,
    cancel_after,
    expect,
    finish_within,
)
from hermes_messages.testing.conformance.store_samples import (
    MakeStore,
    Opened,
    QueueStore,
    new_messages,
    with_session,
)

__all__ = ["QueueChecks"]

_TTL_S = 60.0


class QueueChecks:
    """The promises of `SupportsLeaseQueue`."""

    def __init__(self, make_store: MakeStore, limit_s: float) -> None:
        self._make = make_store
        self._limit_s = limit_s

    @asynccontextmanager
    async def _store(self) -> AsyncIterator[QueueStore]:
        async with Opened(self._make) as store:
            if not supports(store, SupportsLeaseQueue) or not supports(store, SupportsLeases):
                raise UnmetError("a store with a queue for leases needs the methods of SupportsLeases too")
            yield store

    async def _wait_for(self, store: QueueStore, session_id: str, holder: str) -> asyncio.Task[LeaseToken]:
        """A task that waits for the lease, which someone holds, and has its place in the queue by now."""
        waiting = asyncio.ensure_future(store.acquire_session_turn_lease(session_id, holder, _TTL_S))
        for _ in range(5):  # the queue can not be seen, but what was asked later is answered later
            probe = await store.try_acquire_session_turn_lease(session_id, "probe", _TTL_S)
            expect(probe is None, "a lease that someone holds was given to another")
        expect(not waiting.done(), f"{holder} did not wait for a lease that someone holds")
        return waiting

    async def a_free_lease_is_given_at_once(self) -> None:
        async with self._store() as store:
            session_id = await with_session(store)
            lease = await store.acquire_session_turn_lease(session_id, "one", _TTL_S, wait_s=0)
            expect((lease.session_id, lease.holder) == (session_id, "one"), f"the token is {lease!r}")
            await store.append_messages_batch(session_id, new_messages("a"), lease=lease)

    async def it_goes_from_one_to_the_next_in_order(self) -> None:
        async with self._store() as store:
            session_id = await with_session(store)
            lease = await store.acquire_session_turn_lease(session_id, "first", _TTL_S)
            names = ("a", "b", "c")
            waiting = [await self._wait_for(store, session_id, name) for name in names]
            for name, task in zip(names, tuple(waiting), strict=True):
                await store.release_session_turn_lease(lease)
                done, _ = await asyncio.wait(
                    waiting, timeout=self._limit_s / 4, return_when=asyncio.FIRST_COMPLETED
                )
                expect(done == {task}, f"the lease that came free did not go to {name}, whose turn it was")
                lease, number = await task, lease.number
                expect(lease.number > number, f"the number went from {number} to {lease.number}")
                waiting.remove(task)
            await store.release_session_turn_lease(lease)

    async def nobody_overtakes_who_waits(self) -> None:
        async with self._store() as store:
            session_id = await with_session(store)
            lease = await store.acquire_session_turn_lease(session_id, "first", _TTL_S)
            waiting = await self._wait_for(store, session_id, "second")
            await store.release_session_turn_lease(lease)
            third = await store.try_acquire_session_turn_lease(session_id, "third", _TTL_S)
            expect(third is None, "someone who came later got the lease before one who waited")
            await finish_within(waiting, self._limit_s, "waiting for a lease that came free")

    async def a_wait_that_is_over_leaves_no_place(self) -> None:
        async with self._store() as store:
            session_id = await with_session(store)
            lease = await store.acquire_session_turn_lease(session_id, "first", _TTL_S)
            try:
                await store.acquire_session_turn_lease(session_id, "second", _TTL_S, wait_s=0.02)
            except StoreBusyError:
                pass
            else:
                raise UnmetError("two holders have the lease")
            await self._is_free_after(store, lease, "a wait that was over")

    async def a_cancelled_wait_leaves_no_place(self) -> None:
        async with self._store() as store:
            session_id = await with_session(store)
            lease = await store.acquire_session_turn_lease(session_id, "first", _TTL_S)
            waiting = await self._wait_for(store, session_id, "second")
            await cancel_after(waiting, 0, self._limit_s)
            await self._is_free_after(store, lease, "a wait that was cancelled")

    async def cancelling_anywhere_leaves_nothing_held(self) -> None:
        async with self._store() as store:
            for turns in CANCEL_POINTS:
                session_id = await with_session(store)
                work = store.acquire_session_turn_lease(session_id, "one", _TTL_S)
                if not await cancel_after(work, turns, self._limit_s):
                    break
                other = await store.try_acquire_session_turn_lease(session_id, "other", _TTL_S)
                expect(other is not None, f"after a cancellation at turn {turns} the lease was still held")

    async def _is_free_after(self, store: QueueStore, lease: LeaseToken, what: str) -> None:
        await store.release_session_turn_lease(lease)
        third = await store.try_acquire_session_turn_lease(lease.session_id, "third", _TTL_S)
        expect(third is not None, f"{what} left a place in the queue, or the lease itself")
