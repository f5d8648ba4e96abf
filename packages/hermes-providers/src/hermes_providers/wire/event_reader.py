"""What the readers of all wires have in common: from the data of an event to a value, and when it is over."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

import msgspec

from hermes_messages import JsonValue, ProviderError
from hermes_messages.deltas import Delta
from hermes_providers.streaming.half_characters import HalfCharacters
from hermes_providers.streaming.json_bytes import dump
from hermes_providers.streaming.json_text import read_tolerantly
from hermes_providers.streaming.sse import ServerSentEvent
from hermes_providers.wire.base import ErrorReader

__all__ = ["END_MARK", "UNREADABLE", "EventReader"]

T = TypeVar("T")

END_MARK = b"[DONE]"
"""The data of the event behind which nothing follows."""

UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""No JSON or of another shape, halves of characters where none may be, nested too deep."""


class EventReader(ABC, Generic[T]):
    """Reads one response, whose events hold a `T` each. `read_error` makes the typed error of an error that
    came inside it. A wire says how its values are decoded and what they say."""

    end_mark_ends: ClassVar[bool] = True
    """Whether `[DONE]` ends the stream; otherwise it says nothing."""

    finished: bool
    """Whether the host has said why the response ended."""
    done: bool
    """Whether the host has said that nothing follows."""

    def __init__(self, read_error: ErrorReader) -> None:
        self._read_error = read_error
        self.finished = self.done = False
        self._halves: HalfCharacters | None = None  # made for the first event that needs it

    def feed(self, event: ServerSentEvent) -> list[Delta]:
        """What one event says. Raises `ProviderError` when it is an error, or no JSON of this wire.

        A last event that the stream's end cut in the middle says nothing.
        """
        if self.done:
            return []  # nothing that follows the end can undo a whole answer
        data = event.data.strip()
        if event.name == "error":
            raise self._failure(data)
        if not data:
            return []
        if data == END_MARK:
            self.done = self.end_mark_ends
            return []
        odd = False
        try:
            said: T | None = self._decode(data)
        except UNREADABLE:
            odd = True
            self._halves = self._halves or HalfCharacters()
            try:
                said = self._convert(read_tolerantly(data))
            except UNREADABLE:
                if not event.terminated:
                    return []
                raise self._read_error(data) from None
        deltas = [] if said is None else self._take(event.name, said, data)
        halves = self._halves
        return deltas if halves is None or not (odd or halves.waiting) else halves.join(deltas)

    def read_plain(self, body: bytes) -> list[Delta]:
        """What a whole answer that is no stream says. Raises `ProviderError` when it is an error, or no
        answer of this wire."""
        try:
            return self._read_plain(body)
        except UNREADABLE:
            pass
        try:
            return self._read_plain(dump(read_tolerantly(body)))
        except UNREADABLE:
            raise self._read_error(body) from None

    def close(self) -> list[Delta]:
        """What could only be said at the end."""
        rest = self._rest()
        return rest if self._halves is None else [*self._halves.rest(), *rest]

    def paused(self, body: bytes) -> bytes | None:  # noqa: ARG002 - most wires have no pauses
        """The body that lets the host go on where it paused the answer to `body`; None where it did not."""
        return None

    def resume(self, read_error: ErrorReader) -> None:
        """What is fed from now on is the rest of the answer, in another reply."""
        self._read_error = read_error
        self.finished = self.done = False

    def _mark_finished(self) -> None:
        """The host has said why the response ended."""
        self.finished = True

    def _mark_done(self) -> None:
        """The host has said that nothing follows."""
        self.done = True

    @property
    def _waiting(self) -> bool:
        """Whether a half of a character waits for the other one."""
        return self._halves is not None and self._halves.waiting

    def _failure(self, data: bytes) -> ProviderError:
        """The typed error of an event that is called an error."""
        return self._read_error(data)

    @abstractmethod
    def _decode(self, data: bytes) -> T:
        """The value in `data`. Raises `msgspec.MsgspecError` for odd ones."""

    @abstractmethod
    def _convert(self, value: JsonValue) -> T | None:
        """The value of an event that `_decode` did not take, or None for nothing. Strings may hold halves of
        characters. Raises `msgspec.MsgspecError` for what is none of this wire."""

    @abstractmethod
    def _take(self, name: str, said: T, data: bytes) -> list[Delta]:
        """What an event says that is called `name` and has the bytes `data`."""

    @abstractmethod
    def _read_plain(self, body: bytes) -> list[Delta]:
        """What a whole answer says. Raises `msgspec.MsgspecError`, before anything else, for odd ones."""

    def _rest(self) -> list[Delta]:
        """What can only be said at the end."""
        return []
