"""Turn leases and their fencing."""

# ruff: noqa: D102 - each check is named after the promise that it checks

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from uuid import uuid4

from hermes_messages.abilities import supports
from hermes_messages.errors import LeaseLostError
from hermes_messages.messages import ToolMessage
from hermes_messages.protocols.store import LeaseToken, SessionInfo, SupportsLeases, ToolRound
from hermes_messages.testing.conformance.report import UnmetError, expect
from hermes_messages.testing.conformance.store_samples import (
    LeasedStore,
    MakeStore,
    Opened,
    new_messages,
    round_of,
    stored,
    with_session,
)

__all__ = ["LeaseChecks"]

_SHORT_S = 0.02
_LONG_S = 60.0


async def _acquire(store: SupportsLeases, session_id: str, holder: str, ttl_s: float = _LONG_S) -> LeaseToken:
    lease = await store.try_acquire_session_turn_lease(session_id, holder, ttl_s)
    if lease is None:
        raise UnmetError(f"{holder} got no lease on a session that nobody holds")
    return lease


async def _take_over(store: SupportsLeases, session_id: str, holder: str) -> LeaseToken:
    """The lease, once that of someone else has expired."""
    for _ in range(200):
        lease = await store.try_acquire_session_turn_lease(session_id, holder, _LONG_S)
        if lease is not None:
            return lease
        await asyncio.sleep(_SHORT_S)
    raise UnmetError(f"a lease for {_SHORT_S} s was still held after {200 * _SHORT_S:g} s")


async def _is_lost(attempt: Awaitable[object], what: str) -> None:
    try:
        await attempt
    except LeaseLostError:
        return
    raise UnmetError(f"{what} raised no LeaseLostError")


class LeaseChecks:
    """The promises of `SupportsLeases`."""

    def __init__(self, make_store: MakeStore) -> None:
        self._make = make_store

    @asynccontextmanager
    async def _store(self) -> AsyncIterator[LeasedStore]:
        async with Opened(self._make) as store:
            if not supports(store, SupportsLeases):
                raise UnmetError("this store has no leases, the one before had")
            yield store

    async def one_holder_at_a_time(self) -> None:
        async with self._store() as store:
            session_id, other = await with_session(store), await with_session(store)
            lease = await _acquire(store, session_id, "one")
            expect((lease.session_id, lease.holder) == (session_id, "one"), f"the token is {lease!r}")
            second = await store.try_acquire_session_turn_lease(session_id, "two", _LONG_S)
            expect(second is None, "two holders have the lease")
            await _acquire(store, other, "two")

    async def only_one_of_many_gets_it(self) -> None:
        async with self._store() as store:
            session_id = await with_session(store)
            attempts = (
                store.try_acquire_session_turn_lease(session_id, f"h{number}", _LONG_S) for number in range(8)
            )
            got = [lease for lease in await asyncio.gather(*attempts) if lease is not None]
        expect(len(got) == 1, f"{len(got)} of 8 holders got the lease at once")

    async def a_lease_may_come_before_its_session(self) -> None:
        async with self._store() as store:
            session_id = f"check-{uuid4().hex}"
            lease = await _acquire(store, session_id, "one")
            await store.ensure_session(session_id, SessionInfo())
            await store.append_messages_batch(session_id, new_messages("a"), lease=lease)

    async def a_released_lease_is_free(self) -> None:
        async with self._store() as store:
            session_id = await with_session(store)
            first = await _acquire(store, session_id, "one")
            await store.release_session_turn_lease(first)
            await store.append_messages_batch(session_id, new_messages("a"))
            second = await _acquire(store, session_id, "two")
            expect(second.number > first.number, f"the number went from {first.number} to {second.number}")

    async def writes_need_the_token_while_it_is_held(self) -> None:
        async with self._store() as store:
            session_id = await with_session(store)
            early = await store.begin_tool_round(session_id, "early", round_of("x"))
            lease = await _acquire(store, session_id, "one")
            await self._refused(store, session_id, early, None)
            await store.update_session_meta(session_id, metadata={"title": "not fenced"})
            await store.append_messages_batch(session_id, new_messages("a"), lease=lease)
            round_ = await store.begin_tool_round(session_id, "round", round_of("c"), lease=lease)
            await store.set_tool_result(round_, 0, ToolMessage("c", "1"), lease=lease)
            expect(len(await stored(store, session_id)) == 4, "writes under the lease are not all there")

    async def writes_under_an_old_token_are_refused(self) -> None:
        async with self._store() as store:
            session_id = await with_session(store)
            old = await _acquire(store, session_id, "one", _SHORT_S)
            early = await store.begin_tool_round(session_id, "early", round_of("x"), lease=old)
            new = await _take_over(store, session_id, "two")
            expect(new.number > old.number, f"the number went from {old.number} to {new.number}")
            await self._refused(store, session_id, early, old)
            await store.append_messages_batch(session_id, new_messages("b"), lease=new)

    async def _refused(
        self, store: LeasedStore, session_id: str, early: ToolRound, lease: LeaseToken | None
    ) -> None:
        how = "with no token" if lease is None else "under an old token"
        before = await stored(store, session_id)
        append = store.append_messages_batch(session_id, new_messages("stale"), lease=lease)
        await _is_lost(append, f"append_messages_batch {how}")
        begin = store.begin_tool_round(session_id, "stale", round_of("c"), lease=lease)
        await _is_lost(begin, f"begin_tool_round {how}")
        result = store.set_tool_result(early, 0, ToolMessage("x", "1"), lease=lease)
        await _is_lost(result, f"set_tool_result {how}")
        expect(await stored(store, session_id) == before, f"a refused write {how} was stored")

    async def a_refreshed_lease_lives_on(self) -> None:
        async with self._store() as store:
            session_id = await with_session(store)
            lease = await _acquire(store, session_id, "one", 5.0)
            longer = await store.refresh_session_turn_lease(lease, _LONG_S)
            expect(longer.expires_at > lease.expires_at, "refreshing did not move the expiry")
            expect(longer.number == lease.number, "refreshing changed the number")
            await store.append_messages_batch(session_id, new_messages("a"), lease=longer)
            await store.append_messages_batch(session_id, new_messages("b"), lease=lease)

    async def a_lost_lease_can_not_be_refreshed_or_released(self) -> None:
        async with self._store() as store:
            session_id = await with_session(store)
            old = await _acquire(store, session_id, "one", _SHORT_S)
            new = await _take_over(store, session_id, "two")
            await _is_lost(store.refresh_session_turn_lease(old, _LONG_S), "refreshing a lost lease")
            await store.release_session_turn_lease(old)
            third = await store.try_acquire_session_turn_lease(session_id, "three", _LONG_S)
            expect(third is None, "releasing a lost lease freed that of the new holder")
            await store.append_messages_batch(session_id, new_messages("a"), lease=new)
