"""A rate limit that many agents and workers share: give every provider of a route the same `RateLimiter`.

First come, first served, also for large requests: nobody overtakes. No task of its own: who waits is woken
by a timer or by whoever ends before.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hermes_providers.schedule import Limits, Schedule, Ticket

__all__ = ["Permit", "RateLimiter"]

_MAX_HOLD_S = 120.0


class Permit:
    """One request that may go. `settle` corrects the estimate by what the host counted."""

    __slots__ = ("_limiter", "_ticket")

    def __init__(self, limiter: RateLimiter, ticket: Ticket) -> None:
        self._limiter = limiter
        self._ticket = ticket

    def settle(self, tokens: int) -> None:
        """Tell the tokens that the request really used."""
        self._limiter._correct(self._ticket, tokens)  # noqa: SLF001 - two halves of one thing


class RateLimiter:
    """Requests and tokens per minute, and requests at the same time, for one route.

    In no `window_s` seconds go more than these allow: 60 lets a minute's worth go at once, a shorter window
    spreads it evenly. Bound to the running event loop; under another loop it starts afresh. Raises
    `ConfigurationError` for a limit below 1.
    """

    def __init__(
        self,
        *,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        max_concurrent: int | None = None,
        window_s: float = 60.0,
    ) -> None:
        self._limits = Limits(
            requests_per_minute=requests_per_minute,
            tokens_per_minute=tokens_per_minute,
            max_concurrent=max_concurrent,
            window_s=window_s,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._schedule = Schedule(self._limits, 0.0)
        self._waiting: OrderedDict[asyncio.Future[Ticket], int] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"RateLimiter({self._limits!r}, running={self._schedule.running}, waiting={self.waiting})"

    @property
    def waiting(self) -> int:
        """Requests that wait for their turn."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Requests under way."""
        return self._schedule.running

    @asynccontextmanager
    async def admit(self, tokens: int) -> AsyncIterator[Permit]:
        """Wait until a request of about `tokens` may go; leaving the context ends it."""
        loop = self._bind()
        schedule = self._schedule
        ticket = await self._wait_for_turn(tokens, loop)
        try:
            yield Permit(self, ticket)
        finally:
            schedule.end()
            if self._schedule is schedule:
                self._serve()

    def hold(self, seconds: float) -> None:
        """The host asked this route to wait: nobody goes for so long, at most two minutes."""
        loop = self._bind()
        self._schedule.hold(min(seconds, _MAX_HOLD_S), loop.time())

    async def _wait_for_turn(self, tokens: int, loop: asyncio.AbstractEventLoop) -> Ticket:
        turn: asyncio.Future[Ticket] = loop.create_future()
        schedule = self._schedule
        self._waiting[turn] = tokens
        if len(self._waiting) == 1:  # else the first has its timer, or waits for another one's end
            self._serve()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was let go in the same moment
                schedule.end()
            else:
                self._waiting.pop(turn, None)
            self._serve()
            raise

    def _serve(self) -> None:
        """Let go whoever may, in order, and set the timer for the next one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        loop = self._loop
        while loop is not None and self._waiting:
            turn, tokens = next(iter(self._waiting.items()))
            if turn.done():
                del self._waiting[turn]
                continue
            wait = self._schedule.wait_s(tokens, loop.time())
            if wait > 0:
                if not math.isinf(wait):
                    self._timer = loop.call_later(wait, self._serve)
                return
            del self._waiting[turn]
            turn.set_result(self._schedule.start(tokens, loop.time()))

    def _correct(self, ticket: Ticket, real: int) -> None:
        loop = self._bind()
        self._schedule.correct(ticket, real, loop.time())
        self._serve()

    def _bind(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            self._schedule = Schedule(self._limits, loop.time())
            self._waiting = OrderedDict()
            self._timer = None
        return loop
