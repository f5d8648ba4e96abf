"""What the reader of chat streams makes of chunks, which several modules of tests ask."""

from __future__ import annotations

import json
from typing import Any

from hermes_messages import ChatResponse, ProviderError, StreamEvent
from hermes_messages.assembler import StreamAssembler
from hermes_messages.deltas import Delta
from hermes_messages.parts import Origin
from hermes_providers import ChatQuirks, ServerSentEvent, SSEParser, classify
from hermes_providers.wire.openai_chat_stream import ChatStreamReader
from wire_help import chunk

__all__ = ["assembled", "call_chunk", "deltas", "reader"]


def read_error(payload: bytes | str) -> ProviderError:
    return classify(200, {}, payload, now=0.0)


def reader(quirks: ChatQuirks | None = None) -> ChatStreamReader:
    return ChatStreamReader(quirks or ChatQuirks(), read_error)


def deltas(*chunks: object, quirks: ChatQuirks | None = None) -> list[Delta]:
    one = reader(quirks)
    return [
        delta for value in chunks for delta in one.feed(ServerSentEvent(json.dumps(value).encode()))
    ] + one.close()


def assembled(*pieces: bytes, quirks: ChatQuirks | None = None) -> tuple[list[StreamEvent], ChatResponse]:
    parser, one = SSEParser(), reader(quirks)
    assembler = StreamAssembler(Origin("p", "h", "m"), "openai_chat")
    events = [e for piece in pieces for e in parser.feed(piece)] + parser.close()
    told = [t for e in events for d in one.feed(e) for t in assembler.feed(d)]
    told += [t for d in one.close() for t in assembler.feed(d)] + assembler.flush()
    return told, assembler.finish(complete=one.done)


def call_chunk(*calls: dict[str, Any]) -> dict[str, object]:
    return chunk({"tool_calls": list(calls)})
