"""What a session keeps beside its messages: rounds that wait for a person, and named values."""

# ruff: noqa: D102 - each check is named after the promise that it checks

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from hermes_messages.abilities import supports
from hermes_messages.argument_text import JsonObject, JsonValue
from hermes_messages.errors import LeaseLostError, StoreError
from hermes_messages.messages import ToolMessage
from hermes_messages.protocols.store import (
    SupportsLeases,
    SupportsSessionState,
    SupportsSuspension,
    SuspendedRound,
)
from hermes_messages.testing.conformance.report import UnmetError, expect
from hermes_messages.testing.conformance.store_samples import (
    MakeStore,
    Opened,
    StateStore,
    SuspendingStore,
    raises_not_found,
    round_of,
    with_session,
)

__all__ = ["StateChecks", "SuspensionChecks"]

_PENDING: JsonValue = {"calls": [{"position": 1, "reason": "W\x00 \u6587"}], "asked_at": 1.5, "by": None}


class SuspensionChecks:
    """The promises of `SupportsSuspension`."""

    def __init__(self, make_store: MakeStore) -> None:
        self._make = make_store

    @asynccontextmanager
    async def _store(self) -> AsyncIterator[SuspendingStore]:
        async with Opened(self._make) as store:
            if not supports(store, SupportsSuspension):
                raise UnmetError("this store suspends no rounds, the one before did")
            yield store

    async def a_mark_keeps_what_is_pending(self) -> None:
        async with self._store() as store:
            session_id = await with_session(store)
            round_ = await store.begin_tool_round(session_id, "r", round_of("a", "b"))
            expect(await store.suspended_rounds(session_id) == [], "a round that nobody marked is marked")
            for pending in ("first", _PENDING):
                await store.suspend_round(round_, pending)
                found = await store.suspended_rounds(session_id)
                wanted = [SuspendedRound(round_, pending)]
                expect(found == wanted, f"marked with {pending!r}, the store tells {found!r}")

    async def the_oldest_round_comes_first(self) -> None:
        async with self._store() as store:
            session_id = await with_session(store)
            rounds = [await store.begin_tool_round(session_id, uid, round_of("a")) for uid in ("r", "s")]
            for round_ in reversed(rounds):
                await store.suspend_round(round_, None)
            found = [suspended.round for suspended in await store.suspended_rounds(session_id)]
            expect(found == rounds, "rounds do not come in their order")

    async def the_last_result_takes_the_mark_away(self) -> None:
        async with self._store() as store:
            session_id = await with_session(store)
            round_ = await store.begin_tool_round(session_id, "r", round_of("a", "b"))
            await store.suspend_round(round_, _PENDING)
            await store.set_tool_result(round_, 0, ToolMessage("a", "1"))
            expect(
                len(await store.suspended_rounds(session_id)) == 1, "the first of two results took it away"
            )
            await store.set_tool_result(round_, 1, ToolMessage("b", "2"))
            expect(await store.suspended_rounds(session_id) == [], "a round with all its results is marked")

    async def a_resumed_round_is_an_open_one(self) -> None:
        async with self._store() as store:
            session_id = await with_session(store)
            round_ = await store.begin_tool_round(session_id, "r", round_of("a"))
            await store.suspend_round(round_, _PENDING)
            for _ in range(2):
                await store.resume_round(round_)
                expect(await store.suspended_rounds(session_id) == [], "a resumed round is still marked")
            await store.set_tool_result(round_, 0, ToolMessage("a", "1"))
            expect(len(await store.get_messages(session_id)) == 2, "a resumed round took no result")

    async def a_closed_round_gets_no_mark(self) -> None:
        async with self._store() as store:
            session_id = await with_session(store)
            round_ = await store.begin_tool_round(session_id, "r", round_of("a"))
            await store.set_tool_result(round_, 0, ToolMessage("a", "1"))
            with suppress(StoreError):
                await store.suspend_round(round_, _PENDING)
            expect(await store.suspended_rounds(session_id) == [], "a round with all its results is marked")

    async def marks_are_fenced(self) -> None:
        async with self._store() as store:
            if not supports(store, SupportsLeases):
                return
            session_id = await with_session(store)
            round_ = await store.begin_tool_round(session_id, "r", round_of("a"))
            lease = await store.try_acquire_session_turn_lease(session_id, "one", 60.0)
            try:
                await store.suspend_round(round_, _PENDING)
            except LeaseLostError:
                pass
            else:
                raise UnmetError("suspend_round without the token that is held raised no LeaseLostError")
            await store.suspend_round(round_, _PENDING, lease=lease)
            expect(len(await store.suspended_rounds(session_id)) == 1, "the holder could not mark a round")

    async def unknown_sessions_have_no_rounds(self) -> None:
        async with self._store() as store:
            await raises_not_found(store.suspended_rounds("check-no-such-session"), "suspended_rounds")


class StateChecks:
    """The promises of `SupportsSessionState`."""

    def __init__(self, make_store: MakeStore) -> None:
        self._make = make_store

    @asynccontextmanager
    async def _store(self) -> AsyncIterator[StateStore]:
        async with Opened(self._make) as store:
            if not supports(store, SupportsSessionState):
                raise UnmetError("this store keeps no values for a session, the one before did")
            yield store

    async def values_come_back_as_they_were(self) -> None:
        async with self._store() as store:
            session_id, other = await with_session(store), await with_session(store)
            values: JsonObject = {
                "object": {"a": [1, 2.5, None, True], "": {}},
                "text": "W\x00 \u6587 \U0001f469\u200d\U0001f4bb",
                "zero": 0,
                "false": False,
                "empty": [],
            }
            for name, value in values.items():
                await store.set_session_state(session_id, name, value)
            for name, value in values.items():
                found = await store.get_session_state(session_id, name)
                same = found == value and type(found) is type(value)
                expect(same, f"the value {name!r} came back as {found!r}")
                elsewhere = await store.get_session_state(other, name)
                expect(elsewhere is None, "a value of one session is found in another")

    async def a_later_value_replaces_and_none_removes(self) -> None:
        async with self._store() as store:
            session_id = await with_session(store)
            expect(await store.get_session_state(session_id, "a") is None, "there is a value that nobody set")
            values: tuple[JsonValue, ...] = ({"x": 1}, {"y": 2}, None, None)
            for value in values:
                await store.set_session_state(session_id, "a", value)
                found = await store.get_session_state(session_id, "a")
                expect(found == value, f"set to {value!r}, the value is {found!r}")

    async def a_value_changed_afterwards_stays_as_stored(self) -> None:
        async with self._store() as store:
            session_id = await with_session(store)
            items: list[JsonValue] = [1]
            await store.set_session_state(session_id, "a", items)
            items.append(2)
            expect(
                await store.get_session_state(session_id, "a") == [1], "the store shares the caller's list"
            )

    async def values_are_not_fenced(self) -> None:
        async with self._store() as store:
            session_id = await with_session(store)
            if supports(store, SupportsLeases):
                await store.try_acquire_session_turn_lease(session_id, "one", 60.0)
            await store.set_session_state(session_id, "a", 1)
            expect(await store.get_session_state(session_id, "a") == 1, "a value was not kept under a lease")

    async def unknown_sessions_have_no_values(self) -> None:
        async with self._store() as store:
            missing = "check-no-such-session"
            await raises_not_found(store.get_session_state(missing, "a"), "get_session_state")
            await raises_not_found(store.set_session_state(missing, "a", 1), "set_session_state")
