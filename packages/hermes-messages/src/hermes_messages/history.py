"""An append-only message log, and the immutable views of it that requests carry.

A view is a log and a length, so making one costs nothing and later appends do not show in it. A log never
changes what it holds: compression, repair and a switch of host start a new one. That is what lets an
encoder keep the bytes of everything but the newest part (see `hermes_messages.stable_bytes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import overload

from hermes_messages.messages import Message

__all__ = ["History", "MessageLog"]


class MessageLog:
    """Messages that are only ever added to."""

    __slots__ = ("__weakref__", "_messages")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._messages: list[Message] = list(messages)

    def append(self, message: Message) -> None:
        """Add one message at the end."""
        self._messages.append(message)

    def extend(self, messages: Iterable[Message]) -> None:
        """Add messages at the end, in order."""
        self._messages.extend(messages)

    def view(self) -> History:
        """Everything so far, as a value that later appends do not change."""
        return History(self, len(self._messages))

    def __len__(self) -> int:
        return len(self._messages)


class History(Sequence[Message]):
    """The first `length` messages of a log. Equal to any sequence of equal messages."""

    __slots__ = ("_length", "log")

    def __init__(self, log: MessageLog, length: int) -> None:
        """Raises `ValueError` for a length that the log does not have."""
        if not 0 <= length <= len(log):
            raise ValueError(f"a view of {length} messages on a log of {len(log)}")
        self.log = log
        self._length = length

    @classmethod
    def of(cls, messages: Iterable[Message]) -> History:
        """A history over a new log of its own."""
        return MessageLog(messages).view()

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            return tuple(self.log._messages[start:stop:step]) if step > 0 else tuple(self)[index]  # noqa: SLF001 - one module
        if not -self._length <= index < self._length:
            raise IndexError(index)
        return self.log._messages[index if index >= 0 else self._length + index]  # noqa: SLF001 - one module

    def __iter__(self) -> Iterator[Message]:
        return islice(self.log._messages, self._length)  # noqa: SLF001 - one module

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Sequence) and not isinstance(other, str | bytes):
            return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # a sequence of possibly unhashable messages

    def __repr__(self) -> str:
        return f"History({self._length} messages)"
