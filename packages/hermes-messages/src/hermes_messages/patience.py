"""How long something is waited for, where only time counts in which the waiter ran.

A deadline is over at once when the process stood still (it was stopped, its machine slept), although what is
waited for stood still as well.

>>> from hermes_messages.patience import Patience
>>> patience = Patience(5.0)
>>> patience.begin(now=100.0)  # wait at most so long
0.5
>>> patience.end(now=4000.0)
>>> patience.left_s
4.5
"""

from __future__ import annotations

from typing import Final

__all__ = ["MOMENT_S", "Patience"]

MOMENT_S: Final = 0.5
"""The longest single wait, in seconds: what one counts at most, however long the process stood still."""


class Patience:
    """Counts the seconds of one wait, which is made of several. It has no clock: it is told when each begins
    and ends, as any clock shows it that does not go back."""

    __slots__ = ("_longest", "_started", "left_s")

    left_s: float
    """What is left, in seconds; 0 or less when the wait is over. May be set."""

    def __init__(self, limit_s: float) -> None:
        self.left_s = limit_s
        self._started = self._longest = 0.0

    def begin(self, now: float) -> float:
        """A single wait begins; how long it may take, in seconds."""
        self._started, self._longest = now, min(self.left_s, MOMENT_S)
        return self._longest

    def end(self, now: float) -> None:
        """The single wait is over, by whatever ended it."""
        self.left_s -= min(now - self._started, self._longest)

    def shorten(self, to_s: float) -> None:
        """From now on at most `to_s` seconds."""
        self.left_s = min(self.left_s, to_s)
