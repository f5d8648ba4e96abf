"""A history without its first messages. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import ClassVar, overload

from hermes_messages import History, Message

__all__ = ["HistoryEnd"]


class HistoryEnd(Sequence[Message]):
    """What of `history` stands behind its first `start` messages: a view, however long that is."""

    __slots__ = ("_history", "_start")

    def __init__(self, history: History, start: int) -> None:
        self._history = history
        self._start = start

    def __len__(self) -> int:
        return len(self._history) - self._start

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step < 0:
                return tuple(self)[index]
            return self._history[start + self._start : stop + self._start : step]
        position = index if index >= 0 else len(self) + index
        if not 0 <= position < len(self):
            raise IndexError(index)
        return self._history[position + self._start]

    def __iter__(self) -> Iterator[Message]:
        return islice(iter(self._history), self._start, None)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Sequence) and not isinstance(other, str | bytes):
            return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))
        return NotImplemented

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # a sequence of possibly unhashable messages

    def __repr__(self) -> str:
        return f"HistoryEnd({len(self)} messages)"
