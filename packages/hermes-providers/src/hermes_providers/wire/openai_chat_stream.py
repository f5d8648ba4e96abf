"""A chat-completions response, streamed or plain, to typed deltas. Tolerant in what it reads.

The form is that of
https://developers.openai.com/api/reference/resources/chat/subresources/completions/streaming-events; what
hosts do differently is read too: ids that are numbers, fields that are null or missing, arguments as an
object, usage in a chunk of its own or inside the choice, content as a list, an empty finish reason on every
chunk, an error instead of a chunk.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from hermes_messages import JsonObject, JsonValue
from hermes_messages.deltas import (
    Delta,
    FinishChunk,
    MetaChunk,
    ReasoningChunk,
    RefusalChunk,
    ReplayChunk,
    TextChunk,
    ToolCallChunk,
    UsageChunk,
)
from hermes_providers.profiles import ChatQuirks
from hermes_providers.streaming.sse import ServerSentEvent
from hermes_providers.usage import read_chat_usage
from hermes_providers.wire.base import ErrorReader
from hermes_providers.wire.event_reader import END_MARK, UNREADABLE, EventReader
from hermes_providers.wire.openai_chat_typed import TypedChunk, chunk_decoder
from hermes_providers.wire.output_tool import AnswerCalls
from hermes_providers.wire.reasoning_details import ReasoningDetails

__all__ = ["ChatStreamReader"]


class _Choice(Struct):
    # The objects of a choice stay untyped: hosts differ most here, and each field is judged on its own.
    index: Any = None
    delta: Any = None
    message: Any = None
    finish_reason: Any = None
    usage: Any = None
    error: Any = None


class _Chunk(Struct):
    id: Any = None
    model: Any = None
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None
    object: Any = None
    detail: Any = None
    x_groq: Any = None


_decoder = msgspec.json.Decoder(_Chunk)
_MOST_MISSES = 8


class ChatStreamReader(EventReader[_Chunk]):
    """Reads one response. `read_error` makes the typed error of an error that came inside it."""

    def __init__(self, quirks: ChatQuirks, read_error: ErrorReader) -> None:
        super().__init__(read_error)
        self._decode_typed = chunk_decoder((*quirks.reasoning_read, quirks.replay_field or ""))
        self._typed = True
        self._typed_misses = 0
        self._quirks = quirks
        self._details: ReasoningDetails | None = None
        self._answers = AnswerCalls()
        self._meta: tuple[str | None, str | None] = (None, None)

    def feed(self, event: ServerSentEvent) -> list[Delta]:
        """As `EventReader.feed`. Nearly all events are exactly what the documents say."""
        data = event.data
        if self._typed and not event.name:
            if data[:1] == b"{":
                try:
                    said = self._decode_typed(data)
                except UNREADABLE:
                    self._typed_misses += 1  # a host whose chunks never are so is asked no more
                else:
                    self._typed_misses = 0
                    return self._read_typed(said, data)
            elif data == END_MARK:
                self._mark_done()
                self._typed = False
                return []
        try:
            return super().feed(event)
        finally:
            self._typed = self._typed_misses < _MOST_MISSES and not (self.done or self._waiting)

    def resume(self, read_error: ErrorReader) -> None:
        """As `EventReader.resume`."""
        super().resume(read_error)
        self._typed = True

    def _read_typed(self, said: TypedChunk, data: bytes) -> list[Delta]:
        """What the tolerant reader makes of the same chunk, without looking at each field."""
        meta = (said.model or None, said.id or None)
        deltas: list[Delta] = [] if meta == self._meta else [self._new_meta(meta)]
        if said.usage is not None and (usage := said.usage.read()) is not None:
            deltas.append(UsageChunk(usage))
        for choice in said.choices:
            delta = choice.delta
            if delta.content is not None:
                deltas.append(TextChunk(delta.content))
            for call in delta.tool_calls or ():
                function = call.function
                fragment = ToolCallChunk(call.index, call.id or None, function.name, function.arguments)
                deltas.append(self._answers.take(fragment))
            if choice.finish_reason is not None:
                self._add_finish(choice.finish_reason, data, deltas)
        return deltas

    def _decode(self, data: bytes) -> _Chunk:
        return _decoder.decode(data)

    def _convert(self, value: JsonValue) -> _Chunk | None:
        """Keeps what can be read where choices have another shape; a JSON null says nothing."""
        if value is None:
            return None
        if isinstance(value, dict):
            choices = value.get("choices")
            if isinstance(choices, list):
                value["choices"] = [choice for choice in choices if isinstance(choice, dict)]
            else:
                value["choices"] = [choices] if isinstance(choices, dict) else None
        return msgspec.convert(value, _Chunk)

    def _take(self, name: str, said: _Chunk, data: bytes) -> list[Delta]:  # noqa: ARG002 - no names here
        return self._read_chunk(said, data)

    def _read_plain(self, body: bytes) -> list[Delta]:
        chunk = _decoder.decode(body)
        deltas = self._read_chunk(chunk, body)
        if not chunk.choices:
            raise self._read_error(body)
        self._mark_done()
        return deltas

    def _rest(self) -> list[Delta]:
        """The host's reasoning blocks, whole by now."""
        return [] if self._details is None else [ReplayChunk(block) for block in self._details.blocks()]

    def _read_chunk(self, chunk: _Chunk, data: bytes) -> list[Delta]:
        if _is_error(chunk):
            raise self._read_error(data)
        meta = (_string(chunk.model) or None, _string(chunk.id) or None)
        deltas: list[Delta] = [] if meta == self._meta else [self._new_meta(meta)]
        self._add_usage(chunk.usage, deltas)
        if isinstance(chunk.x_groq, dict):
            self._add_usage(chunk.x_groq.get("usage"), deltas)
        for choice in chunk.choices or ():
            if choice.index in (None, 0, "0"):  # one answer is asked for
                self._read_choice(choice, data, deltas)
        return deltas

    def _read_choice(self, choice: _Choice, data: bytes, deltas: list[Delta]) -> None:
        said = choice.delta if isinstance(choice.delta, dict) else choice.message
        if isinstance(said, dict):
            self._read_delta(said, deltas)
        self._add_usage(choice.usage, deltas)
        if choice.error:
            raise self._read_error(msgspec.json.encode({"error": choice.error}))
        if isinstance(choice.finish_reason, str):
            self._add_finish(choice.finish_reason, data, deltas)

    def _new_meta(self, meta: tuple[str | None, str | None]) -> MetaChunk:
        self._meta = meta
        return MetaChunk(*meta)

    def _add_finish(self, reason: str, data: bytes, deltas: list[Delta]) -> None:
        word = reason.strip()
        if word.lower() in self._quirks.error_finishes:
            raise self._read_error(data)
        if word:
            self._mark_finished()
            answered = self._answers.seen and self._answers.only and "tool" in word.lower()
            deltas.append(FinishChunk("stop" if answered else reason))

    def _read_delta(self, said: JsonObject, deltas: list[Delta]) -> None:
        for field in self._quirks.reasoning_read:
            reasoning = said.get(field)
            if isinstance(reasoning, str):
                deltas.append(ReasoningChunk(reasoning))
                break
        if self._quirks.replay_field is not None:
            details = said.get(self._quirks.replay_field)
            if isinstance(details, list):
                self._details = self._details or ReasoningDetails()
                for detail in details:
                    if isinstance(detail, dict):
                        self._details.add(detail)
        content = said.get("content")
        if isinstance(content, str):
            deltas.append(TextChunk(content))
        elif isinstance(content, list):
            _add_parts(content, deltas)
        refusal = said.get("refusal")
        if isinstance(refusal, str) and refusal:
            deltas.append(RefusalChunk(refusal))
        calls = said.get("tool_calls")
        if isinstance(calls, list):
            deltas.extend(self._answers.take(_call(call)) for call in calls if isinstance(call, dict))
        elif isinstance(calls, dict):
            deltas.append(self._answers.take(_call(calls)))

    @staticmethod
    def _add_usage(said: JsonValue, deltas: list[Delta]) -> None:
        usage = read_chat_usage(said)
        if usage is not None:
            deltas.append(UsageChunk(usage))


def _is_error(chunk: _Chunk) -> bool:
    if chunk.error or chunk.object == "error":
        return True
    return bool(chunk.detail) and chunk.choices is None and chunk.usage is None


def _call(said: JsonObject) -> ToolCallChunk:
    function = said.get("function")
    named: JsonObject = function if isinstance(function, dict) else {}
    index = said.get("index")
    return ToolCallChunk(
        index=_index(index),
        id=_string(said.get("id")) or None,
        name=_string(named.get("name")),
        arguments=_arguments(named.get("arguments")),
    )


def _index(value: JsonValue) -> int | None:
    match value:
        case bool() | None:
            return None
        case int():
            return value
        case str() if value.isdecimal():
            return int(value)
        case _:
            return None


def _string(value: JsonValue) -> str | None:
    match value:
        case str():
            return value
        case bool() | None:
            return None
        case int() | float():
            return str(value)
        case _:
            return None


def _arguments(value: JsonValue) -> str | None:
    """Argument text; an object is written down as JSON."""
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def _add_parts(parts: list[JsonValue], deltas: list[Delta]) -> None:
    """Content as a list of parts, as Mistral's reasoning models send it."""
    for part in parts:
        if isinstance(part, str):
            deltas.append(TextChunk(part))
        elif isinstance(part, dict):
            text, thinking = part.get("text"), part.get("thinking")
            if isinstance(text, str):
                deltas.append(TextChunk(text))
            elif isinstance(thinking, str):
                deltas.append(ReasoningChunk(thinking))
            elif isinstance(thinking, list):
                pieces = [piece.get("text") for piece in thinking if isinstance(piece, dict)]
                deltas.append(ReasoningChunk("".join(piece for piece in pieces if isinstance(piece, str))))
