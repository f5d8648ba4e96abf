"""Turn leases, and waiting for one."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable
from functools import partial

from hermes_messages import ConfigurationError, StoreBusyError
from hermes_messages.protocols import LeaseToken
from hermes_store.backend import Operation
from hermes_store.methods.base import StoreMethods
from hermes_store.operations import leases
from hermes_store.waiting import carry_out, finish

__all__ = ["LeaseMethods"]

FIRST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 0.2
GIVE_BACK_LIMIT_S = 5.0


class LeaseMethods(StoreMethods):
    """One turn of a lineage of sessions at a time, across processes."""

    async def try_acquire_session_turn_lease(
        self, session_id: str, holder: str, ttl_s: float
    ) -> LeaseToken | None:
        """The lease for `ttl_s` seconds, or None while someone else holds it or waits for it. Never waits.

        A cancelled call leaves no lease behind.
        """
        _check_ttl(ttl_s)
        given: set[LeaseToken | int] = set()

        def ask() -> Operation[LeaseToken | None]:
            answer = yield from leases.try_acquire(session_id, holder, ttl_s)
            if answer is not None:
                given.add(answer)
            return answer

        try:
            return await self._backend.write(ask)
        except BaseException:
            await finish(self._give_back(given, holder), GIVE_BACK_LIMIT_S)
            raise

    async def acquire_session_turn_lease(
        self, session_id: str, holder: str, ttl_s: float, *, wait_s: float | None = None
    ) -> LeaseToken:
        """The lease for `ttl_s` seconds, after those who asked before, in whatever process they run.

        A cancelled wait leaves neither a lease nor a place in the queue behind. Raises `StoreBusyError` when
        it did not come within `wait_s` seconds.
        """
        _check_ttl(ttl_s)
        deadline = None if wait_s is None else time.monotonic() + wait_s
        given: set[LeaseToken | int] = set()
        ticket: int | None = None
        pause = FIRST_PAUSE_S

        def ask() -> Operation[LeaseToken | int]:
            answer = yield from leases.request(session_id, holder, ttl_s, ticket)
            given.add(answer)  # a cancelled caller gets no answer, but must know what to give back
            return answer

        try:
            while True:
                answer = await self._backend.write(ask)
                if isinstance(answer, LeaseToken):
                    return answer
                ticket = answer
                if deadline is not None and time.monotonic() >= deadline:
                    break
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads waiters, no secret
                pause = min(pause * 2, LONGEST_PAUSE_S)
        except BaseException:
            await finish(self._give_back(given, holder), GIVE_BACK_LIMIT_S)
            raise
        await carry_out(self._give_back(given, holder), GIVE_BACK_LIMIT_S)
        raise StoreBusyError(
            f"the turn lease of session {session_id!r} did not come free in {wait_s} s; nothing is held"
        )

    async def refresh_session_turn_lease(self, lease: LeaseToken, ttl_s: float) -> LeaseToken:
        """Hold on for another `ttl_s` seconds. Raises `LeaseLostError` when it is someone else's by now."""
        _check_ttl(ttl_s)
        return await self._backend.write(partial(leases.refresh, lease, ttl_s))

    async def release_session_turn_lease(self, lease: LeaseToken) -> None:
        """Give it back. A lease that was lost before is left alone."""
        await self._backend.write(partial(leases.release, lease))

    async def _give_back(self, given: Iterable[LeaseToken | int], holder: str) -> None:
        """What an attempt got that was then rolled back may be another holder's by now, and is left alone."""
        for answer in list(given):
            if isinstance(answer, LeaseToken):
                await self._backend.write(partial(leases.release, answer))
            else:
                await self._backend.write(partial(leases.withdraw, answer, holder))


def _check_ttl(ttl_s: float) -> None:
    if not 0 < ttl_s < float("inf"):
        raise ConfigurationError(f"a lease needs a positive number of seconds, not {ttl_s!r}")
