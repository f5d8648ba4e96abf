"""Encode each message once: a request body is the joined bytes of what was encoded before plus what is new.

The unit that is encoded once is the *segment*: a system message, a user turn (consecutive user messages),
or an assistant message with all its results, because some wires merge exactly these. A segment is closed
when the next one begins; only the open last one is encoded again. So the prefix sent is byte-identical
from call to call, which is what prompt caches need, and a call on a long history costs only what is new.

`HistoryEncoder` keeps the segments one by one. `HistoryJoiner` keeps them joined as the wire wants, so that a
request on a history of any length is the copy of one run of bytes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from weakref import WeakKeyDictionary

from hermes_messages.history import History, MessageLog
from hermes_messages.messages import MESSAGE_KINDS, Message, SystemMessage, ToolMessage, UserMessage
from hermes_messages.strangers import check_kinds, no_history

__all__ = [
    "Edit",
    "EncodedHistory",
    "HistoryEncoder",
    "HistoryJoiner",
    "JoinedHistory",
    "Joint",
    "SegmentEncoder",
    "segments",
]

SegmentEncoder = Callable[[Sequence[Message]], bytes]
"""Encodes one segment for a wire: JSON objects joined by commas, without the brackets around them."""

Joint = Callable[[bytes, bytes], tuple[bytes, bytes]]
"""Takes the letter of the segment before, b"" for the first, and an encoded segment that is not empty. Gives
what is written behind the bytes before it, and a letter (one byte, not "-") by which it is found later."""

Edit = tuple[int, int, bytes]
"""From where to where, and what stands there instead."""

_NOTHING = b"-"


def segments(messages: Sequence[Message], start: int = 0) -> Iterator[tuple[int, int]]:
    """The (begin, end) bounds of the segments of `messages[start:]`; `start` must itself begin one.

    Raises `MessageFormatError` for what is no message.
    """
    check_kinds(messages[start:], MESSAGE_KINDS, start)
    return _segments(messages, start)


def _segments(messages: Sequence[Message], start: int = 0) -> Iterator[tuple[int, int]]:
    """See `segments`; for messages of a history, which has looked at what they are."""
    begin = start
    for position in range(start + 1, len(messages)):
        message = messages[position]
        if isinstance(message, ToolMessage):
            continue  # it belongs to what it answers
        if isinstance(message, UserMessage) and isinstance(messages[position - 1], UserMessage):
            continue
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


class _OpenSegment:
    """`tail` is what the open segment was last encoded to, with its end: it may be closed as it stands."""

    __slots__ = ("tail", "tail_end")

    def __init__(self) -> None:
        self.tail = b""
        self.tail_end = 0


class _SegmentBytes:
    """What both ways to keep segments share. `encode_calls` counts segments encoded, for tests that prove
    that a long history is not encoded again."""

    def __init__(self, encode_segment: SegmentEncoder) -> None:
        self._encode = encode_segment
        self.encode_calls: int = 0

    def _encoded(self, kept: _OpenSegment, segment: Sequence[Message], end: int, logged: int) -> bytes:
        """The bytes of `segment`, the first behind the closed ones; encoded before where it did not grow."""
        if end == kept.tail_end and end <= logged:
            return kept.tail
        self.encode_calls += 1
        encoded = self._encode(segment)
        if end == logged:
            kept.tail, kept.tail_end = encoded, end
        return encoded


class _LogCache(_OpenSegment):
    __slots__ = ("chunks", "ends")

    def __init__(self) -> None:
        super().__init__()
        self.chunks: list[bytes] = []
        self.ends: list[int] = []


class HistoryEncoder(_SegmentBytes):
    """The encoded closed segments of every log seen, for one wire and one way of encoding.

    Bytes are dropped together with their log.
    """

    def __init__(self, encode_segment: SegmentEncoder) -> None:
        super().__init__(encode_segment)
        self._logs: WeakKeyDictionary[MessageLog, _LogCache] = WeakKeyDictionary()

    def encode(self, history: History) -> EncodedHistory:
        """Encode `history`, reusing every segment that was closed in an earlier call on the same log.

        A segment that only the tail of the view closes, or is part of, is encoded for this call alone.
        Raises `MessageFormatError` for what is no history.
        """
        try:
            log = history.log
        except AttributeError:
            raise no_history(history) from None
        cache = self._logs.get(log)
        if cache is None:
            cache = self._logs[log] = _LogCache()
        length, logged = len(history), history.logged
        known = bisect_left(cache.ends, logged)  # of the kept segments, those that end before the view does
        start = cache.ends[known - 1] if known else 0
        closed = cache.chunks[:known]
        open_tail = b""
        new = history.since(start)
        for begin, behind in _segments(new):
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


class _Pieces:
    """Encoded segments in one run of bytes. Of each: the byte at which it ends, its letter."""

    __slots__ = ("data", "letters", "stops")

    def __init__(self) -> None:
        self.data = bytearray()
        self.letters = bytearray()
        self.stops = array("Q")

    def size(self, count: int) -> int:
        """How many bytes the first `count` segments have."""
        return self.stops[count - 1] if count else 0

    def add(self, added: bytes, letter: bytes) -> None:
        try:
            self.data += added
        except BufferError:  # somebody still looks at it, such as the traceback of an error
            self.data = self.data + added
        self.letters += letter
        self.stops.append(len(self.data))


class _Run(_Pieces):
    """The closed segments of a log, and of each the message at which it ends. What stands behind the last end
    is left from a call that was broken off."""

    __slots__ = ("ends", "leading", "leading_ends", "misplaced", "open")

    def __init__(self) -> None:
        super().__init__()
        self.leading: tuple[bytes, ...] = ()
        self.leading_ends: tuple[int, ...] = ()
        self.misplaced: int | None = None
        self.ends = array("Q")
        self.open = _OpenSegment()

    def letter_before(self, place: int) -> bytes:
        """Of the last segment before `place` that left bytes."""
        while place and self.letters[place - 1 : place] == _NOTHING:
            place -= 1
        return bytes(self.letters[max(0, place - 1) : place])

    def close(self, added: bytes, letter: bytes, end: int) -> None:
        """Add a segment that ends at the message `end`."""
        count = len(self.ends)
        if len(self.letters) != count or len(self.stops) != count or len(self.data) != self.size(count):
            self.data = self.data[: self.size(count)]
            del self.letters[count:], self.stops[count:]
        self.add(added, letter)
        self.ends.append(end)


class JoinedHistory:
    """What `HistoryJoiner` makes: a history as one run of bytes, untouched until it is copied into a request.

    `leading` are the encoded system messages in front, which are not in the run; `misplaced` says that there
    is one behind other messages, which is left out. `size` counts the bytes of the run.
    """

    __slots__ = ("_kept", "_known", "_new", "_run", "leading", "misplaced", "size")

    leading: tuple[bytes, ...]
    misplaced: bool
    size: int
    _run: _Run
    _known: int
    _new: _Pieces
    _kept: int

    def __len__(self) -> int:
        """How many segments the run has, those that left no bytes included."""
        return self._known + len(self._new.stops)

    def stop(self, place: int) -> int:
        """The byte at which the segment at `place`, counted from 0, ends; the next one begins there."""
        if place < self._known:
            return self._run.size(place + 1)
        return self._kept + self._new.size(place + 1 - self._known)

    def find_last(self, letter: bytes, before: int | None = None) -> int:
        """The last place, in front of the place `before`, of a segment with this letter; -1 for none."""
        limit = len(self) if before is None else before
        found = self._new.letters.rfind(letter, 0, max(0, limit - self._known))
        if found >= 0:
            return self._known + found
        return self._run.letters.rfind(letter, 0, min(limit, self._known))

    def read(self, start: int, stop: int) -> bytes:
        """A copy of a part of the run."""
        return b"".join(self._views(start, stop))

    def within(self, front: Iterable[bytes], back: Iterable[bytes], edits: Iterable[Edit] = ()) -> bytes:
        """The run between `front` and `back`. `edits` are made in the copy, in order."""
        pieces: list[bytes | memoryview] = [*front]
        position = 0
        for start, stop, instead in edits:
            pieces += self._views(position, start)
            pieces.append(instead)
            position = stop
        pieces += self._views(position, self.size)
        pieces += back
        return b"".join(pieces)

    def _views(self, start: int, stop: int) -> list[memoryview]:
        kept = self._kept
        if stop <= kept:
            return [memoryview(self._run.data)[start:stop]] if start < stop else []
        new = memoryview(self._new.data)
        if start >= kept:
            return [new[start - kept : stop - kept]]
        return [memoryview(self._run.data)[start:kept], new[: stop - kept]]


class HistoryJoiner(_SegmentBytes):
    """The closed segments of every log seen, joined, for one wire and one way of encoding.

    Bytes are dropped together with their log.
    """

    def __init__(self, encode_segment: SegmentEncoder, joint: Joint) -> None:
        super().__init__(encode_segment)
        self._joint = joint
        self._logs: WeakKeyDictionary[MessageLog, _Run] = WeakKeyDictionary()

    def join(self, history: History) -> JoinedHistory:
        """Join what is new in `history` to what was joined in earlier calls on the same log.

        A segment that only the tail of the view closes, or is part of, is joined for this call alone.
        Raises `MessageFormatError` for what is no history.
        """
        try:
            log = history.log
        except AttributeError:
            raise no_history(history) from None
        logged, new = history.logged, _Pieces()
        run = self._logs.get(log)
        if run is None:
            run = self._logs[log] = _Run()
        known = bisect_left(run.ends, logged)  # of the kept segments, those that end before the view does
        front = bisect_left(run.leading_ends, logged)
        leading = [*run.leading[:front]]
        start = run.ends[known - 1] if known else run.leading_ends[front - 1] if front else 0
        before = run.letter_before(known)
        misplaced = run.misplaced is not None and run.misplaced <= start
        behind = history.since(start)
        for begin, stop in _segments(behind):
            end = start + stop
            encoded = self._encoded(run.open, behind[begin:stop], end, logged)
            if isinstance(behind[begin], SystemMessage):
                if start + begin == len(leading):
                    leading.append(encoded)
                    if end < logged:
                        run.leading = (*run.leading[:front], encoded)
                        run.leading_ends = (*run.leading_ends, end)
                        front += 1
                    continue
                misplaced = misplaced or bool(encoded)
                if misplaced and end < logged and run.misplaced is None:
                    run.misplaced = end
                encoded = b""
            added, letter = self._joint(before, encoded) if encoded else (b"", _NOTHING)
            before = letter if encoded else before
            if end < logged:
                run.close(added, letter, end)
                known += 1
            else:
                new.add(added, letter)
        return _joined(run, known, new, tuple(leading), misplaced)


def _joined(
    run: _Run, known: int, new: _Pieces, leading: tuple[bytes, ...], misplaced: bool
) -> JoinedHistory:
    joined = JoinedHistory()
    joined._run, joined._known, joined._new = run, known, new  # noqa: SLF001 - one module
    joined._kept = run.size(known)  # noqa: SLF001 - one module
    joined.leading, joined.misplaced = leading, misplaced
    joined.size = joined._kept + len(new.data)  # noqa: SLF001 - one module
    return joined
