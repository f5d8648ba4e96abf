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
from hermes_providers.streaming.json_bytes import dump
from hermes_providers.wire.anthropic_assembly import ContentReader
from hermes_providers.wire.anthropic_pause import MAX_PAUSES, continued
from hermes_providers.wire.anthropic_replay import sent_blocks
from hermes_providers.wire.anthropic_usage import UsageCounter
from hermes_providers.wire.base import ErrorReader
from hermes_providers.wire.event_reader import EventReader

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
    container: Any = None


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
    container: Any = None
    usage: Any = None
    error: Any = None


_event_decoder = msgspec.json.Decoder(_Event)
_answer_decoder = msgspec.json.Decoder(_Answer)


class AnthropicStreamReader(EventReader[_Event]):
    """Reads one response. `read_error` makes the typed error of an error that came inside it."""

    def __init__(self, read_error: ErrorReader) -> None:
        super().__init__(read_error)
        self._content = ContentReader()
        self._usage = UsageCounter()
        self._asked: bytes | None = None
        self._container: str | None = None
        self._pauses = 0
        self._is_paused = False

    def paused(self, body: bytes) -> bytes | None:
        """The body that lets the host go on with its own tools where it paused; None where it did not."""
        if not self._is_paused:
            return None
        self._asked = self._asked or body
        return continued(self._asked, self._content.all_blocks(), self._container)

    def resume(self, read_error: ErrorReader) -> None:
        """The rest of a paused answer follows: its blocks stand behind the ones so far."""
        super().resume(read_error)
        self._is_paused = False
        self._pauses += 1
        self._content.begin_anew()
        self._usage.begin_anew()

    def _decode(self, data: bytes) -> _Event:
        return _event_decoder.decode(data)

    def _convert(self, value: JsonValue) -> _Event | None:
        """Keeps what can be read where an object is none."""
        if not isinstance(value, dict):
            return msgspec.convert(value, _Event)
        fields: dict[str, object] = dict(value)
        for field in ("delta", "content_block"):
            if not isinstance(fields.get(field), dict):
                fields.pop(field, None)
        match fields:
            case {"delta": {"citation": citation, **rest}}:
                fields["delta"] = {**rest, "citation": Raw(dump(citation))}
            case {"content_block": {**block}}:
                fields["content_block"] = {name: Raw(dump(item)) for name, item in block.items()}
            case _:
                pass
        return msgspec.convert(fields, _Event)

    def _take(self, name: str, said: _Event, data: bytes) -> list[Delta]:
        kind = said.type if isinstance(said.type, str) else name
        if kind == "error" or said.error:
            raise self._read_error(data)
        return self._read_event(kind, said)

    def _read_plain(self, body: bytes) -> list[Delta]:
        answer = _answer_decoder.decode(body)
        if answer.type == "error" or answer.error or answer.content is None:
            raise self._read_error(body)
        deltas: list[Delta] = [MetaChunk(_string(answer.model), _string(answer.id))]
        for index, block in enumerate(answer.content):
            deltas += self._content.start(index, block)
            deltas += self._content.stop(index)
        self._usage.add(answer.usage, final=True)
        self._keep_container(answer.container)
        self._finish(answer.stop_reason, answer.stop_details, deltas)
        self._mark_done()
        return deltas

    def _rest(self) -> list[Delta]:
        """The response's blocks in their order, where they say more than its text and calls do."""
        return [] if self._is_paused else [ReplayChunk(block) for block in self._content.replay_blocks()]

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
                self._keep_container(said.delta.container)
                self._finish(said.delta.stop_reason, said.delta.stop_details, deltas)
                return deltas
            case "message_stop":
                self._mark_done()
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
        self._keep_container(message.get("container"))
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
            self._mark_finished()
            self._is_paused = self._may_go_on(reason)
            if not self._is_paused:
                deltas.append(FinishChunk(reason))

    def _may_go_on(self, reason: str) -> bool:
        """Whether the host waits for nothing but to be asked; calls for us are ours to answer first."""
        if reason != "pause_turn" or self._pauses >= MAX_PAUSES or self._content.has_calls():
            return False
        return bool(sent_blocks(self._content.all_blocks()))

    def _keep_container(self, container: object) -> None:
        if isinstance(container, dict):
            self._container = _string(container.get("id")) or self._container


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None
