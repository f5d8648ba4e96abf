"""Bytes that come in chunks, cut into lines. Pure."""

from __future__ import annotations

import hashlib

from msgspec import Struct

__all__ = ["BoundedLineSplitter", "LineSplitter", "LongLine"]


class LineSplitter:
    """Lines end at the byte `\\n` and nowhere else: JSON text may hold U+2028 and its kin.

    Memory: the chunk at hand, and the beginning of a line whose end has not come.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []  # of a line that is longer than what came so far

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that end in `chunk`, without their line feeds."""
        head, feed, tail = chunk.partition(b"\n")
        self._pieces.append(head)
        if not feed:
            return []
        *lines, rest = tail.split(b"\n")
        first = b"".join(self._pieces)
        self._pieces = [rest]
        return [first, *lines]

    def rest(self) -> bytes:
        """What stands after the last line feed; whether it is a whole line is for the caller to judge."""
        return b"".join(self._pieces)


class LongLine(Struct, frozen=True):
    """What is known of a line that was too long to be kept: its length in bytes, and their SHA-256 in
    hexadecimal digits."""

    length: int
    digest: str


class BoundedLineSplitter:
    """As `LineSplitter`, for lines that somebody else wrote: one that is longer than `longest` bytes comes as
    a `LongLine`.

    Memory: the chunk at hand, and `longest` bytes, twice for a moment.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._lines = LineSplitter()
        self._held = 0
        self._digest = hashlib.sha256()
        self._dropped = 0  # bytes of a line that is too long

    def feed(self, chunk: bytes) -> list[bytes | LongLine]:
        """The lines that end in `chunk`, which is no longer than a line may be, without their line feeds."""
        end = chunk.find(b"\n")
        head = len(chunk) if end < 0 else end
        if not self._dropped and self._held + head > self._longest:
            self._drop(self._lines.rest())
            self._lines = LineSplitter()
        if not self._dropped:
            self._held = len(chunk) - chunk.rfind(b"\n") - 1 if end >= 0 else self._held + head
            return list(self._lines.feed(chunk))
        self._drop(chunk[:head])
        return [] if end < 0 else [self._ended(), *self.feed(chunk[end + 1 :])]

    def rest(self) -> bytes | LongLine:
        """What stands after the last line feed."""
        return self._ended() if self._dropped else self._lines.rest()

    def _drop(self, piece: bytes) -> None:
        self._digest.update(piece)
        self._dropped += len(piece)

    def _ended(self) -> LongLine:
        long = LongLine(self._dropped, self._digest.hexdigest())
        self._held, self._dropped, self._digest = 0, 0, hashlib.sha256()
        return long
