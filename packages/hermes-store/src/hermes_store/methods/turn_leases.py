"""Turn leases, and waiting for one."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Iterable
from functools import partial

from hermes_messages import ConfigurationError, StoreBusyError
from hermes_messages.protocols import LeaseToken
from hermes_store.backend import Operation
from hermes_store.lease_lines import Line, Lines, Place
from hermes_store.methods.base import StoreMethods
from hermes_store.operations import leases
from hermes_store.waiting import finish

__all__ = ["LeaseMethods"]

FIRST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 0.2
GIVE_BACK_LIMIT_S = 5.0


class LeaseMethods(StoreMethods):
    """One turn of a lineage of sessions at a time, across processes."""

    _lines: Lines

    async def try_acquire_session_turn_lease(
        self, session_id: str, holder: str, ttl_s: float
    ) -> LeaseToken | None:
        """The lease for `ttl_s` seconds, or None while someone else holds it or waits for it. Never waits.

        A cancelled call leaves no lease behind.
        """
        _check_ttl(ttl_s)
        if self._lines.get(session_id) is not None:
            await asyncio.sleep(0)  # who tries again and again lets others run
            return None
        given: list[LeaseToken] = []

        def ask() -> Operation[LeaseToken | None]:
            answer = yield from leases.try_acquire(session_id, holder, ttl_s)
            if answer is not None:
                given.append(answer)
            return answer

        try:
            return await self._backend.write(ask)
        except BaseException:
            await finish(self._release(given), GIVE_BACK_LIMIT_S)
            raise

    async def acquire_session_turn_lease(
        self, session_id: str, holder: str, ttl_s: float, *, wait_s: float | None = None
    ) -> LeaseToken:
        """The lease for `ttl_s` seconds, after those who asked this store before. Several stores, as those of
        several processes, have it in turns: each for one turn, in the order in which they began to wait.

        A cancelled wait leaves neither a lease nor a place in the queue behind. Raises `StoreBusyError` when
        it did not come within `wait_s` seconds, `StoreClosedError` when the store is closed meanwhile, and
        `ConfigurationError` for a `ttl_s` or `wait_s` that is no such number.
        """
        _check_ttl(ttl_s)
        if wait_s is not None and math.isnan(wait_s):
            raise ConfigurationError("wait_s is not a number: nobody could say when the wait is over")
        deadline = None if wait_s is None else asyncio.get_running_loop().time() + wait_s
        with self._lines.place(session_id) as (line, place):
            token = None
            try:
                if await _is_called(line, place, deadline):
                    token = await self._ask(
                        line, partial(leases.request, session_id, holder, ttl_s), deadline
                    )
            finally:
                # Where others stay nothing is awaited until it has left, so that one of them sees to it.
                if token is None and len(line) == 1 and line.ticket is not None:
                    ticket, line.ticket = line.ticket, None
                    await finish(self._withdraw(line, ticket), GIVE_BACK_LIMIT_S)
        if token is None:
            raise StoreBusyError(
                f"the turn lease of session {session_id!r} did not come free in {wait_s} s; nothing is held"
            )
        return token

    async def refresh_session_turn_lease(self, lease: LeaseToken, ttl_s: float) -> LeaseToken:
        """Hold on for another `ttl_s` seconds. Raises `LeaseLostError` when it is someone else's by now."""
        _check_ttl(ttl_s)
        return await self._backend.write(partial(leases.refresh, lease, ttl_s))

    async def release_session_turn_lease(self, lease: LeaseToken) -> None:
        """Give it back. A lease that was lost before is left alone."""
        try:
            await self._backend.write(partial(leases.release, lease))
        finally:
            line = self._lines.get(lease.session_id)
            if line is not None:
                line.wake()

    async def _ask(
        self,
        line: Line,
        request: Callable[[str, int | None], Operation[LeaseToken | int]],
        deadline: float | None,
    ) -> LeaseToken | None:
        """Ask for the first of the line until it has the lease; None when its time is over."""
        given: list[LeaseToken | int] = []
        token: LeaseToken | None = None
        try:
            token = await self._ask_again_and_again(line, request, deadline, given)
        finally:
            if token is None:
                await finish(self._give_back(line, given), GIVE_BACK_LIMIT_S)
        return token

    async def _ask_again_and_again(
        self,
        line: Line,
        request: Callable[[str, int | None], Operation[LeaseToken | int]],
        deadline: float | None,
        given: list[LeaseToken | int],
    ) -> LeaseToken | None:
        clock, pause = asyncio.get_running_loop().time, FIRST_PAUSE_S

        def ask(ticket: int | None) -> Operation[LeaseToken | int]:
            answer = yield from request(line.name, ticket)
            given.append(answer)  # a cancelled caller gets no answer, but must know what to give back
            return answer

        while True:
            line.begin_to_ask()
            answer = await self._backend.write(partial(ask, line.ticket))
            given.clear()
            if isinstance(answer, LeaseToken):
                line.ticket = None
                return answer
            line.ticket = answer
            left = math.inf if deadline is None else deadline - clock()
            if left <= 0:
                return None
            spread = random.uniform(0.5, 1.0)  # noqa: S311 - spreads those who ask, no secret
            await line.pause(min(pause * spread, left))
            pause = min(pause * 2, LONGEST_PAUSE_S)

    async def _give_back(self, line: Line, given: Iterable[LeaseToken | int]) -> None:
        """What an attempt got that was then rolled back may be another holder's by now, and is left alone.
        The ticket is the line's, which whoever is the last to leave withdraws."""
        for answer in given:
            if isinstance(answer, int):
                line.ticket = answer
        await self._release([answer for answer in given if isinstance(answer, LeaseToken)])

    async def _withdraw(self, line: Line, ticket: int) -> None:
        await self._backend.write(partial(leases.withdraw, line.name, ticket))

    async def _release(self, granted: Iterable[LeaseToken]) -> None:
        for token in granted:
            await self._backend.write(partial(leases.release, token))

    async def _send_waiters_away(self) -> None:
        """Whoever waits for a lease here is told that the store is closed, and leaves no ticket behind."""
        lines = self._lines.close()
        if lines:
            await finish(_all_emptied(lines), GIVE_BACK_LIMIT_S)


async def _is_called(line: Line, place: Place, deadline: float | None) -> bool:
    """Whether the place becomes the first in time."""
    try:
        async with asyncio.timeout_at(deadline):
            await line.called(place)
    except TimeoutError:
        return False
    return True


async def _all_emptied(lines: Iterable[Line]) -> None:
    for line in lines:
        await line.emptied()


def _check_ttl(ttl_s: float) -> None:
    if not 0 < ttl_s < float("inf"):
        raise ConfigurationError(f"a lease needs a positive number of seconds, not {ttl_s!r}")
