"""Which routes rest, and until when. Pure: the time, in seconds of any one clock, is passed in."""

from __future__ import annotations

__all__ = ["RouteRests"]


class RouteRests:
    """`count` routes, known by their places."""

    __slots__ = ("_until",)

    def __init__(self, count: int) -> None:
        self._until = [float("-inf")] * count

    def rest(self, place: int, until: float) -> None:
        """Let a route rest; a rest that is longer already stays."""
        self._until[place] = max(self._until[place], until)

    def ready(self, place: int, now: float) -> bool:
        """Whether a route does not rest."""
        return self._until[place] <= now

    def left_s(self, place: int, now: float) -> float:
        """For how long it rests, 0 when it does not."""
        return max(0.0, self._until[place] - now)
