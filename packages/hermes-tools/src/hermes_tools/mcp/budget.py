"""When a server may be started again. Pure: the time is given.

The first two starts are free, then pauses grow; after `attempts` starts without a server that proved itself
there is one start every `park_s` seconds, so that a server which is repaired comes back. Only a connection
that stood for `healthy_after_s` seconds and answered something makes the count begin anew: one that is
accepted and then drops does not. A start that failed slowly keeps the next one off for `patience` times as
long, so that a server which does not answer delays few turns.
"""

from __future__ import annotations

import msgspec

__all__ = ["ReconnectBudget", "ReconnectLimits"]


class ReconnectLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Times are in seconds."""

    attempts: int = 5
    """Starts in a row before the server is parked."""
    first_pause_s: float = 1.0
    """Before the third start; the second comes at once, later pauses double."""
    longest_pause_s: float = 30.0
    """Where the doubling ends."""
    park_s: float = 300.0
    """Between starts from then on."""
    healthy_after_s: float = 30.0
    """A connection that worked for so long counts as a success: counting begins anew."""
    patience: float = 10.0
    """A start that failed after t seconds keeps the next one off for this many times t."""


class ReconnectBudget:
    """The starts of one server."""

    def __init__(self, limits: ReconnectLimits) -> None:
        self._limits = limits
        self._next_at = float("-inf")
        self.used: int = 0

    def wait_s(self, now: float) -> float:
        """How long from `now` until a start is allowed; 0: at once."""
        return max(0.0, self._next_at - now)

    def started(self, now: float) -> None:
        """A start was made."""
        self.used += 1
        self._next_at = now + self._pause_s()

    def failed(self, now: float, took_s: float) -> None:
        """The start made last came to nothing at `now`, after so many seconds."""
        self._next_at = max(self._next_at, now + self._limits.patience * took_s)

    def withdrawn(self) -> None:
        """The start made last was given up by us; it says nothing about the server."""
        self.used -= 1
        self._next_at = float("-inf")

    def ended(self, up_s: float, *, answered: bool) -> None:
        """A connection ended that stood for `up_s` seconds; `answered`: with more than a handshake."""
        if answered and up_s >= self._limits.healthy_after_s:
            self.used = 0
            self._next_at = float("-inf")

    def _pause_s(self) -> float:
        if self.used >= self._limits.attempts:
            return self._limits.park_s
        if self.used < 2:
            return 0.0
        return min(self._limits.first_pause_s * 2.0 ** (self.used - 2), self._limits.longest_pause_s)
