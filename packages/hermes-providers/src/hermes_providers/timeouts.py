"""How long to wait for what, as values, and the deadline of each wait. Pure: the time is passed in."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from hermes_messages import ConfigurationError

__all__ = ["StreamClock", "Timeouts"]

_TIDY_END_S = 0.25


class Timeouts(Struct, frozen=True, kw_only=True):
    """Seconds; None waits without end. `first_event_s` runs from the sending of a request to the first event
    of its answer, `between_events_s` between events (keep-alive comments are none), `after_finish_s` from
    the word for why the answer ended to the end of the stream: what is missing then is not waited for.

    The defaults leave time for models that think before they speak. Raises `ConfigurationError` for a value
    that is not above 0.
    """

    connect_s: float | None = 10.0
    first_event_s: float | None = 300.0
    between_events_s: float | None = 300.0
    after_finish_s: float = 5.0
    total_s: float | None = None

    def __post_init__(self) -> None:
        for name, value in msgspec.structs.asdict(self).items():
            if value is not None and not value > 0:
                raise ConfigurationError(f"timeout {name} must be above 0 seconds, not {value}")


class StreamClock:
    """The deadline of the next wait of one request. Times are the event loop's."""

    __slots__ = ("_deadline", "_timeouts", "_total", "_what")

    def __init__(self, timeouts: Timeouts, now: float) -> None:
        self._timeouts = timeouts
        self._total = _at(now, timeouts.total_s)
        self._deadline = _at(now, timeouts.first_event_s)
        self._what = f"no event came within {timeouts.first_event_s} s (first_event_s)"

    def event_came(self, now: float) -> None:
        """The answer goes on."""
        self._deadline = _at(now, self._timeouts.between_events_s)
        self._what = f"no further event came within {self._timeouts.between_events_s} s (between_events_s)"

    def finish_came(self, now: float) -> None:
        """The answer is whole; only its end is missing."""
        self._deadline = _at(now, self._timeouts.after_finish_s)
        self._what = f"the stream was not closed within {self._timeouts.after_finish_s} s (after_finish_s)"

    def end_came(self, now: float) -> None:
        """Nothing is missing: a moment for the connection to end tidily, so that it can be used again."""
        self._deadline = now + _TIDY_END_S
        self._what = "the connection was not ended"

    @property
    def deadline(self) -> float | None:
        """When to stop waiting; None for never."""
        if self._total is None or self._deadline is None:
            return self._deadline if self._total is None else self._total
        return min(self._total, self._deadline)

    @property
    def explanation(self) -> str:
        """What it means that the deadline passed."""
        if self._total is not None and self.deadline == self._total:
            return f"the whole answer took longer than {self._timeouts.total_s} s (total_s)"
        return self._what


def _at(now: float, seconds: float | None) -> float | None:
    return None if seconds is None else now + seconds
