"""Server-sent events, read from bytes in pieces of any size.

Follows https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation on
lines (CR, LF, CRLF), comments, the byte order mark and the optional space. It differs in two points that
model hosts need: data left at the end of the stream is handed on, marked, and lines that are no field at
all are remembered, because a proxy's plain error text looks like that.
"""

from __future__ import annotations

from msgspec import Struct

__all__ = ["MAX_EVENT_BYTES", "EventTooLargeError", "SSEParser", "ServerSentEvent"]

MAX_EVENT_BYTES = 16 * 1024 * 1024
_MAX_STRAY_BYTES = 4096
_BOM = b"\xef\xbb\xbf"


class EventTooLargeError(ValueError):
    """One event, or one line, is larger than the reader's bound."""


class ServerSentEvent(Struct, frozen=True, gc=False):
    """One event. `name` is "" unless the stream names it; `data` holds its data lines joined by LF.

    `terminated` is False for what was left when the stream ended without the blank line.
    """

    data: bytes
    name: str = ""
    terminated: bool = True


class SSEParser:
    """Feed it bytes as they come; it returns the events that became whole. Any cutting gives the same events.

    Lines are split on bytes, so Unicode line separators inside JSON and characters cut in the middle are
    no concern. Raises `EventTooLargeError` past `max_event_bytes`.
    """

    __slots__ = (
        "_after_cr",
        "_at_start",
        "_data",
        "_limit",
        "_line",
        "_line_size",
        "_name",
        "_size",
        "_stray",
    )

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._limit = max_event_bytes
        self._line: list[bytes] = []
        self._line_size = 0
        self._after_cr = False
        self._at_start = True
        self._data: list[bytes] = []
        self._name = ""
        self._size = 0
        self._stray = bytearray()

    @property
    def stray(self) -> bytes:
        """The start of all lines that were no field of an event stream."""
        return bytes(self._stray)

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """The events that `chunk` completes."""
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk.startswith(b"\n"):  # the second half of a CRLF
                chunk = chunk[1:]
        if not chunk:
            return []
        if b"\n" not in chunk and b"\r" not in chunk:
            self._keep(chunk)
            return []
        if not self._data and not self._name:
            plain = self._plain_events(chunk)
            if plain is not None:
                self._at_start = False
                return plain
        lines = chunk.splitlines()
        last = chunk[-1]
        rest = b"" if last in b"\r\n" else lines.pop()
        self._after_cr = last == 0x0D
        if self._line:
            lines[0] = b"".join((*self._line, lines[0]))
            self._line.clear()
            self._line_size = 0
        events: list[ServerSentEvent] = []
        for line in lines:
            self._take_line(line, events)
        if rest:
            self._keep(rest)
        return events

    def _plain_events(self, chunk: bytes) -> list[ServerSentEvent] | None:
        """The events of a chunk that, with what was kept, holds nothing but one `data: ` line for each event
        and blank lines, as nearly all do; None for any other, which is then still to be read."""
        if b"\r" in chunk or len(chunk) + self._line_size > self._limit:
            return None
        whole = b"".join((*self._line, chunk)) if self._line else chunk
        end = whole.rfind(b"\n\n")
        if end < 0 or not whole.startswith(b"data: "):
            return None
        found = whole[6:end].split(b"\n\ndata: ")
        if 2 * len(found) != chunk.count(b"\n"):  # there are line ends beside those between them
            return None
        rest = whole[end + 2 :]
        self._line = [rest] if rest else []
        self._line_size = len(rest)
        self._size = 0
        return list(map(ServerSentEvent, found))

    def close(self) -> list[ServerSentEvent]:
        """What was left when the stream ended, as one unterminated event, if there is any."""
        events: list[ServerSentEvent] = []
        if not (self._line or self._data):
            return events
        if self._line:
            line = b"".join(self._line)
            self._line.clear()
            self._take_line(line, events)
        if self._data:
            events.append(ServerSentEvent(b"\n".join(self._data), self._name, terminated=False))
        self._data.clear()
        self._name = ""
        return events

    def _keep(self, piece: bytes) -> None:
        self._line.append(piece)
        self._line_size += len(piece)
        if self._size + self._line_size > self._limit:
            raise self._too_large()

    def _add(self, value: bytes) -> None:
        self._size += len(value) + 1  # with its line's end, so that empty lines count
        if self._size > self._limit:
            raise self._too_large()
        self._data.append(value)

    def _too_large(self) -> EventTooLargeError:
        return EventTooLargeError(f"an event of the stream is larger than {self._limit} bytes")

    def _take_line(self, line: bytes, events: list[ServerSentEvent]) -> None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BOM)
        if not line:
            if self._data:
                data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
                events.append(ServerSentEvent(data, self._name))
                self._data.clear()
            self._name = ""
            self._size = 0
            return
        if line.startswith(b"data:"):  # nearly every line
            value = line[6:] if line.startswith(b" ", 5) else line[5:]
            self._add(value)
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":  # without a colon
            self._add(value)
        elif not field:
            return
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
        elif field not in {b"id", b"retry"}:
            self._remember(line)

    def _remember(self, line: bytes) -> None:
        room = _MAX_STRAY_BYTES - len(self._stray)
        if room > 0:
            self._stray += line[:room] + b"\n"
