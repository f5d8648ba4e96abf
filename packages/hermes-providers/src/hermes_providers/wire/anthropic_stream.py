"""A Messages response, streamed or plain, to typed deltas. Tolerant in what it reads.

"Streaming messages" (platform.claude.com/docs/en/build-with-claude/streaming): `message_start`, blocks of
`content_block_start`, `content_block_delta`, `content_block_stop`, then `message_delta` with the stop reason
and `message_stop`; `ping` anywhere, `error` anywhere, and events of new types that are to be passed over.
"Stop reasons and fallback" (build-with-claude/handling-stop-reasons) has the words for the end.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from hermes_messages import JsonValue
from hermes_messages.deltas import Delta, FinishChunk, MetaChunk, RefusalChunk, ReplayChunk, UsageChunk
from hermes_providers.streaming.sse import ServerSentEvent
from hermes_providers.wire.anthropic_assembly import ContentReader
from hermes_providers.wire.anthropic_mending import decode_tolerantly
from hermes_providers.wire.anthropic_usage import UsageCounter
from hermes_providers.wire.base import ErrorReader

__all__ = ["AnthropicStreamReader"]


class _Delta(Struct, frozen=True):
    # The fields stay untyped: each is judged on its own, so that one odd field does not cost the others.
    type: Any = None
    text: Any = None
    partial_json: Any = None
    thinking: Any = None
    signature: Any = None
    citation: Raw = Raw(b"")
    stop_reason: Any = None
    stop_details: Any = None


class _Event(Struct):
    type: Any = None
    index: Any = None
    delta: _Delta = _Delta()
    content_block: dict[str, Raw] = {}
    message: Any = None
    usage: Any = None
    error: Any = None


class _Answer(Struct):
    type: Any = None
    id: Any = None
    model: Any = None
    content: list[dict[str, Raw]] | None = None
    stop_reason: Any = None
    stop_details: Any = None
    usage: Any = None
    error: Any = None


_event_decoder = msgspec.json.Decoder(_Event)
_answer_decoder = msgspec.json.Decoder(_Answer)


class AnthropicStreamReader:
    """Reads one response. `read_error` makes the typed error of an error that came inside it."""

    def __init__(self, read_error: ErrorReader) -> None:
        self._read_error = read_error
        self._content = ContentReader()
        self._usage = UsageCounter()
        self._finished = False
        self._done = False

    @property
    def finished(self) -> bool:
        """Whether a stop reason came."""
        return self._finished

    @property
    def done(self) -> bool:
        """Whether `message_stop` came."""
        return self._done

    def feed(self, event: ServerSentEvent) -> list[Delta]:
        """What one event says. Raises `ProviderError` when it is an error, or no JSON object.

        A last event that the stream's end cut in the middle says nothing.
        """
        data = event.data.strip()
        if event.name == "error":
            raise self._read_error(data)
        if not data or self._done:
            return []
        if data == b"[DONE]":  # no part of this wire, but of hosts that imitate it
            self._done = True
            return []
        try:
            said = _decode(data)
        except msgspec.MsgspecError:
            if not event.terminated:
                return []
            raise self._read_error(data) from None
        kind = said.type if isinstance(said.type, str) else event.name
        if kind == "error" or said.error:
            raise self._read_error(data)
        return self._read_event(kind, said)

    def read_plain(self, body: bytes) -> list[Delta]:
        """What a whole answer says. Raises `ProviderError` when it is an error, or no message."""
        try:
            answer = _decode_answer(body)
        except msgspec.MsgspecError:
            raise self._read_error(body) from None
        if answer.type == "error" or answer.error or answer.content is None:
            raise self._read_error(body)
        deltas: list[Delta] = [MetaChunk(_string(answer.model), _string(answer.id))]
        for index, block in enumerate(answer.content):
            deltas += self._content.start(index, block)
            deltas += self._content.stop(index)
        self._usage.add(answer.usage, final=True)
        self._finish(answer.stop_reason, answer.stop_details, deltas)
        self._done = True
        return deltas

    def close(self) -> list[Delta]:
        """The response's blocks in their order, where they say more than its text and calls do."""
        return [ReplayChunk(block) for block in self._content.replay_blocks()]

    def _read_event(self, kind: str, said: _Event) -> list[Delta]:
        match kind:
            case "content_block_delta":
                return self._read_delta(said.index, said.delta)
            case "content_block_start":
                return self._content.start(said.index, said.content_block)
            case "content_block_stop":
                return self._content.stop(said.index)
            case "message_start":
                return self._start(said.message)
            case "message_delta":
                self._usage.add(said.usage, final=True)
                deltas: list[Delta] = []
                self._finish(said.delta.stop_reason, said.delta.stop_details, deltas)
                return deltas
            case "message_stop":
                self._done = True
                return self._content.stop_all()
            case _:
                return []

    def _read_delta(self, index: object, delta: _Delta) -> list[Delta]:
        match delta.type:
            case "text_delta":
                return self._content.text(index, _string(delta.text) or "")
            case "input_json_delta":
                return self._content.arguments(index, _string(delta.partial_json) or "")
            case "thinking_delta":
                return self._content.thinking(index, _string(delta.thinking) or "")
            case "signature_delta":
                self._content.signature(index, _string(delta.signature) or "")
            case "citations_delta":
                self._content.citation(index, delta.citation)
            case _:
                pass
        return []

    def _start(self, message: JsonValue) -> list[Delta]:
        if not isinstance(message, dict):
            return []
        self._usage.add(message.get("usage"), final=False)
        return [MetaChunk(_string(message.get("model")), _string(message.get("id")))]

    def _finish(self, reason: object, details: object, deltas: list[Delta]) -> None:
        usage = self._usage.usage()
        if usage is not None:
            deltas.append(UsageChunk(usage))
        explanation = details.get("explanation") if isinstance(details, dict) else None
        if reason == "refusal" and isinstance(explanation, str) and explanation.strip():
            deltas.append(RefusalChunk(explanation))
        if isinstance(reason, str) and reason.strip():
            deltas += self._content.stop_all()
            self._finished = True
            deltas.append(FinishChunk(reason))


def _decode(data: bytes) -> _Event:
    """The event in `data`. Raises `msgspec.MsgspecError` for what is no JSON object."""
    try:
        return _event_decoder.decode(data)
    except msgspec.MsgspecError:
        value = decode_tolerantly(data)  # seldom: odd characters, or a field of another shape
    for name in ("delta", "content_block"):
        if not isinstance(value.get(name), dict):
            value.pop(name, None)
    return _event_decoder.decode(msgspec.json.encode(value))


def _decode_answer(body: bytes) -> _Answer:
    try:
        return _answer_decoder.decode(body)
    except msgspec.MsgspecError:
        return _answer_decoder.decode(msgspec.json.encode(decode_tolerantly(body)))


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None
