"""The checks of what a store may do besides, each seen to fail for a store that breaks its promise."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from hermes_messages import (
    JsonValue,
    LeaseLostError,
    SessionNotFoundError,
    StoreBusyError,
    StoreError,
    ToolMessage,
)
from hermes_messages.protocols import (
    LeaseToken,
    NewMessage,
    SessionInfo,
    SessionStore,
    SuspendedRound,
    ToolRound,
)
from hermes_messages.testing import MemoryStore
from hermes_messages.testing.conformance import compression_checks, queue_checks, session_checks
from hermes_messages.testing.memory_turns import Place
from store_check_help import assert_found, checks_of


class Queueing(MemoryStore):
    """A subclass changes how the lease is waited for."""

    async def acquire_session_turn_lease(
        self, session_id: str, holder: str, ttl_s: float, *, wait_s: float | None = None
    ) -> LeaseToken:
        return await self.wait(session_id, holder, ttl_s, wait_s)

    async def wait(self, session_id: str, holder: str, ttl_s: float, wait_s: float | None) -> LeaseToken:
        return await super().acquire_session_turn_lease(session_id, holder, ttl_s, wait_s=wait_s)


class BusyWithoutLooking(Queueing):
    async def wait(self, session_id: str, holder: str, ttl_s: float, wait_s: float | None) -> LeaseToken:
        if wait_s == 0:
            raise StoreBusyError("no time to look")
        return await super().wait(session_id, holder, ttl_s, wait_s)


class LastComeFirstServed(Queueing):
    async def wait(self, session_id: str, holder: str, ttl_s: float, wait_s: float | None) -> LeaseToken:
        queue, place = self._queues[session_id], Place()
        queue.append(place)
        try:
            while queue[-1] is not place or not self._is_free(session_id, holder):
                await place.called(0.02)
            return self._take_lease(session_id, holder, ttl_s)
        finally:
            queue.remove(place)


class LetsOthersOvertake(MemoryStore):
    """Who waits looks from time to time, and who comes meanwhile finds the lease free."""

    async def _called(self, queue: Sequence[Place], place: Place) -> None:
        await asyncio.sleep(0.02)

    async def try_acquire_session_turn_lease(
        self, session_id: str, holder: str, ttl_s: float
    ) -> LeaseToken | None:
        async with self._step("try_acquire_session_turn_lease"):
            return self._take_lease(session_id, holder, ttl_s) if self._is_free(session_id, holder) else None


class KeepsTheTicketOf(Queueing):
    """Who gave up keeps a place."""

    error: type[BaseException]

    async def wait(self, session_id: str, holder: str, ttl_s: float, wait_s: float | None) -> LeaseToken:
        try:
            return await super().wait(session_id, holder, ttl_s, wait_s)
        except self.error:
            self._queues[session_id].append(Place())
            raise


class KeepsTheTicketOfTheLate(KeepsTheTicketOf):
    error = StoreBusyError


class KeepsTheTicketOfTheCancelled(KeepsTheTicketOf):
    error = asyncio.CancelledError


class KeepsTheLeaseOfTheCancelled(Queueing):
    async def wait(self, session_id: str, holder: str, ttl_s: float, wait_s: float | None) -> LeaseToken:
        async with self._step("acquire_session_turn_lease"):
            return await self._take_in_turn(session_id, holder, ttl_s, wait_s)


class Marking(MemoryStore):
    """A subclass changes what a mark is."""

    async def suspend_round(
        self, round_: ToolRound, pending: JsonValue, *, lease: LeaseToken | None = None
    ) -> None:
        await self.mark(round_, pending, lease)

    async def mark(self, round_: ToolRound, pending: JsonValue, lease: LeaseToken | None) -> None:
        await super().suspend_round(round_, pending, lease=lease)


class FirstMarkStays(Marking):
    async def mark(self, round_: ToolRound, pending: JsonValue, lease: LeaseToken | None) -> None:
        if not await self.suspended_rounds(round_.session_id):
            await super().mark(round_, pending, lease)


class MarksClosedRounds(Marking):
    async def mark(self, round_: ToolRound, pending: JsonValue, lease: LeaseToken | None) -> None:
        session = self._writable(round_.session_id, lease)
        session.suspended[round_.assistant_seq] = SuspendedRound(round_, pending)


class AnyoneMarks(Marking):
    async def mark(self, round_: ToolRound, pending: JsonValue, lease: LeaseToken | None) -> None:
        await super().mark(round_, pending, self.held_lease(round_.session_id))


class NewestRoundFirst(MemoryStore):
    async def suspended_rounds(self, session_id: str) -> list[SuspendedRound]:
        return (await super().suspended_rounds(session_id))[::-1]


class NoSessionNoRounds(MemoryStore):
    async def suspended_rounds(self, session_id: str) -> list[SuspendedRound]:
        try:
            return await super().suspended_rounds(session_id)
        except SessionNotFoundError:
            return []


class MarksStay(MemoryStore):
    async def set_tool_result(
        self, round_: ToolRound, position: int, message: ToolMessage, *, lease: LeaseToken | None = None
    ) -> None:
        before = dict(self._session(round_.session_id).suspended)
        await super().set_tool_result(round_, position, message, lease=lease)
        self._session(round_.session_id).suspended = before


class NeverResumes(MemoryStore):
    async def resume_round(self, round_: ToolRound, *, lease: LeaseToken | None = None) -> None:
        return


class Keeping(MemoryStore):
    """A subclass changes how a value is kept."""

    async def set_session_state(self, session_id: str, name: str, value: JsonValue) -> None:
        await self.keep(session_id, name, value)

    async def keep(self, session_id: str, name: str, value: JsonValue) -> None:
        await super().set_session_state(session_id, name, value)


class DropsWhatIsFalse(Keeping):
    async def keep(self, session_id: str, name: str, value: JsonValue) -> None:
        await super().keep(session_id, name, value or None)


class NeverForgets(Keeping):
    async def keep(self, session_id: str, name: str, value: JsonValue) -> None:
        if value is not None:
            await super().keep(session_id, name, value)


class SharesValues(Keeping):
    async def keep(self, session_id: str, name: str, value: JsonValue) -> None:
        self._session(session_id).state[name] = value


class FencesValues(Keeping):
    async def keep(self, session_id: str, name: str, value: JsonValue) -> None:
        if self.held_lease(session_id) is not None:
            raise LeaseLostError("someone holds a lease")
        await super().keep(session_id, name, value)


class MakesSessionsForValues(Keeping):
    async def keep(self, session_id: str, name: str, value: JsonValue) -> None:
        await self.ensure_session(session_id, SessionInfo())
        await super().keep(session_id, name, value)


class Compressing(MemoryStore):
    """A subclass changes how a conversation is compressed."""

    async def archive_and_compact(
        self,
        session_id: str,
        messages: Sequence[NewMessage],
        *,
        child_session_id: str | None = None,
        lease: LeaseToken | None = None,
    ) -> str:
        return await self.compact(session_id, messages, child_session_id, lease)

    async def compact(
        self, session_id: str, messages: Sequence[NewMessage], child: str | None, lease: LeaseToken | None
    ) -> str:
        return await super().archive_and_compact(session_id, messages, child_session_id=child, lease=lease)


class OnlyAppends(Compressing):
    async def compact(
        self, session_id: str, messages: Sequence[NewMessage], child: str | None, lease: LeaseToken | None
    ) -> str:
        if child is None:
            await self.append_messages_batch(session_id, messages, lease=lease)
            return session_id
        return await super().compact(session_id, messages, child, lease)


class NeverEndsIt(Compressing):
    async def compact(
        self, session_id: str, messages: Sequence[NewMessage], child: str | None, lease: LeaseToken | None
    ) -> str:
        goes_on = await super().compact(session_id, messages, child, lease)
        self._session(session_id).ended_at = None
        return goes_on


class ForgetsTheChild(MemoryStore):
    async def resolve_resume_session_id(self, session_id: str) -> str:
        return session_id


class TwoChildren(Compressing):
    async def compact(
        self, session_id: str, messages: Sequence[NewMessage], child: str | None, lease: LeaseToken | None
    ) -> str:
        try:
            return await super().compact(session_id, messages, child, lease)
        except StoreError:
            return child or session_id


class CutsRounds(Compressing):
    async def compact(
        self, session_id: str, messages: Sequence[NewMessage], child: str | None, lease: LeaseToken | None
    ) -> str:
        self._session(session_id).rounds.clear()
        return await super().compact(session_id, messages, child, lease)


class AnyoneCompresses(Compressing):
    async def compact(
        self, session_id: str, messages: Sequence[NewMessage], child: str | None, lease: LeaseToken | None
    ) -> str:
        return await super().compact(session_id, messages, child, self.held_lease(session_id))


class CompressesNothing(Compressing):
    async def compact(
        self, session_id: str, messages: Sequence[NewMessage], child: str | None, lease: LeaseToken | None
    ) -> str:
        await self.ensure_session(session_id, SessionInfo())
        return await super().compact(session_id, messages, child, lease)


class CompressesInTwoSteps(Compressing):
    async def compact(
        self, session_id: str, messages: Sequence[NewMessage], child: str | None, lease: LeaseToken | None
    ) -> str:
        if child is None and not self._session(session_id).holds(messages):
            await super().compact(session_id, [], None, lease)
        return await super().compact(session_id, messages, child, lease)


BROKEN: list[tuple[Callable[[], SessionStore], str]] = [
    (BusyWithoutLooking, "a_free_lease_is_given_at_once"),
    (LastComeFirstServed, "it_goes_from_one_to_the_next_in_order"),
    (LetsOthersOvertake, "nobody_overtakes_who_waits"),
    (KeepsTheTicketOfTheLate, "a_wait_that_is_over_leaves_no_place"),
    (KeepsTheTicketOfTheCancelled, "a_cancelled_wait_leaves_no_place"),
    (KeepsTheLeaseOfTheCancelled, "cancelling_anywhere_leaves_nothing_held"),
    (FirstMarkStays, "a_mark_keeps_what_is_pending"),
    (NewestRoundFirst, "the_oldest_round_comes_first"),
    (MarksStay, "the_last_result_takes_the_mark_away"),
    (NeverResumes, "a_resumed_round_is_an_open_one"),
    (MarksClosedRounds, "a_closed_round_gets_no_mark"),
    (AnyoneMarks, "marks_are_fenced"),
    (NoSessionNoRounds, "unknown_sessions_have_no_rounds"),
    (DropsWhatIsFalse, "values_come_back_as_they_were"),
    (NeverForgets, "a_later_value_replaces_and_none_removes"),
    (SharesValues, "a_value_changed_afterwards_stays_as_stored"),
    (FencesValues, "values_are_not_fenced"),
    (MakesSessionsForValues, "unknown_sessions_have_no_values"),
    (OnlyAppends, "in_place_the_session_goes_on"),
    (NeverEndsIt, "into_a_child_the_session_ends"),
    (ForgetsTheChild, "the_newest_of_a_lineage_is_found"),
    (TwoChildren, "a_second_child_is_refused"),
    (CutsRounds, "a_round_is_never_cut"),
    (AnyoneCompresses, "the_lease_is_asked_for_and_goes_on"),
    (CompressesNothing, "unknown_sessions_are_not_compressed"),
    (CompressesInTwoSteps, "a_cancelled_one_happens_whole_or_not_at_all"),
]


@pytest.mark.parametrize(("make", "promise"), BROKEN)
def test_a_broken_promise_is_found(make: Callable[[], SessionStore], promise: str) -> None:
    assert_found(make, promise)


def test_every_check_was_seen_to_fail() -> None:
    seen = {promise for _, promise in BROKEN}
    assert (
        checks_of(
            queue_checks.QueueChecks,
            session_checks.SuspensionChecks,
            session_checks.StateChecks,
            compression_checks.CompressionChecks,
        )
        == seen
    )
