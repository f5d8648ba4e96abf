"""A Gemini answer, streamed or plain, to typed deltas. Tolerant in what it reads.

"GenerateContentResponse" (ai.google.dev/api/generate-content). A chunk of the stream is such an object; so is
a plain answer, or a list of them. A candidate may have no content, or an empty one; parts come whole, so a
call is never cut. Every chunk tells the usage so far. No event marks the end: it is the stream's own.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import Raw, Struct

from hermes_messages import ErrorKind, JsonObject, JsonValue, ProviderError, Usage
from hermes_messages.deltas import (
    Delta,
    FinishChunk,
    MetaChunk,
    ReasoningChunk,
    ReplayChunk,
    TextChunk,
    ToolCallChunk,
    UsageChunk,
)
from hermes_providers.streaming.json_bytes import dump
from hermes_providers.wire.base import ErrorReader
from hermes_providers.wire.event_reader import EventReader
from hermes_providers.wire.gemini_replay import KeptParts, ResponsePart, arguments_text, read_part
from hermes_providers.wire.openai_responses_errors import with_kind
from hermes_providers.wire.output_tool import AnswerText, is_answer_tool

__all__ = ["GeminiStreamReader", "read_gemini_usage"]

_UNSAID = frozenset(
    {"", "FINISH_REASON_UNSPECIFIED", "BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED"}
)
_NO_ERROR = frozenset({b"", b"null", b"{}", b'""'})
_REQUEST_FAULTS = frozenset({"MISSING_THOUGHT_SIGNATURE"})
"""Finish reasons that blame the request: "Request has at least one thought signature missing." """


class _Content(Struct):
    parts: list[Raw] | None = None


class _Candidate(Struct, rename="camel"):
    index: Any = None
    content: _Content | None = None
    finish_reason: Any = None
    finish_message: Any = None


class _Feedback(Struct, rename="camel"):
    block_reason: Any = None
    block_reason_message: Any = None


class _Chunk(Struct, rename="camel"):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: Any = None
    model_version: Any = None
    response_id: Any = None
    error: Raw = Raw()


_chunk_decoder = msgspec.json.Decoder(_Chunk)
_chunks_decoder = msgspec.json.Decoder(list[_Chunk])


class GeminiStreamReader(EventReader[list[_Chunk]]):
    """Reads one response. `read_error` makes the typed error of an error that came inside it."""

    end_mark_ends = False

    def __init__(self, read_error: ErrorReader) -> None:
        super().__init__(read_error)
        self._meta: tuple[str | None, str | None] = (None, None)
        self._kept = KeptParts()
        self._calls = 0
        self._usage: Usage | None = None

    def _decode(self, data: bytes) -> list[_Chunk]:
        decoder: msgspec.json.Decoder[Any] = _chunks_decoder if data[:1] == b"[" else _chunk_decoder
        decoded = decoder.decode(data)
        return decoded if isinstance(decoded, list) else [decoded]

    def _convert(self, value: JsonValue) -> list[_Chunk]:
        return msgspec.convert([_with_raw_parts(chunk) for chunk in _listed(value)], list[_Chunk])

    def _take(self, name: str, said: list[_Chunk], data: bytes) -> list[Delta]:  # noqa: ARG002 - no names here
        return [delta for chunk in said for delta in self._read_chunk(chunk, data)]

    def _read_plain(self, body: bytes) -> list[Delta]:
        chunks = self._decode(body.lstrip())
        deltas = [delta for chunk in chunks for delta in self._read_chunk(chunk, body)]
        if not any(chunk.candidates for chunk in chunks):
            raise self._read_error(body)
        self._mark_finished()  # a plain answer is whole, whatever it says of its end
        return deltas

    def _rest(self) -> list[Delta]:
        """The parts of the response, as they came and in their order. The stream's end is its only end mark:
        behind a finish reason, nothing is missing."""
        if self.finished:
            self._mark_done()
        return [ReplayChunk(block) for block in self._kept.blocks()]

    def _read_chunk(self, chunk: _Chunk, data: bytes) -> list[Delta]:
        if bytes(chunk.error) not in _NO_ERROR:
            raise self._read_error(b'{"error":' + bytes(chunk.error) + b"}")
        deltas: list[Delta] = []
        meta = (_string(chunk.model_version), _string(chunk.response_id))
        if meta != self._meta and meta != (None, None):
            self._meta = meta
            deltas.append(MetaChunk(*meta))
        for candidate in chunk.candidates or ():
            if candidate.index in (None, 0):  # one answer is asked for
                self._read_candidate(candidate, data, deltas)
        feedback = chunk.prompt_feedback
        if feedback is not None and not chunk.candidates and _word(feedback.block_reason):
            raise self._blocked(feedback, data)
        usage = read_gemini_usage(chunk.usage_metadata)
        if usage is not None and usage != self._usage:
            self._usage = usage
            deltas.append(UsageChunk(usage))
        return deltas

    def _read_candidate(self, candidate: _Candidate, data: bytes, deltas: list[Delta]) -> None:
        for raw in (candidate.content.parts if candidate.content is not None else None) or ():
            found = read_part(raw)
            if found is None:
                continue
            part, whole = found
            self._kept.add(part, whole)
            self._read_part(part, deltas)
        reason = _word(candidate.finish_reason)
        if reason is None:
            return
        if reason in _REQUEST_FAULTS:
            raise self._of_kind(ErrorKind.FORMAT, _string(candidate.finish_message) or "", reason, data)
        self._mark_finished()
        deltas.append(FinishChunk(reason))

    def _read_part(self, part: ResponsePart, deltas: list[Delta]) -> None:
        call = part.function_call
        if call is not None and is_answer_tool(call.name):  # the answer itself, asked for as a tool
            deltas.append(TextChunk(AnswerText(call.name).feed(arguments_text(call))))
        elif call is not None:
            text = arguments_text(call)
            deltas.append(ToolCallChunk(self._calls, call.id or None, call.name, text))
            self._calls += 1
        elif part.text is not None and part.thought:
            deltas.append(ReasoningChunk(part.text))
        elif part.text:
            deltas.append(TextChunk(part.text))

    def _blocked(self, feedback: _Feedback, data: bytes) -> ProviderError:
        reason = _word(feedback.block_reason) or ""
        said = _string(feedback.block_reason_message) or "the prompt was blocked"
        return self._of_kind(ErrorKind.CONTENT_POLICY, said, reason, data)

    def _of_kind(self, kind: ErrorKind, said: str, reason: str, data: bytes) -> ProviderError:
        """An error that stands in no error object, with what the reply's head says of it."""
        message = f"{said} ({reason})" if said else reason
        error = self._read_error(msgspec.json.encode({"error": {"message": message, "status": reason}}))
        error.body = self._read_error(data).body
        return with_kind(error, kind)


def read_gemini_usage(said: JsonValue) -> Usage | None:
    """Usage ("UsageMetadata", ai.google.dev/api/generate-content); None when nothing usable is in it.

    The prompt's count holds what was read from a cache; that of the candidates does not hold the thoughts.
    """
    if not isinstance(said, dict):
        return None
    prompt, tool_prompt = _count(said, "promptTokenCount"), _count(said, "toolUsePromptTokenCount")
    answer, thoughts = _count(said, "candidatesTokenCount"), _count(said, "thoughtsTokenCount")
    if not prompt and not answer and not thoughts:
        return None
    return Usage(
        input_tokens=_sum(prompt, tool_prompt),
        output_tokens=_sum(answer, thoughts),
        cache_read_tokens=_count(said, "cachedContentTokenCount"),
        reasoning_tokens=thoughts,
    )


def _count(said: JsonObject, name: str) -> int | None:
    value = said.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _sum(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _listed(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else [value]


def _with_raw_parts(chunk: JsonValue) -> object:
    """A chunk whose parts are JSON again, in escapes that keep halves of characters."""
    if not isinstance(chunk, dict):
        return chunk
    made: dict[str, object] = dict(chunk)
    if "error" in chunk:
        made["error"] = Raw(dump(chunk["error"]))
    candidates = chunk.get("candidates")
    if isinstance(candidates, list):
        made["candidates"] = [_candidate_with_raw_parts(candidate) for candidate in candidates]
    return made


def _candidate_with_raw_parts(candidate: JsonValue) -> object:
    match candidate:
        case {"content": {"parts": [*parts], **content}, **rest}:
            raws = [Raw(json.dumps(part).encode()) for part in parts]
            return {**rest, "content": {**content, "parts": raws}}
        case _:
            return candidate


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() not in _UNSAID else None


def _string(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
