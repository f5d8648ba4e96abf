"""Turn leases, and waiting for one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial

from hermes_messages import ConfigurationError, StoreBusyError
from hermes_messages.protocols import LeaseToken
from hermes_store.backend import Operation
from hermes_store.methods.base import StoreMethods
from hermes_store.operations import leases
from hermes_store.waiting import finish

__all__ = ["LeaseMethods"]

TICKET_TTL_S = 5.0
"""How long a place in the queue is kept for a waiter that does not ask again."""
FIRST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 0.2
GIVE_BACK_LIMIT_S = 5.0


class LeaseMethods(StoreMethods):
    """One turn of a lineage of sessions at a time, across processes."""

    async def try_acquire_session_turn_lease(
        self, session_id: str, holder: str, ttl_s: float
    ) -> LeaseToken | None:
        """The lease for `ttl_s` seconds, or None while someone else holds it or waits for it. Never waits."""
        _check_ttl(ttl_s)
        return await self._backend.write(partial(leases.try_acquire, session_id, holder, ttl_s))

    async def acquire_session_turn_lease(
        self, session_id: str, holder: str, ttl_s: float, *, wait_s: float | None = None
    ) -> LeaseToken:
        """The lease for `ttl_s` seconds, after those who asked before, in whatever process they run.

        A cancelled wait leaves neither a lease nor a place in the queue behind. Raises `StoreBusyError` when
        it did not come within `wait_s` seconds.
        """
        _check_ttl(ttl_s)
        answers: list[LeaseToken | int] = []

        def ask() -> Operation[None]:
            ticket = answers[-1] if answers else None
            assert not isinstance(ticket, LeaseToken), "nobody asks again who has it"
            # Kept here and not only returned: a cancelled caller must know what to give back.
            answers.append((yield from leases.request(session_id, holder, ttl_s, ticket, TICKET_TTL_S)))

        try:
            async with asyncio.timeout(wait_s):
                return await self._wait_for_turn(ask, answers)
        except BaseException as error:
            await self._give_back(answers)
            if isinstance(error, TimeoutError):
                raise StoreBusyError(
                    f"the turn lease of session {session_id!r} did not come free in {wait_s} s; "
                    "nothing is held"
                ) from None
            raise

    async def refresh_session_turn_lease(self, lease: LeaseToken, ttl_s: float) -> LeaseToken:
        """Hold on for another `ttl_s` seconds. Raises `LeaseLostError` when it is someone else's by now."""
        _check_ttl(ttl_s)
        return await self._backend.write(partial(leases.refresh, lease, ttl_s))

    async def release_session_turn_lease(self, lease: LeaseToken) -> None:
        """Give it back. A lease that was lost before is left alone."""
        await self._backend.write(partial(leases.release, lease))

    async def _wait_for_turn(
        self, ask: Callable[[], Operation[None]], answers: list[LeaseToken | int]
    ) -> LeaseToken:
        pause = FIRST_PAUSE_S
        while True:
            await self._backend.write(ask)
            answer = answers[-1]
            if isinstance(answer, LeaseToken):
                return answer
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads waiters, no secret
            pause = min(pause * 2, LONGEST_PAUSE_S)

    async def _give_back(self, answers: list[LeaseToken | int]) -> None:
        """Undo what the last request got, bounded, however often the caller is cancelled."""
        if not answers:
            return
        last = answers[-1]
        undo = (
            partial(leases.release, last) if isinstance(last, LeaseToken) else partial(leases.withdraw, last)
        )
        await finish(self._backend.write(undo), GIVE_BACK_LIMIT_S)


def _check_ttl(ttl_s: float) -> None:
    if not 0 < ttl_s < float("inf"):
        raise ConfigurationError(f"a lease needs a positive number of seconds, not {ttl_s!r}")
