"""When a request may go: the arithmetic of a rate limit. Pure: the time is passed in.

In no stretch of time as long as the window go more requests, or tokens, than its share of the minute's limit:
hosts that count by the clock's minute and hosts that refill a bucket are both content with that. Beside it
stands a number of requests under way.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort

from msgspec import Struct

from hermes_messages import ConfigurationError

__all__ = ["Limits", "Schedule", "Ticket"]

_MINUTE_S = 60.0
_HAIR = 1e-9


class Limits(Struct, frozen=True, kw_only=True):
    """What a route allows; None is no limit. `window_s` is the stretch in which the limits hold: 60 lets a
    minute's worth go at once, a shorter one spreads it. Raises `ConfigurationError` for a limit below 1."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    max_concurrent: int | None = None
    window_s: float = _MINUTE_S

    def __post_init__(self) -> None:
        for name in ("requests_per_minute", "tokens_per_minute", "max_concurrent"):
            value = getattr(self, name)
            if value is not None and not value >= 1:
                raise ConfigurationError(f"{name} must be at least 1, not {value}")
        if not 0 < self.window_s <= _MINUTE_S:
            raise ConfigurationError(f"window_s must be above 0 and at most 60, not {self.window_s}")


class _Entry:
    """Something that counts until `expires`."""

    __slots__ = ("amount", "expires")

    def __init__(self, amount: float, expires: float) -> None:
        self.amount: float = amount
        self.expires: float = expires

    def __lt__(self, other: _Entry) -> bool:
        return self.expires < other.expires


class _Window:
    """What went in the last stretch of time. What is larger than the whole limit counts for longer."""

    __slots__ = ("_entries", "_limit", "_used", "_window_s")

    def __init__(self, per_minute: float, window_s: float, smallest: float) -> None:
        self._window_s = max(window_s, smallest * _MINUTE_S / per_minute)
        self._limit = per_minute * self._window_s / _MINUTE_S
        self._entries: list[_Entry] = []
        self._used = 0.0

    def wait_s(self, amount: float, now: float) -> float:
        self._forget(now)
        excess = self._used + min(amount, self._limit) - self._limit
        wait = 0.0
        for entry in self._entries:
            if excess <= _HAIR * self._limit:
                break
            excess -= entry.amount
            wait = entry.expires - now
        return wait

    def take(self, amount: float, now: float) -> _Entry:
        self._forget(now)
        entry = _Entry(amount, now + self._window_s)
        self._settle(entry, amount)
        insort(self._entries, entry)
        self._used += entry.amount
        return entry

    def correct(self, entry: _Entry, real: float, now: float) -> None:
        """`entry` was `real` in truth; one that has expired counts no more."""
        self._forget(now)
        if entry.expires <= now:
            return
        self._used -= entry.amount
        if real > self._limit or entry.expires > now + self._window_s:
            place = bisect_left(self._entries, entry)
            del self._entries[self._entries.index(entry, place)]
            entry.expires = min(entry.expires, now + self._window_s)
            self._settle(entry, real)
            insort(self._entries, entry)
        else:
            entry.amount = real
        self._used += entry.amount

    def _settle(self, entry: _Entry, amount: float) -> None:
        entry.expires += self._window_s * max(0.0, amount / self._limit - 1.0)
        entry.amount = min(amount, self._limit)

    def _forget(self, now: float) -> None:
        gone = 0
        for entry in self._entries:
            if entry.expires > now:
                break
            self._used -= entry.amount
            gone += 1
        del self._entries[:gone]
        if not self._entries:
            self._used = 0.0  # no rest of rounding


class Ticket(Struct, frozen=True, eq=False):
    """A request that went by `schedule`. `tokens` is its share of the token limit, if there is one."""

    schedule: Schedule
    tokens: _Entry | None


class Schedule:
    """The state of one route. Whoever asks first is served first: that is the caller's queue, not ours."""

    __slots__ = ("_held_until", "_max_concurrent", "_requests", "_running", "_tokens")

    def __init__(self, limits: Limits, now: float) -> None:
        requests, tokens = limits.requests_per_minute, limits.tokens_per_minute
        self._requests = None if requests is None else _Window(requests, limits.window_s, 1.0)
        self._tokens = None if tokens is None else _Window(tokens, limits.window_s, 0.0)
        self._max_concurrent = limits.max_concurrent
        self._running = 0
        self._held_until = now

    @property
    def running(self) -> int:
        """Requests under way."""
        return self._running

    def wait_s(self, tokens: int, now: float) -> float:
        """Seconds until a request of `tokens` may go; 0 is now, infinity is when another one ends."""
        if self._max_concurrent is not None and self._running >= self._max_concurrent:
            return math.inf
        waits = [max(0.0, self._held_until - now)]
        if self._requests is not None:
            waits.append(self._requests.wait_s(1.0, now))
        if self._tokens is not None:
            waits.append(self._tokens.wait_s(float(tokens), now))
        return max(waits)

    def start(self, tokens: int, now: float) -> Ticket:
        """A request goes."""
        self._running += 1
        if self._requests is not None:
            self._requests.take(1.0, now)
        return Ticket(self, None if self._tokens is None else self._tokens.take(float(tokens), now))

    def end(self) -> None:
        """A request ended, however."""
        self._running -= 1

    def correct(self, ticket: Ticket, real: int, now: float) -> None:
        """What a request really used, against what it was let go with."""
        if ticket.schedule is self and self._tokens is not None and ticket.tokens is not None:
            self._tokens.correct(ticket.tokens, float(real), now)

    def hold(self, seconds: float, now: float) -> None:
        """Let nothing go for `seconds`: the host asked for that."""
        self._held_until = max(self._held_until, now + seconds)
