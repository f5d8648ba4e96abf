"""What a worker thread opens for a caller who may be gone by then."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

__all__ = ["Arrival"]

T = TypeVar("T")


class Arrival(Generic[T]):
    """Something open on its way from a thread to the caller. Once the caller has given it up, whichever is
    later closes it, its coming or the giving up; no event loop has to be there for that."""

    def __init__(self, close: Callable[[T], object]) -> None:
        self._close = close
        self._come: list[T] = []
        self._given_up = False

    def come(self, opened: T) -> None:
        """For the thread: `opened` is there."""
        self._come.append(opened)
        if self._given_up:
            self._discard()

    def take(self) -> T:
        """For the caller, once it has come: the caller closes it."""
        return self._come.pop()

    def give_up(self) -> None:
        """For the caller: it will not take what comes."""
        self._given_up = True
        self._discard()

    def _discard(self) -> None:
        with suppress(IndexError):  # it is not here yet, or the other side was first
            self._close(self._come.pop())
