"""Encode each message once: a request body is the joined bytes of what was encoded before plus what is new.

The unit that is encoded once is the *segment*: a system message, a user turn (consecutive user messages),
or an assistant message with all its results, because some wires merge exactly these. A segment is closed
when the next one begins; only the open last one is encoded again. So the prefix sent is byte-identical
from call to call, which is what prompt caches need, and a call on a long history costs only what is new.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from weakref import WeakKeyDictionary

from hermes_messages.history import History, MessageLog
from hermes_messages.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage

__all__ = [
    "EncodedHistory",
    "HistoryEncoder",
    "SegmentEncoder",
    "segments",
]

SegmentEncoder = Callable[[Sequence[Message]], bytes]
"""Encodes one segment for a wire: JSON objects joined by commas, without the brackets around them."""


def _begins_segment(message: Message, previous: Message | None) -> bool:
    match message:
        case ToolMessage():
            return previous is None
        case UserMessage():
            return not isinstance(previous, UserMessage)
        case SystemMessage() | AssistantMessage():
            return True


def segments(messages: Sequence[Message], start: int = 0) -> Iterator[tuple[int, int]]:
    """The (begin, end) bounds of the segments of `messages[start:]`; `start` must itself begin one."""
    begin = start
    for position in range(start + 1, len(messages)):
        if _begins_segment(messages[position], messages[position - 1]):
            yield begin, position
            begin = position
    if begin < len(messages):
        yield begin, len(messages)


class EncodedHistory:
    """The encoded segments of a history: `closed` never change in later calls, `open_tail` may."""

    __slots__ = ("closed", "open_tail")

    def __init__(self, closed: tuple[bytes, ...], open_tail: bytes) -> None:
        self.closed: tuple[bytes, ...] = closed
        self.open_tail: bytes = open_tail

    def joined(self) -> bytes:
        """All segments as the inside of one JSON array. Segments that encode to nothing leave no comma."""
        return b",".join(part for part in (*self.closed, self.open_tail) if part)


class _LogCache:
    """`tail` is what the open segment was last encoded to, with its end: it may be closed as it stands."""

    __slots__ = ("chunks", "ends", "tail", "tail_end")

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.ends: list[int] = []
        self.tail = b""
        self.tail_end = 0


class HistoryEncoder:
    """The encoded closed segments of every log seen, for one wire and one way of encoding.

    Bytes are dropped together with their log. `encode_calls` counts segments encoded, for tests that prove
    that a long history is not encoded again.
    """

    def __init__(self, encode_segment: SegmentEncoder) -> None:
        self._encode = encode_segment
        self._logs: WeakKeyDictionary[MessageLog, _LogCache] = WeakKeyDictionary()
        self.encode_calls: int = 0

    def encode(self, history: History) -> EncodedHistory:
        """Encode `history`, reusing every segment that was closed in an earlier call on the same log.

        A segment that only the tail of the view closes, or is part of, is encoded for this call alone.
        """
        cache = self._logs.get(history.log)
        if cache is None:
            cache = self._logs[history.log] = _LogCache()
        length, logged = len(history), history.logged
        known = bisect_left(cache.ends, logged)  # of the kept segments, those that end before the view does
        start = cache.ends[known - 1] if known else 0
        closed = cache.chunks[:known]
        open_tail = b""
        new = history[start:]
        for begin, behind in segments(new):
            end = start + behind
            encoded = self._encoded(cache, new[begin:behind], end, logged)
            if end == length:
                open_tail = encoded
                break
            closed.append(encoded)
            if end < logged:
                cache.chunks.append(encoded)
                cache.ends.append(end)
        return EncodedHistory(tuple(closed), open_tail)

    def _encoded(self, cache: _LogCache, segment: Sequence[Message], end: int, logged: int) -> bytes:
        """The bytes of `segment`, the first behind the closed ones; encoded before where it did not grow."""
        if end == cache.tail_end and end <= logged:
            return cache.tail
        self.encode_calls += 1
        encoded = self._encode(segment)
        if end == logged:
            cache.tail, cache.tail_end = encoded, end
        return encoded
