"""A Responses answer, streamed or plain, to typed deltas. Tolerant in what it reads.

"Streaming events" and "Create a response", returns: streaming-events and methods/create under
developers.openai.com/api/reference/resources/responses. Text and arguments come as deltas; the `done` events
and the last event repeat them whole, and are read only for what did not come before, because some hosts leave
the deltas out. The items themselves are kept byte for byte, for the next request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw, Struct

from hermes_messages import JsonValue, ProviderError
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
from hermes_providers.streaming.json_bytes import dump
from hermes_providers.usage import read_chat_usage
from hermes_providers.wire.base import ErrorReader
from hermes_providers.wire.event_reader import EventReader
from hermes_providers.wire.joined_text import JoinedText
from hermes_providers.wire.openai_responses_errors import failure
from hermes_providers.wire.openai_responses_replay import OutputItem, OutputPart, read_item
from hermes_providers.wire.output_tool import AnswerCalls

__all__ = ["ResponsesStreamReader"]

_WHOLE = ("item", "part", "response", "error")
"""What of an event is kept as it came."""

_CUT_SHORT_REASONS = frozenset({"max_output_tokens", "content_filter"})


class _Event(Struct):
    # Untyped where hosts differ; an event of a kind that nobody knows is passed over.
    type: Any = None
    delta: Any = None
    text: Any = None
    refusal: Any = None
    arguments: Any = None
    output_index: Any = None
    item_id: Any = None
    content_index: Any = None
    summary_index: Any = None
    item: Raw = Raw()
    part: Raw = Raw()
    response: Raw = Raw()
    error: Raw = Raw()
    object: Any = None


class _Reason(Struct):
    reason: Any = None


class _Response(Struct):
    id: Any = None
    object: Any = None
    model: Any = None
    status: Any = None
    output: list[Raw] | None = None
    usage: Any = None
    error: Raw = Raw()
    incomplete_details: _Reason | None = None


_event_decoder = msgspec.json.Decoder(_Event)
_response_decoder = msgspec.json.Decoder(_Response)
_part_decoder = msgspec.json.Decoder(OutputPart)


class ResponsesStreamReader(EventReader[_Event]):
    """Reads one response. `read_error` makes the typed error of an error that came inside it."""

    end_mark_ends = False

    def __init__(self, read_error: ErrorReader) -> None:
        super().__init__(read_error)
        self._meta: tuple[str | None, str | None] = (None, None)
        self._joined = JoinedText()
        self._answers = AnswerCalls()
        self._places: dict[str, int] = {}
        self._last_place = -1
        self._item_index: int | None = None
        self._told: set[tuple[str, int, int]] = set()
        self._arguments: dict[int, list[str]] = {}
        self._reasoning_part: tuple[str, int, int] | None = None
        self._reasoning_kind = ""
        self._items: dict[int, Raw] = {}
        self._blocks: list[Raw] = []
        self._handlers: dict[str, Callable[[_Event, list[Delta]], None]] = {
            "response.created": self._begun,
            "response.in_progress": self._begun,
            "response.output_item.added": self._item_added,
            "response.output_item.done": self._item_done,
            "response.content_part.done": self._part_done,
            "response.output_text.delta": self._text_delta,
            "response.output_text.done": self._text_done,
            "response.refusal.delta": self._refusal_delta,
            "response.refusal.done": self._refusal_done,
            "response.function_call_arguments.delta": self._arguments_delta,
            "response.function_call_arguments.done": self._arguments_done,
            "response.reasoning_summary_text.delta": self._summary_delta,
            "response.reasoning_text.delta": self._reasoning_delta,
            "response.completed": self._ended,
            "response.incomplete": self._ended,
            "response.failed": self._ended,
            "response.cancelled": self._ended,
        }

    def _decode(self, data: bytes) -> _Event:
        return _event_decoder.decode(data)

    def _convert(self, value: JsonValue) -> _Event | None:
        if value is None:
            return None
        if isinstance(value, dict):
            whole = {name: Raw(dump(value[name])) for name in _WHOLE if name in value}
            return msgspec.convert({**value, **whole}, _Event)
        return msgspec.convert(value, _Event)

    def _take(self, name: str, said: _Event, data: bytes) -> list[Delta]:  # noqa: ARG002 - it is in the data
        deltas: list[Delta] = []
        handler = self._handlers.get(said.type) if isinstance(said.type, str) else None
        if handler is not None:
            handler(said, deltas)
        elif said.type == "error" or said.object == "error" or _is_told(said.error):
            raise failure(self._read_error, said.error if _is_told(said.error) else data)
        return self._answers.taken(deltas)

    def _read_plain(self, body: bytes) -> list[Delta]:
        response = _response_decoder.decode(body)
        if response.object == "error" or (response.output is None and response.status is None):
            raise failure(self._read_error, body)
        deltas: list[Delta] = []
        self._end(response, body, deltas)
        return self._answers.taken(deltas)

    def _rest(self) -> list[Delta]:
        """The items of the response, as they came and in their order."""
        return [ReplayChunk(block) for block in self._blocks]

    def _failure(self, data: bytes) -> ProviderError:
        return failure(self._read_error, data)

    def _begun(self, said: _Event, deltas: list[Delta]) -> None:
        response = self._response(said)
        if response is not None:
            self._add_meta(response, deltas)

    def _ended(self, said: _Event, deltas: list[Delta]) -> None:
        response = self._response(said)
        if response is None:
            raise failure(self._read_error, None)
        if not isinstance(response.status, str):
            response.status = str(said.type).removeprefix("response.")
        self._end(response, bytes(said.response), deltas)

    def _response(self, said: _Event) -> _Response | None:
        try:
            return _response_decoder.decode(said.response) if _is_told(said.response) else None
        except msgspec.MsgspecError:
            raise self._read_error(bytes(said.response)) from None

    def _end(self, response: _Response, payload: bytes, deltas: list[Delta]) -> None:
        self._add_meta(response, deltas)
        status = _string(response.status)
        if _is_told(response.error) or status in {"failed", "cancelled"}:
            raise failure(self._read_error, response.error)
        if status not in {"completed", "incomplete", None}:
            raise self._read_error(payload)  # queued or in progress: an answer that is still to be fetched
        output = response.output or []
        if not self._items:
            for index, raw in enumerate(output):
                self._finish_item(index, raw, deltas)
        done = [self._items[index] for index in sorted(self._items)]
        self._blocks = done if len(done) >= len(output) else output
        usage = read_chat_usage(response.usage)
        if usage is not None:
            deltas.append(UsageChunk(usage))
        self._mark_finished()
        self._mark_done()  # nothing follows the last event
        deltas.append(FinishChunk(_finish_word(response)))

    def _add_meta(self, response: _Response, deltas: list[Delta]) -> None:
        meta = (_string(response.model), _string(response.id))
        if meta != self._meta and meta != (None, None):
            self._meta = meta
            deltas.append(MetaChunk(*meta))

    def _place(self, said: _Event, item: OutputItem | None = None, *, opens: bool = False) -> int:
        """Where the item of an event stands in the output. Some hosts do not say: then its id tells."""
        if isinstance(said.output_index, int):
            self._last_place = said.output_index
        else:
            own_id = said.item_id if item is None else item.id
            if isinstance(own_id, str) and own_id:
                self._last_place = self._places.setdefault(own_id, len(self._places))
            elif opens or self._last_place < 0:
                self._last_place += 1
        return self._last_place

    def _item_added(self, said: _Event, deltas: list[Delta]) -> None:
        item = read_item(said.item) if _is_told(said.item) else None
        if item is None:
            return
        place = self._place(said, item, opens=True)
        self._enter(place)
        if item.type == "function_call":
            self._open_call(place, item, deltas)

    def _item_done(self, said: _Event, deltas: list[Delta]) -> None:
        if _is_told(said.item):
            self._finish_item(self._place(said, read_item(said.item)), said.item, deltas)

    def _finish_item(self, index: int, raw: Raw, deltas: list[Delta]) -> None:
        self._items[index] = Raw(bytes(raw))  # a copy: what it is a part of need not be kept
        item = read_item(raw)
        if item is None:
            return
        match item.type:
            case "function_call":
                if index not in self._arguments:
                    self._open_call(index, item, deltas)
                self._add_missing_arguments(index, item.arguments, deltas)
            case "message":
                for place, part in enumerate(item.content or ()):
                    self._add_missing_part(index, place, part, deltas)
            case "reasoning" if item.content or item.summary:
                kind, parts = ("text", item.content) if item.content else ("summary", item.summary)
                for place, part in enumerate(parts or ()):
                    if ("reasoning", index, place) not in self._told and part.text:
                        self._add_reasoning(kind, index, place, part.text, deltas)
            case _:
                pass

    def _open_call(self, index: int, item: OutputItem, deltas: list[Delta]) -> None:
        self._arguments[index] = []
        deltas.append(ToolCallChunk(index=index, id=item.call_id or item.id, name=item.name))

    def _arguments_delta(self, said: _Event, deltas: list[Delta]) -> None:
        if isinstance(said.delta, str) and said.delta:
            index = self._place(said)
            self._arguments.setdefault(index, []).append(said.delta)
            deltas.append(ToolCallChunk(index=index, arguments=said.delta))

    def _arguments_done(self, said: _Event, deltas: list[Delta]) -> None:
        self._add_missing_arguments(self._place(said), said.arguments, deltas)

    def _add_missing_arguments(self, index: int, whole: object, deltas: list[Delta]) -> None:
        pieces = self._arguments.setdefault(index, [])
        told = "".join(pieces)
        if isinstance(whole, str) and whole != told and whole.startswith(told):
            pieces.append(whole[len(told) :])
            deltas.append(ToolCallChunk(index=index, arguments=whole[len(told) :]))

    def _text_delta(self, said: _Event, deltas: list[Delta]) -> None:
        if isinstance(said.delta, str):
            self._add_text(self._place(said), _index(said.content_index), said.delta, deltas)

    def _text_done(self, said: _Event, deltas: list[Delta]) -> None:
        text = said.text if isinstance(said.text, str) else None
        part = OutputPart("output_text", text=text)
        self._add_missing_part(self._place(said), _index(said.content_index), part, deltas)

    def _refusal_delta(self, said: _Event, deltas: list[Delta]) -> None:
        if isinstance(said.delta, str):
            self._told.add(("content", self._place(said), _index(said.content_index)))
            deltas.append(RefusalChunk(said.delta))

    def _refusal_done(self, said: _Event, deltas: list[Delta]) -> None:
        refusal = said.refusal if isinstance(said.refusal, str) else None
        part = OutputPart("refusal", refusal=refusal)
        self._add_missing_part(self._place(said), _index(said.content_index), part, deltas)

    def _part_done(self, said: _Event, deltas: list[Delta]) -> None:
        try:
            part = _part_decoder.decode(said.part)
        except msgspec.MsgspecError:
            return
        if part.type in {"output_text", "refusal"}:
            self._add_missing_part(self._place(said), _index(said.content_index), part, deltas)

    def _add_missing_part(self, index: int, place: int, part: OutputPart, deltas: list[Delta]) -> None:
        if ("content", index, place) in self._told:
            return
        if part.text:
            self._add_text(index, place, part.text, deltas)
        elif part.refusal:
            self._told.add(("content", index, place))
            deltas.append(RefusalChunk(part.refusal))

    def _add_text(self, index: int, place: int, text: str, deltas: list[Delta]) -> None:
        self._enter(index)
        self._told.add(("content", index, place))
        deltas.append(TextChunk(self._joined.add(text)))

    def _enter(self, index: int) -> None:
        if index != self._item_index:  # each item begins a paragraph
            self._item_index = index
            self._joined.interrupt()

    def _summary_delta(self, said: _Event, deltas: list[Delta]) -> None:
        if isinstance(said.delta, str):
            place = _index(said.summary_index)
            self._add_reasoning("summary", self._place(said), place, said.delta, deltas)

    def _reasoning_delta(self, said: _Event, deltas: list[Delta]) -> None:
        if isinstance(said.delta, str):
            place = _index(said.content_index)
            self._add_reasoning("text", self._place(said), place, said.delta, deltas)

    def _add_reasoning(self, kind: str, index: int, place: int, text: str, deltas: list[Delta]) -> None:
        if self._reasoning_kind not in ("", kind):
            return  # the text itself and its summary say the same twice
        self._reasoning_kind = kind
        part = ("reasoning", index, place)
        begins = self._reasoning_part is not None and part != self._reasoning_part
        self._reasoning_part = part
        self._told.add(part)
        deltas.append(ReasoningChunk("\n\n" + text if begins else text))


def _finish_word(response: _Response) -> str:
    if response.status != "incomplete":
        return "completed"
    reason = response.incomplete_details.reason if response.incomplete_details is not None else None
    # Whatever else cut it short: a word that says so, not one that could be taken for a normal end.
    return reason if reason in _CUT_SHORT_REASONS else "incomplete"


def _is_told(raw: Raw) -> bool:
    return bytes(raw) not in {b"", b"null"}


def _index(value: object) -> int:
    return value if isinstance(value, int) else 0


def _string(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
