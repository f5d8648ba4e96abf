"""Notes that a host hands to a running turn."""

from __future__ import annotations

__all__ = ["SteerNote", "Steering"]


class SteerNote:
    """A note that was taken; it is delivered once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._delivered = False

    @property
    def text(self) -> str:
        """What was given to `steer`."""
        return self._text

    @property
    def delivered(self) -> bool:
        """Whether it is part of the conversation by now."""
        return self._delivered

    def deliver(self) -> None:
        """It is part of the conversation."""
        self._delivered = True


class Steering:
    """Notes in the order in which they came. Each is delivered once, at the next boundary; one that comes
    too late for a turn is the first thing that the next turn hands over."""

    def __init__(self) -> None:
        self.waiting: tuple[SteerNote, ...] = ()
        """The notes that were not delivered yet."""

    def add(self, text: str) -> SteerNote:
        """Take a note."""
        note = SteerNote(text)
        self.waiting = (*self.waiting, note)
        return note

    def take(self) -> tuple[SteerNote, ...]:
        """All notes that were not delivered yet; whoever takes them delivers them."""
        notes, self.waiting = self.waiting, ()
        return notes
