"""Messages on a server's standard output: a JSON object on each line, and what else servers print. Pure.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio
"""

from __future__ import annotations

import json
from collections import deque

from mcp_types import JSONRPCMessage, jsonrpc_message_adapter

__all__ = ["LineBuffer", "LineTooLongError", "TextTail", "parse_message"]

LONGEST_LINE = 64 * 1024 * 1024


class LineTooLongError(Exception):
    """A line longer than any message may be."""


class LineBuffer:
    """Cuts pieces of output into lines, in linear time. A line may have `longest` bytes."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._open: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes. Raises `LineTooLongError`."""
        first, *rest = data.split(b"\n")
        self._open.append(first)
        self._size += len(first)
        if self._size > self._longest:
            raise LineTooLongError(f"a line of more than {self._longest} bytes")
        if not rest:
            return []
        lines = [b"".join(self._open), *rest[:-1]]
        self._open = [rest[-1]]
        self._size = len(rest[-1])
        return lines


def parse_message(line: bytes) -> JSONRPCMessage | None:
    """The message on a line, or None for a line that is none (a banner, a log line).

    Bytes that are no UTF-8, and halves of surrogate pairs, are replaced rather than losing the message.
    """
    text = line.decode("utf-8", errors="replace").strip().removeprefix("\ufeff")
    if not text.startswith("{"):
        return None
    try:
        return jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValueError:
        pass
    try:
        repaired = json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8", errors="replace")
        return jsonrpc_message_adapter.validate_json(repaired, by_name=False)
    except (ValueError, RecursionError):
        return None


class TextTail:
    """The last lines of what a server wrote beside its messages, for error texts."""

    def __init__(self, lines: int = 12, characters: int = 1_500) -> None:
        self._lines: deque[str] = deque(maxlen=lines)
        self._characters = characters

    def add(self, text: str) -> None:
        """Remember the lines of `text`, their starts if they are long."""
        for line in text[-4 * self._characters :].splitlines():
            if line.strip():
                self._lines.append(line.rstrip()[: self._characters])

    def __str__(self) -> str:
        return "\n".join(self._lines)[-self._characters :]
