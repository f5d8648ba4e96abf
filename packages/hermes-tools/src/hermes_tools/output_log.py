"""The newest output of a process that goes on, by numbered lines and by position. Pure."""

from __future__ import annotations

from collections import deque

from msgspec import Struct

__all__ = ["LogPage", "OutputLog"]


class LogPage(Struct, frozen=True):
    """Lines `first` to `last`, counted from 1 since the start; `kept_from` is the oldest still held."""

    lines: tuple[str, ...]
    first: int
    last: int
    kept_from: int
    total: int


class OutputLog:
    """Holds the newest lines, together at most `limit` characters and a line; older ones are dropped."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lines: deque[str] = deque()
        self._held = 0
        self._dropped_lines = 0
        self._open = ""
        self.total: int = 0
        """Characters that came in so far."""

    def feed(self, text: str) -> None:
        """Take the next piece."""
        self.total += len(text)
        *ended, rest = text.split("\n")
        for piece in ended:
            self._close_line(self._open + piece)
            self._open = ""
        self._open += rest
        if len(self._open) > self._limit:
            self._close_line(self._open)
            self._open = ""

    def _close_line(self, line: str) -> None:
        line = line[-self._limit :]
        self._lines.append(line)
        self._held += len(line) + 1
        while self._held > self._limit and len(self._lines) > 1:
            self._held -= len(self._lines.popleft()) + 1
            self._dropped_lines += 1

    def page(self, first: int | None, count: int) -> LogPage:
        """`count` lines from line `first` on, or the newest ones."""
        lines = [*self._lines, self._open] if self._open else list(self._lines)
        total = self._dropped_lines + len(lines)
        kept_from = self._dropped_lines + 1
        if first is None:
            first = total - count + 1
        first = max(kept_from, first)
        chosen = tuple(lines[first - kept_from : first - kept_from + count])
        return LogPage(chosen, first, first + len(chosen) - 1, kept_from, total)

    def since(self, position: int, limit: int) -> tuple[str, int]:
        """What came after the first `position` characters, its end where it is longer than `limit`, and how
        many characters of it are not shown."""
        wanted = self.total - position
        room = min(wanted, limit)
        pieces = [self._open]
        length = len(self._open)
        for line in reversed(self._lines):
            if length >= room:
                break
            pieces.append(line + "\n")
            length += len(line) + 1
        text = "".join(reversed(pieces))
        shown = text[-room:] if room else ""
        return shown, wanted - len(shown)
