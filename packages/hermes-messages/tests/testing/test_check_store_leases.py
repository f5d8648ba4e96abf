"""The checks of leases and of search, each seen to fail for a store that breaks its promise."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from hermes_messages import (
    SessionNotFoundError,
    ToolMessage,
)
from hermes_messages.protocols import (
    LeaseToken,
    MessageHit,
    SessionStore,
    ToolRound,
)
from hermes_messages.testing import MemoryStore
from hermes_messages.testing.conformance import lease_checks, search_checks
from store_check_help import assert_found, checks_of


class EveryoneHoldsIt(MemoryStore):
    async def try_acquire_session_turn_lease(
        self, session_id: str, holder: str, ttl_s: float
    ) -> LeaseToken | None:
        return await super().try_acquire_session_turn_lease(session_id, "everyone", ttl_s)


class ChecksThenTakes(MemoryStore):
    async def try_acquire_session_turn_lease(
        self, session_id: str, holder: str, ttl_s: float
    ) -> LeaseToken | None:
        if self.held_lease(session_id) is not None:
            return None
        await asyncio.sleep(0)
        self._lease_numbers[session_id] += 1
        token = LeaseToken(session_id, holder, self._lease_numbers[session_id], self._clock() + ttl_s)
        self._leases[session_id] = token
        return token


class LeasesNeedTheirSession(MemoryStore):
    async def try_acquire_session_turn_lease(
        self, session_id: str, holder: str, ttl_s: float
    ) -> LeaseToken | None:
        if session_id not in self._sessions:
            raise SessionNotFoundError(session_id)
        return await super().try_acquire_session_turn_lease(session_id, holder, ttl_s)


class NeverReleases(MemoryStore):
    async def release_session_turn_lease(self, lease: LeaseToken) -> None:
        pass


class SameNumberAgain(MemoryStore):
    async def release_session_turn_lease(self, lease: LeaseToken) -> None:
        await super().release_session_turn_lease(lease)
        self._lease_numbers[lease.session_id] -= 1


class Unfenced(MemoryStore):
    """A subclass says which writes are let through."""

    def lets_through(self, lease: LeaseToken | None) -> bool:
        return False

    def _writable(self, session_id: str, lease: LeaseToken | None) -> Any:
        if self.lets_through(lease):
            return self._session(session_id)
        return super()._writable(session_id, lease)


class NoTokenNeeded(Unfenced):
    def lets_through(self, lease: LeaseToken | None) -> bool:
        return lease is None


class AnyTokenDoes(Unfenced):
    def lets_through(self, lease: LeaseToken | None) -> bool:
        return lease is not None


class WritesThenRefuses(MemoryStore):
    """A refused result is stored all the same."""

    async def set_tool_result(
        self, round_: ToolRound, position: int, message: ToolMessage, *, lease: LeaseToken | None = None
    ) -> None:
        self._session(round_.session_id).places[round_.result_seqs[position] - 1].message = message
        await super().set_tool_result(round_, position, message, lease=lease)


class RefreshTakesANewNumber(MemoryStore):
    async def refresh_session_turn_lease(self, lease: LeaseToken, ttl_s: float) -> LeaseToken:
        await super().refresh_session_turn_lease(lease, ttl_s)
        self._leases.pop(lease.session_id)
        token = await self.try_acquire_session_turn_lease(lease.session_id, lease.holder, ttl_s)
        assert token is not None
        return token


class ReleasesAnyones(MemoryStore):
    async def release_session_turn_lease(self, lease: LeaseToken) -> None:
        self._leases.pop(lease.session_id, None)


class RevivesTheDead(MemoryStore):
    async def refresh_session_turn_lease(self, lease: LeaseToken, ttl_s: float) -> LeaseToken:
        self._leases[lease.session_id] = lease
        return await super().refresh_session_turn_lease(lease, ttl_s)


class Searching(MemoryStore):
    """A subclass changes the query or the hits."""

    def query(self, query: str) -> str:
        return query

    def hits(self, hits: list[MessageHit]) -> list[MessageHit]:
        return hits

    async def search_messages(
        self, query: str, *, session_id: str | None = None, role: str | None = None, limit: int = 20
    ) -> list[MessageHit]:
        found = await super().search_messages(
            self.query(query), session_id=session_id, role=role, limit=limit
        )
        return self.hits(found)


class OneWordIsEnough(Searching):
    def query(self, query: str) -> str:
        return query.split()[-1] if query.strip() else query


class FindsElsewhere(MemoryStore):
    async def search_messages(
        self, query: str, *, session_id: str | None = None, role: str | None = None, limit: int = 20
    ) -> list[MessageHit]:
        return await super().search_messages(query, role=role, limit=limit)


class ChokesOnQuotes(Searching):
    def query(self, query: str) -> str:
        if "'" in query:
            raise ValueError("syntax error")
        return query


class OnlySpacesPartWords(Searching):
    def query(self, query: str) -> str:
        return query if query.isascii() else "nothing-like-this"


BROKEN: list[tuple[Callable[[], SessionStore], str]] = [
    (EveryoneHoldsIt, "one_holder_at_a_time"),
    (ChecksThenTakes, "only_one_of_many_gets_it"),
    (LeasesNeedTheirSession, "a_lease_may_come_before_its_session"),
    (NeverReleases, "a_released_lease_is_free"),
    (SameNumberAgain, "a_released_lease_is_free"),
    (NoTokenNeeded, "writes_need_the_token_while_it_is_held"),
    (WritesThenRefuses, "writes_need_the_token_while_it_is_held"),
    (AnyTokenDoes, "writes_under_an_old_token_are_refused"),
    (RefreshTakesANewNumber, "a_refreshed_lease_lives_on"),
    (ReleasesAnyones, "a_lost_lease_can_not_be_refreshed_or_released"),
    (RevivesTheDead, "a_lost_lease_can_not_be_refreshed_or_released"),
    (OneWordIsEnough, "all_words_must_be_there"),
    (FindsElsewhere, "only_the_session_asked_for"),
    (ChokesOnQuotes, "any_text_is_a_query"),
    (OnlySpacesPartWords, "words_without_spaces_are_found"),
]


@pytest.mark.parametrize(("make", "promise"), BROKEN)
def test_a_broken_promise_is_found(make: Callable[[], SessionStore], promise: str) -> None:
    assert_found(make, promise)


def test_every_check_was_seen_to_fail() -> None:
    assert checks_of(lease_checks.LeaseChecks, search_checks.SearchChecks) == {
        promise for _, promise in BROKEN
    }
