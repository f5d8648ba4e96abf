"""A shorter conversation in the place of a long one."""

# ruff: noqa: D102 - each check is named after the promise that it checks

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from uuid import uuid4

from hermes_messages.abilities import supports
from hermes_messages.errors import LeaseLostError, StoreError
from hermes_messages.protocols.store import SupportsCompression, SupportsLeases
from hermes_messages.testing.conformance.report import CANCEL_POINTS, UnmetError, cancel_after, expect
from hermes_messages.testing.conformance.store_samples import (
    CompressingStore,
    MakeStore,
    Opened,
    new_messages,
    raises_not_found,
    round_of,
    stored,
    with_session,
)

__all__ = ["CompressionChecks"]

_SHORT = new_messages("summary", "c")


async def _texts(store: CompressingStore, session_id: str) -> list[object]:
    return [message.content for message in await stored(store, session_id)]


def _new_id() -> str:
    return f"check-{uuid4().hex}"


class CompressionChecks:
    """The promises of `SupportsCompression`."""

    def __init__(self, make_store: MakeStore, limit_s: float) -> None:
        self._make = make_store
        self._limit_s = limit_s

    @asynccontextmanager
    async def _store(self) -> AsyncIterator[CompressingStore]:
        async with Opened(self._make) as store:
            if not supports(store, SupportsCompression):
                raise UnmetError("this store compresses nothing, the one before did")
            yield store

    async def _long_session(self, store: CompressingStore) -> str:
        session_id = await with_session(store)
        await store.append_messages_batch(session_id, new_messages("a", "b", "c"))
        return session_id

    async def in_place_the_session_goes_on(self) -> None:
        async with self._store() as store:
            session_id = await self._long_session(store)
            for _ in range(2):  # the second time changes nothing
                goes_on = await store.archive_and_compact(session_id, _SHORT)
                expect(goes_on == session_id, f"{goes_on!r} goes on, not the session itself")
                texts = await _texts(store, session_id)
                expect(texts == ["summary", "c"], f"the session holds {texts!r}")
            await store.append_messages_batch(session_id, new_messages("c", "d"))
            texts = await _texts(store, session_id)
            expect(texts == ["summary", "c", "d"], f"after a repeated append it holds {texts!r}")
            record = await store.get_session(session_id)
            expect(record is not None and record.ended_at is None, "the session ended")
            expect(record is not None and record.message_count == 3, "archived messages are counted")

    async def into_a_child_the_session_ends(self) -> None:
        async with self._store() as store:
            session_id, child_id = await self._long_session(store), _new_id()
            for _ in range(2):
                goes_on = await store.archive_and_compact(session_id, _SHORT, child_session_id=child_id)
                expect(goes_on == child_id, f"{goes_on!r} goes on, not the child")
                texts = await _texts(store, child_id)
                expect(texts == ["summary", "c"], f"the child holds {texts!r}")
            texts = await _texts(store, session_id)
            expect(texts == ["a", "b", "c"], f"the session before it holds {texts!r}")
            parent, child = await store.get_session(session_id), await store.get_session(child_id)
            expect(parent is not None and parent.ended_at is not None, "the session before it did not end")
            expect(child is not None and child.ended_at is None, "the child ended")
            expect(child is not None and child.parent_session_id == session_id, "the child has no parent")

    async def the_newest_of_a_lineage_is_found(self) -> None:
        async with self._store() as store:
            unknown = _new_id()
            expect(await store.resolve_resume_session_id(unknown) == unknown, "an unknown id is not its own")
            ids = [await self._long_session(store), _new_id(), _new_id()]
            for old, new in pairwise(ids):
                await store.archive_and_compact(old, _SHORT, child_session_id=new)
            for session_id in ids:
                newest = await store.resolve_resume_session_id(session_id)
                expect(newest == ids[-1], "a session of the lineage does not lead to the newest one")

    async def a_second_child_is_refused(self) -> None:
        async with self._store() as store:
            session_id, first, second = await self._long_session(store), _new_id(), _new_id()
            await store.archive_and_compact(session_id, _SHORT, child_session_id=first)
            try:
                await store.archive_and_compact(session_id, _SHORT, child_session_id=second)
            except StoreError:
                pass
            else:
                raise UnmetError("one session was compressed into two children")
            expect(await store.get_session(second) is None, "a refused child was made")

    async def a_round_is_never_cut(self) -> None:
        async with self._store() as store:
            session_id = await self._long_session(store)
            await store.begin_tool_round(session_id, "r", round_of("x", "y"))
            before = await stored(store, session_id)
            for child in (None, _new_id()):
                try:
                    await store.archive_and_compact(session_id, _SHORT, child_session_id=child)
                except StoreError:
                    pass
                else:
                    raise UnmetError("a conversation was compressed inside a round of tool calls")
                expect(await stored(store, session_id) == before, "a refused compression changed something")

    async def the_lease_is_asked_for_and_goes_on(self) -> None:
        async with self._store() as store:
            if not supports(store, SupportsLeases):
                return
            session_id, child_id = await self._long_session(store), _new_id()
            lease = await store.try_acquire_session_turn_lease(session_id, "one", 60.0)
            try:
                await store.archive_and_compact(session_id, _SHORT)
            except LeaseLostError:
                pass
            else:
                raise UnmetError("a compression without the token that is held raised no LeaseLostError")
            expect(
                await _texts(store, session_id) == ["a", "b", "c"], "a refused compression changed something"
            )
            await store.archive_and_compact(session_id, _SHORT, child_session_id=child_id, lease=lease)
            await store.append_messages_batch(child_id, new_messages("d"), lease=lease)
            other = await store.try_acquire_session_turn_lease(child_id, "two", 60.0)
            expect(other is None, "a child can be had while the lease of its lineage is held")

    async def unknown_sessions_are_not_compressed(self) -> None:
        async with self._store() as store:
            attempt = store.archive_and_compact(_new_id(), _SHORT)
            await raises_not_found(attempt, "archive_and_compact")

    async def a_cancelled_one_happens_whole_or_not_at_all(self) -> None:
        async with self._store() as store:
            for turns in CANCEL_POINTS:
                session_id = await self._long_session(store)
                work = store.archive_and_compact(session_id, _SHORT)
                cancelled = await cancel_after(work, turns, self._limit_s)
                texts = await _texts(store, session_id)
                whole = texts in (["a", "b", "c"], ["summary", "c"])
                expect(whole, f"cancelled at turn {turns}, the session holds {texts!r}")
                await store.append_messages_batch(session_id, new_messages("d"))
                if not cancelled:
                    break
