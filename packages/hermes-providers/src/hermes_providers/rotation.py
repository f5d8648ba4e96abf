"""Which of several keys is used next. Pure: the time is passed in.

A key that a host limited, refused or found without credit rests for a while; the others go on in turn. What
is no fault of a key (overload, a bad request) rests nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hermes_messages import ErrorKind

__all__ = ["COOLDOWN_S", "AllResting", "Rotation"]

COOLDOWN_S: Mapping[ErrorKind, float] = {
    ErrorKind.RATE_LIMIT: 30.0,
    ErrorKind.BILLING: 3600.0,
    ErrorKind.AUTH: 3600.0,
}
"""How long a key rests after which failure, in seconds, where the host names no wait."""


class AllResting(Struct, frozen=True):
    """No key is ready: the first will be at `ready_at`; it rests because of `kind`."""

    ready_at: float
    kind: ErrorKind


class Rotation:
    """`count` keys, known by their place. Times are seconds of any one clock."""

    __slots__ = ("_kinds", "_next", "_ready_at")

    def __init__(self, count: int) -> None:
        self._ready_at = [0.0] * count
        self._kinds = [ErrorKind.RATE_LIMIT] * count
        self._next = 0

    def pick(self, now: float) -> int | AllResting:
        """The place of the key to use now. Keys that are ready take turns."""
        count = len(self._ready_at)
        for step in range(count):
            place = (self._next + step) % count
            if self._ready_at[place] <= now:
                self._next = (place + 1) % count
                return place
        first = min(range(count), key=self._ready_at.__getitem__)
        return AllResting(self._ready_at[first], self._kinds[first])

    def rest(self, place: int, kind: ErrorKind, retry_after_s: float | None, now: float) -> bool:
        """Let a key rest after a failure of `kind`; whether it was a failure of the key at all."""
        usual = COOLDOWN_S.get(kind)
        if usual is None:
            return False
        wait = usual if retry_after_s is None or kind is not ErrorKind.RATE_LIMIT else retry_after_s
        self._ready_at[place] = max(self._ready_at[place], now + wait)
        self._kinds[place] = kind
        return True

    def any_ready(self, now: float) -> bool:
        """Whether a key could be used now."""
        return any(ready_at <= now for ready_at in self._ready_at)
