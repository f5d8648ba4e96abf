"""Messages to the blocks of the Messages wire: one segment of a history to bytes.

Wire facts: "Create a Message" (API reference), "Handle tool calls" and "Vision" on platform.claude.com/docs.
Nothing is changed in the messages: what a host needs to be different is different in the request copy only.

The bytes of a segment are not whole messages, because neighbours with the same role become one message when
they are joined: three characters (the role that it begins with, the role that it ends with, and whether a
cache marker may stand on its last block), and the blocks, joined by commas, with the seam between an
assistant message and its results in the middle.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw

from hermes_messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_messages.parts import (
    AudioPart,
    Content,
    FilePart,
    ImagePart,
    OpaquePart,
    Origin,
    Part,
    TextPart,
    content_text,
)
from hermes_messages.transcript_rules import is_blank
from hermes_providers.streaming.json_bytes import dump
from hermes_providers.wire.anthropic_quirks import AnthropicQuirks
from hermes_providers.wire.anthropic_replay import own_blocks, rebuilt
from hermes_providers.wire.call_ids import wire_call_id
from hermes_providers.wire.result_text import foreign_kind, result_text
from hermes_providers.wire.tool_names import wire_tool_name
from hermes_providers.wire.valid_arguments import valid_arguments

__all__ = ["HEADER_LENGTH", "SEAM", "encode_segment"]

HEADER_LENGTH = 3
SEAM = b']},{"role":"user","content":['

JsonDict = dict[str, object]

_NO_OUTPUT = "(no output)"
_NO_TEXT = "(empty message)"
_BELOW = "(see below)"
_DATA_ADDRESS = re.compile(r"data:([^;,]*)(;[^,]*)?,(.*)", re.DOTALL)
_RESULT_BLOCKS = frozenset({"text", "image", "document", "search_result", "tool_reference"})
"""The blocks that a result may hold ("Create a Message", API reference: `tool_result`)."""
_UNMARKED = (b'{"type":"thinking"', b'{"type":"redacted_thinking"')
"""Blocks on which no cache marker may stand ("Prompt caching", what can not be cached)."""


def encode_segment(
    messages: Sequence[Message], quirks: AnthropicQuirks, origin: Origin, renamed: Mapping[int, str]
) -> bytes:
    """One segment; b"" when nothing of it is to be sent.

    `origin` is where the request goes: thinking blocks of another origin are left out. `renamed` holds, for
    assistant messages by identity, what their call ids get behind them because they repeat earlier ones.
    """
    first = messages[0]
    match first:
        case SystemMessage():
            text = content_text(first.content)
            return _segment(b"ss", [{"type": "text", "text": text}]) if text.strip() else b""
        case UserMessage():
            return _segment(b"uu", _user_turn([m for m in messages if isinstance(m, UserMessage)]))
        case AssistantMessage() | ToolMessage():
            return _round(messages, quirks, origin, renamed.get(id(first), ""))


def _segment(roles: bytes, *groups: Sequence[object]) -> bytes:
    encoded = [[dump(block) for block in group] for group in groups]
    markable = not encoded[-1][-1].startswith(_UNMARKED)
    return roles + (b"+" if markable else b"-") + SEAM.join(b",".join(group) for group in encoded)


def _user_turn(messages: Sequence[UserMessage]) -> list[object]:
    blocks = [block for message in messages for block in _content_blocks(message.content)]
    return blocks or [_text(_NO_TEXT)]


def _round(messages: Sequence[Message], quirks: AnthropicQuirks, origin: Origin, suffix: str) -> bytes:
    """An assistant message, and all its results in one user message, as "Handle tool calls" demands."""
    answer: list[object] = []
    results: list[object] = []
    behind: list[object] = []
    for message in messages:
        match message:
            case AssistantMessage() if not is_blank(message):
                answer = _answer(message, quirks, origin, suffix)
            case ToolMessage():
                result, beside = _result(message, quirks, suffix)
                results.append(result)
                behind.extend(beside)
            case _:
                pass
    results.extend(behind)
    match bool(answer), bool(results):
        case True, True:
            return _segment(b"au", answer, results)
        case True, False:
            return _segment(b"aa", answer)
        case False, True:
            return _segment(b"uu", results)
        case _:
            return b""


def _answer(message: AssistantMessage, quirks: AnthropicQuirks, origin: Origin, suffix: str) -> list[object]:
    def call_block(call: ToolCall) -> JsonDict:
        return {
            "type": "tool_use",
            "id": wire_call_id(call.id + suffix, quirks.call_ids),
            "name": wire_tool_name(call.name, quirks.tool_names),
            "input": Raw(valid_arguments(call.arguments).encode()),
        }

    own = own_blocks(message.replay, quirks, origin)
    blocks = rebuilt(own, message, quirks, call_block) if own is not None else []
    if blocks:
        return blocks
    text = content_text(message.content)
    if not text.strip():
        text = message.refusal or ""
    blocks = [_text(text)] if text.strip() else []
    blocks.extend(call_block(call) for call in message.tool_calls)
    return blocks or [_text(_NO_TEXT)]  # an image or the like, which no host takes back from an assistant


def _result(message: ToolMessage, quirks: AnthropicQuirks, suffix: str) -> tuple[JsonDict, list[object]]:
    """A result, and what has to stand behind all results: "all content must be type `text` if `is_error` is
    true"."""
    content: Content = message.content
    beside: tuple[Part, ...] = ()
    if not isinstance(content, str):
        others = tuple(part for part in content if not _is_told(part))
        if message.status != "ok" or not others:
            beside, content = others, result_text(tuple(filter(_is_told, content)))
            if beside and not content.strip():
                content = _BELOW
        else:
            content = tuple(TextPart(result_text((part,))) if _is_told(part) else part for part in content)
    wired: JsonDict = {
        "type": "tool_result",
        "tool_use_id": wire_call_id(message.tool_call_id + suffix, quirks.call_ids),
        "content": _result_content(content),
    }
    if message.status != "ok":
        wired["is_error"] = True
    return wired, _content_blocks(beside)


def _is_told(part: Part) -> bool:
    """Whether it is text, or has a form that no result on this wire may have, so that it is told as text."""
    if isinstance(part, OpaquePart):
        return foreign_kind(bytes(part.raw)) not in _RESULT_BLOCKS
    return isinstance(part, TextPart)


def _result_content(content: Content) -> str | list[object]:
    if isinstance(content, str):
        return content if content.strip() else _NO_OUTPUT
    blocks = _content_blocks(content)
    if not any(isinstance(part, TextPart) and part.text.strip() for part in content):
        return [_text(_BELOW), *blocks]  # some hosts fail on a result without text
    return blocks


def _content_blocks(content: Content) -> list[object]:
    """The blocks of a user message or a result. Blank text makes none: "text content blocks must contain
    non-whitespace text"."""
    if isinstance(content, str):
        return [_text(content)] if content.strip() else []
    return [block for block in map(_block, content) if block is not None]


def _text(text: str) -> JsonDict:
    return {"type": "text", "text": text}


def _block(part: Part) -> object | None:
    match part:
        case TextPart():
            return _text(part.text) if part.text.strip() else None
        case ImagePart():
            return _image(part)
        case FilePart():
            return _document(part)
        case AudioPart():
            return _text(f"(sound, {part.format}: it can not be sent to this host)")
        case OpaquePart():
            return _without_marker(part.raw)


def _image(part: ImagePart) -> JsonDict:
    data = _DATA_ADDRESS.fullmatch(part.url)
    if data is None:
        return {"type": "image", "source": {"type": "url", "url": part.url}}
    source = {"type": "base64", "media_type": data.group(1) or "image/png", "data": data.group(3)}
    return {"type": "image", "source": source}


def _document(part: FilePart) -> JsonDict:
    """A file as "PDF support" and the "Files API" have it; other kinds become a line that says so."""
    source: JsonDict
    data = _DATA_ADDRESS.fullmatch(part.data or "")
    if part.file_id is not None:
        source = {"type": "file", "file_id": part.file_id}
    elif data is not None and data.group(1) == "application/pdf":
        source = {"type": "base64", "media_type": "application/pdf", "data": data.group(3)}
    elif part.data is not None and part.data.startswith(("https://", "http://")):
        source = {"type": "url", "url": part.data}
    else:
        return _text(f"(file {part.filename or 'without a name'}: its kind can not be sent to this host)")
    wired: JsonDict = {"type": "document", "source": source}
    if part.filename:
        wired["title"] = part.filename
    return wired


def _without_marker(raw: Raw) -> object:
    """A block that the user wrote for this host; where cache markers stand is the policy's to say."""
    if b'"cache_control"' not in bytes(raw):
        return raw
    try:
        block = msgspec.json.decode(raw, type=dict[str, Raw])
    except msgspec.DecodeError:
        return raw
    block.pop("cache_control", None)
    return block
