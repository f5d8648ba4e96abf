"""Bytes that come in chunks, cut into lines. Pure."""

from __future__ import annotations

__all__ = ["LineSplitter"]


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
