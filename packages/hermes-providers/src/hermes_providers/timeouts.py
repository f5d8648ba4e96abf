"""How long to wait for what, as values, and the deadline of each wait. Pure: the time is passed in."""

from __future__ import annotations

from collections.abc import Container, Mapping

import msgspec
from msgspec import Struct

from hermes_messages import ConfigurationError

__all__ = ["StreamClock", "Timeouts"]

_TIDY_END_S = 0.25


class Timeouts(Struct, frozen=True, kw_only=True):
    """Seconds; None waits without end. `first_event_s` runs from the sending of a request to the first event
    of its answer, `between_events_s` between events (keep-alive comments are none), `after_finish_s` from
    the word for why the answer ended to the end of the stream: what is missing then is not waited for.

    A model that is asked to reason may be silent for longer: `for_reasoning` widens what was left to the
    defaults, never what the user said. Raises `ConfigurationError` for a value that is not above 0.
    """

    connect_s: float | None = 10.0
    """To a connection, TLS included."""
    first_event_s: float | None = 300.0
    between_events_s: float | None = 300.0
    after_finish_s: float = 5.0
    total_s: float | None = None
    """For a whole request, from its sending to the end of its answer."""

    def __post_init__(self) -> None:
        for name, value in msgspec.structs.asdict(self).items():
            if value is not None and not value > 0:
                raise ConfigurationError(f"timeout {name} must be above 0 seconds, not {value}")

    def for_reasoning(self, explicit: Container[str] = ()) -> Timeouts:
        """The same, with the wider limits of a reasoning model for all that `explicit` does not name."""
        wider = {name: limit for name, limit in REASONING_S.items() if name not in explicit}
        return msgspec.structs.replace(self, **wider)


REASONING_S: Mapping[str, float] = {"first_event_s": 900.0, "between_events_s": 600.0}
"""How long a model that reasons may be silent, in seconds: some send nothing at all meanwhile."""


class StreamClock:
    """The deadline of each wait of one request. Times are the event loop's.

    The limits between events begin anew when waiting begins, so a slow consumer is not taken for a slow host.
    """

    __slots__ = ("_deadline", "_fresh", "_limit", "_timeouts", "_total", "_what")

    def __init__(self, timeouts: Timeouts, now: float, began: float | None = None) -> None:
        """`began`: when the whole answer was first asked for, where this is not its first request."""
        total, limit = timeouts.total_s, timeouts.first_event_s
        self._timeouts = timeouts
        self._total = None if total is None else (now if began is None else began) + total
        self._limit = limit
        self._deadline = None if limit is None else now + limit
        self._fresh = False
        self._what = "no event came within {} s (first_event_s)"

    def event_came(self) -> None:
        """The answer goes on."""
        self._limit = self._timeouts.between_events_s
        self._fresh = True
        self._what = "no further event came within {} s (between_events_s)"

    def finish_came(self) -> None:
        """The answer is whole; only its end is missing."""
        self._limit = self._timeouts.after_finish_s
        self._fresh = True
        self._what = "the stream was not closed within {} s (after_finish_s)"

    def end_came(self) -> None:
        """Nothing is missing: a moment for the connection to end tidily, so that it can be used again."""
        self._limit = _TIDY_END_S
        self._fresh = True
        self._what = "the connection was not ended"

    def begin_wait(self, now: float) -> float | None:
        """When to stop the wait that begins; None for never."""
        if self._fresh:
            self._fresh = False
            self._deadline = None if self._limit is None else now + self._limit
        if self._total is None or self._deadline is None:
            return self._deadline if self._total is None else self._total
        return min(self._total, self._deadline)

    @property
    def explanation(self) -> str:
        """What it means that the deadline passed."""
        if self._total is not None and (self._deadline is None or self._total <= self._deadline):
            return f"the whole answer took longer than {self._timeouts.total_s} s (total_s)"
        return self._what.format(self._limit)
