"""An append-only message log, and the immutable views of it that requests carry.

A view is a log and a length, so making one costs nothing and later appends do not show in it. A log never
changes what it holds: compression, repair and a switch of host start a new one. That is what lets an
encoder keep the bytes of everything but the newest part (see `hermes_messages.stable_bytes`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import ClassVar, overload

from hermes_messages.messages import MESSAGE_KINDS, Message
from hermes_messages.strangers import check_kinds

__all__ = ["History", "MessageLog"]


class MessageLog:
    """Messages that are only ever added to, so that views of it and bytes made from it stay right.

    What is no message raises `MessageFormatError`; a dict is read with `messages_from_dicts` before.
    """

    __slots__ = ("__weakref__", "_messages")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._messages: list[Message] = list(messages)
        check_kinds(self._messages, MESSAGE_KINDS)

    def append(self, message: Message) -> None:
        """Add one message at the end."""
        if type(message) not in MESSAGE_KINDS:
            check_kinds((message,), MESSAGE_KINDS, len(self._messages))
        self._messages.append(message)

    def extend(self, messages: Iterable[Message]) -> None:
        """Add messages at the end, in order; none where one of them is no message."""
        several = messages if isinstance(messages, list | tuple) else list(messages)
        check_kinds(several, MESSAGE_KINDS, len(self._messages))
        self._messages.extend(several)

    def view(self) -> History:
        """Everything so far, as a value that later appends do not change."""
        return History(self, len(self._messages))

    def since(self, start: int) -> tuple[Message, ...]:
        """The messages from the position `start` (from 0) on."""
        return tuple(self._messages[start:])

    def __len__(self) -> int:
        return len(self._messages)

    def __copy__(self) -> MessageLog:
        copied = MessageLog()
        copied._messages = self._messages.copy()
        return copied


class _View(Sequence[Message]):
    """A sequence of messages that is equal to any sequence of equal messages."""

    __slots__ = ()

    @abstractmethod
    def _at(self, position: int) -> Message:
        """The message at a position from 0 on that exists."""

    @abstractmethod
    def _between(self, start: int, stop: int, step: int) -> tuple[Message, ...]:
        """Those of a slice that goes forward within the bounds."""

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        length = len(self)
        if isinstance(index, slice):
            start, stop, step = index.indices(length)
            return tuple(self)[index] if step < 0 else self._between(start, stop, step)
        position = index if index >= 0 else length + index
        if not 0 <= position < length:
            raise IndexError(index)
        return self._at(position)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Sequence) and not isinstance(other, str | bytes):
            return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))
        return NotImplemented

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # a sequence of possibly unhashable messages

    def __repr__(self) -> str:
        return f"{type(self).__name__.lstrip('_')}({len(self)} messages)"


class History(_View, Sequence[Message]):
    """The first `logged` messages of a log, and a tail that belongs to this view alone. Equal to any sequence
    of equal messages.

    A tail is for what is said in one request only, such as a note with the time: nothing before it changes.
    """

    __slots__ = ("_length", "_log", "_logged", "_tail")

    def __init__(self, log: MessageLog, length: int, tail: tuple[Message, ...] = ()) -> None:
        """Raises `ValueError` for a length that the log does not have."""
        if not 0 <= length <= len(log._messages):  # noqa: SLF001 - one module
            raise ValueError(f"a view of {length} messages on a log of {len(log)}")
        self._log = log
        self._logged = length
        self._tail = tail
        self._length = length + len(tail) if tail else length

    @property
    def log(self) -> MessageLog:
        """The log that this is a view of."""
        return self._log

    @property
    def logged(self) -> int:
        """How many messages of the log the view shows, its tail not counted."""
        return self._logged

    @classmethod
    def of(cls, messages: Iterable[Message]) -> History:
        """A history over a new log of its own. Raises `MessageFormatError` for what is no message."""
        return MessageLog(messages).view()

    def with_tail(self, messages: Iterable[Message]) -> History:
        """The same view with `messages` behind it. Raises `MessageFormatError` for what is no message."""
        added = tuple(messages)
        check_kinds(added, MESSAGE_KINDS, self._length)
        return History(self._log, self._logged, (*self._tail, *added))

    def after(self, count: int) -> Sequence[Message]:
        """What stands behind the first `count` messages: a view, too, however long that is.

        Raises `ValueError` for more than there are.
        """
        if not 0 <= count <= self._length:
            raise ValueError(f"what is behind {count} messages of {len(self)}")
        return _HistoryEnd(self, count)

    def since(self, start: int) -> tuple[Message, ...]:
        """The messages from the position `start` (from 0) on, copied."""
        return self._between(start, self._length, 1)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Message]:
        logged = islice(self._log._messages, self._logged)  # noqa: SLF001 - one module
        return chain(logged, self._tail) if self._tail else logged

    def _at(self, position: int) -> Message:
        if position >= self._logged:
            return self._tail[position - self._logged]
        return self._log._messages[position]  # noqa: SLF001 - one module

    def _between(self, start: int, stop: int, step: int) -> tuple[Message, ...]:
        if not self._tail:
            return tuple(self._log._messages[start:stop:step])  # noqa: SLF001 - one module
        if step > 1 and stop > self._logged:
            return tuple(self)[start:stop:step]
        tail = self._tail[max(0, start - self._logged) : max(0, stop - self._logged)]
        return (*self._log._messages[start : min(stop, self._logged) : step], *tail)  # noqa: SLF001 - one module


class _HistoryEnd(_View):
    """See `History.after`."""

    __slots__ = ("_history", "_start")

    def __init__(self, history: History, start: int) -> None:
        self._history = history
        self._start = start

    def __len__(self) -> int:
        return len(self._history) - self._start

    def __iter__(self) -> Iterator[Message]:
        return islice(iter(self._history), self._start, None)

    def _at(self, position: int) -> Message:
        return self._history[position + self._start]

    def _between(self, start: int, stop: int, step: int) -> tuple[Message, ...]:
        return tuple(self._history[start + self._start : stop + self._start : step])
