"""One reply: chunks of bytes to events of a stream, to deltas, to what the consumer is told."""

from __future__ import annotations

from collections.abc import Mapping

from hermes_messages import ErrorKind, ProviderError, StreamEvent
from hermes_messages.assembler import StreamAssembler
from hermes_messages.deltas import Delta, TextChunk
from hermes_providers.streaming.sse import EventTooLargeError, ServerSentEvent, SSEParser
from hermes_providers.timeouts import StreamClock
from hermes_providers.transport import Reply
from hermes_providers.wire.base import ErrorReader, ResponseReader
from hermes_providers.wire.tool_names import with_original_name

__all__ = ["Incoming"]

_MAX_PLAIN_BYTES = 64 * 1024 * 1024


class Incoming:
    """Reads one successful reply to its end, streamed or plain: what it is shows in its first byte.

    `reader` and `assembler` are those that were given, for what is to be known at the end.
    """

    __slots__ = (
        "_any_event",
        "_begun",
        "_clock",
        "_ended",
        "_failure",
        "_names",
        "_parser",
        "_plain",
        "_read_error",
        "_reply",
        "assembler",
        "reader",
    )

    def __init__(
        self,
        reply: Reply,
        reader: ResponseReader,
        assembler: StreamAssembler,
        clock: StreamClock,
        read_error: ErrorReader,
        names: Mapping[str, str],
    ) -> None:
        """`names` maps names of tools on the wire to their own."""
        self._reply = reply
        self.reader: ResponseReader = reader
        self.assembler: StreamAssembler = assembler
        self._clock = clock
        self._read_error = read_error
        self._names = names
        self._parser = SSEParser()
        self._plain: bytearray | None = None
        self._begun = False
        self._any_event = False
        self._ended = False
        self._failure: ProviderError | None = None

    def resumed(self, reply: Reply, clock: StreamClock, read_error: ErrorReader) -> Incoming:
        """What reads the rest of the same answer, which the host paused, from another reply."""
        self.reader.resume(read_error)
        return Incoming(reply, self.reader, self.assembler, clock, read_error, self._names)

    async def next(self) -> list[StreamEvent] | None:
        """What came next, or None at the end. Raises `ProviderError` for an error inside the reply, an end
        that came too early, and what the transport raises. What came before an error is told before it."""
        while not self._ended:
            if self._failure is not None:
                raise self._failure
            try:
                chunk = await self._reply.read(self._clock)
            except ProviderError:
                if not self.reader.finished:
                    raise
                chunk = b""  # the answer is whole; only the stream's end is missing
            events = self._take(chunk) if chunk else self._end()
            if events:
                return events
        if self._failure is not None:
            raise self._failure
        return None

    def _take(self, chunk: bytes) -> list[StreamEvent]:
        if not self._begun:
            head = chunk.removeprefix(b"\xef\xbb\xbf").lstrip()
            if not head:
                return []
            self._begun = True
            if head[:1] in b"{[":  # no field of an event stream begins so: the host ignored `stream`
                self._plain = bytearray()
        if self._plain is not None:
            self._plain += chunk
            self._clock.event_came()
            if len(self._plain) > _MAX_PLAIN_BYTES:
                raise _too_large(f"the answer is larger than {_MAX_PLAIN_BYTES} bytes")
            return []
        try:
            server_events = self._parser.feed(chunk)
        except EventTooLargeError as error:
            raise _too_large(str(error)) from None
        return self._feed(server_events) if server_events else []

    def _feed(self, server_events: list[ServerSentEvent]) -> list[StreamEvent]:
        """What the events say, up to a failure. Text that came together is told together."""
        self._any_event = True
        reader, assemble, names = self.reader, self.assembler.feed, self._names
        was_finished, was_done = reader.finished, reader.done
        read = reader.feed
        told: list[StreamEvent] = []
        text: list[str] = []
        try:
            for server_event in server_events:
                for delta in read(server_event):
                    if type(delta) is TextChunk:
                        text.append(delta.text)
                        continue
                    if text:
                        told += assemble(TextChunk("".join(text)))
                        text.clear()
                    told += assemble(with_original_name(delta, names) if names else delta)
        except ProviderError as error:
            self._failure = error
        if text:
            told += assemble(TextChunk("".join(text)))
        if self._failure is None:
            if reader.done or reader.finished:
                self._ends(was_finished=was_finished, was_done=was_done)
            else:
                self._clock.event_came()
        return told

    def _ends(self, *, was_finished: bool, was_done: bool) -> None:
        """Tell the clock, once, that the answer is whole, and that nothing is missing."""
        if self.reader.done:
            if not was_done:
                self._clock.end_came()
        elif not was_finished:
            self._clock.finish_came()

    def _end(self) -> list[StreamEvent]:
        self._ended = True
        told: list[StreamEvent] = []
        if self._plain is not None:
            deltas = self.reader.read_plain(bytes(self._plain))
        else:
            deltas = []
            left = self._parser.close()
            if left:
                told = self._feed(left)
            if self._failure is None and not (self.reader.finished or self.reader.done):
                self._failure = self._early_end()
        if self._failure is None:
            deltas += self.reader.close()
            if deltas:
                told += self._tell(deltas)
        return told

    def _tell(self, deltas: list[Delta]) -> list[StreamEvent]:
        if self._names:
            deltas = [with_original_name(delta, self._names) for delta in deltas]
        return [event for delta in deltas for event in self.assembler.feed(delta)]

    def _early_end(self) -> ProviderError:
        stray = self._parser.stray.strip()
        if stray:  # a proxy's or server's plain error text
            return self._read_error(stray)
        what = "ended before its finish" if self._any_event else "was empty"
        return ProviderError(
            f"the response stream {what}; what was received is not a whole answer",
            kind=ErrorKind.TRANSPORT,
            status=self._reply.status,
        )


def _too_large(what: str) -> ProviderError:
    return ProviderError(f"{what}; reading was stopped", kind=ErrorKind.SERVER)
