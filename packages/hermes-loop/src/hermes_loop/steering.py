"""Notes that a host hands to a running turn."""

from __future__ import annotations

from collections import deque

__all__ = ["Steering"]


class Steering:
    """Notes in the order in which they came. Each is delivered once, at the next boundary; one that comes
    too late for a turn is the first thing that the next turn hands over."""

    def __init__(self) -> None:
        self._notes: deque[str] = deque()

    def add(self, text: str) -> None:
        """Take a note."""
        self._notes.append(text)

    @property
    def waiting(self) -> bool:
        """Whether any note was not delivered yet."""
        return bool(self._notes)

    def take(self) -> list[str]:
        """All notes that were not delivered yet; they count as delivered."""
        notes = list(self._notes)
        self._notes.clear()
        return notes
