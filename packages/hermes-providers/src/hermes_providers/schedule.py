"""When a request may go: the arithmetic of a rate limit. Pure: the time is passed in.

Requests and tokens are two buckets that refill evenly, a minute's worth each; beside them a number of
requests under way. A request that is larger than a whole bucket goes when the bucket is full, and leaves it
in debt, so it can not wait for ever.
"""

from __future__ import annotations

import math

from msgspec import Struct

from hermes_messages import ConfigurationError

__all__ = ["Limits", "Schedule"]

_MINUTE_S = 60.0


class Limits(Struct, frozen=True, kw_only=True):
    """What a route allows; None is no limit. Raises `ConfigurationError` for a limit below 1."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    max_concurrent: int | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and not value >= 1:
                raise ConfigurationError(f"{name} must be at least 1, not {value}")


class _Bucket:
    """Holds a minute's worth; refills evenly; may go into debt."""

    __slots__ = ("_at", "_level", "_size")

    def __init__(self, per_minute: float, now: float) -> None:
        self._size = per_minute
        self._level = per_minute
        self._at = now

    def wait_s(self, amount: float, now: float) -> float:
        self._refill(now)
        missing = min(amount, self._size) - self._level
        # A hair of rounding must not make a waiter wake a moment early and wait again.
        return missing * _MINUTE_S / self._size if missing > 1e-9 * self._size else 0.0

    def take(self, amount: float, now: float) -> None:
        self._refill(now)
        self._level = min(self._size, self._level - amount)

    def _refill(self, now: float) -> None:
        if now > self._at:
            self._level = min(self._size, self._level + (now - self._at) * self._size / _MINUTE_S)
            self._at = now


class Schedule:
    """The state of one route. Whoever asks first is served first: that is the caller's queue, not ours."""

    __slots__ = ("_held_until", "_max_concurrent", "_requests", "_running", "_tokens")

    def __init__(self, limits: Limits, now: float) -> None:
        self._requests = _bucket(limits.requests_per_minute, now)
        self._tokens = _bucket(limits.tokens_per_minute, now)
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

    def start(self, tokens: int, now: float) -> None:
        """A request goes."""
        self._running += 1
        if self._requests is not None:
            self._requests.take(1.0, now)
        if self._tokens is not None:
            self._tokens.take(float(tokens), now)

    def end(self) -> None:
        """A request ended, however."""
        self._running -= 1

    def correct(self, estimated: int, real: int, now: float) -> None:
        """What a request really used, against what it was let go with."""
        if self._tokens is not None:
            self._tokens.take(float(real - estimated), now)

    def hold(self, seconds: float, now: float) -> None:
        """Let nothing go for `seconds`: the host asked for that."""
        self._held_until = max(self._held_until, now + seconds)


def _bucket(per_minute: float | None, now: float) -> _Bucket | None:
    return None if per_minute is None else _Bucket(per_minute, now)
