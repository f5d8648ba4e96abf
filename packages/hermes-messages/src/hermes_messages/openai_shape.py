"""Reading and writing the OpenAI chat shape: plain dicts, as every host and data set knows them.

>>> from hermes_messages.openai_shape import messages_from_dicts, to_dicts
>>> messages = messages_from_dicts([{"role": "user", "content": "hi"}])
>>> to_dicts(messages)
[{'role': 'user', 'content': 'hi'}]

The reader is tolerant and reports what it overlooked (`read_dicts(...).quirks`); the messages are strict.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Raw

from hermes_messages.argument_text import JsonObject, JsonValue
from hermes_messages.errors import MessageFormatError
from hermes_messages.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_messages.openai_quirks import Quirk, QuirkKind
from hermes_messages.openai_reading import ReadResult, messages_from_dicts, read_dicts
from hermes_messages.parts import (
    AudioPart,
    Content,
    FilePart,
    ImagePart,
    OpaquePart,
    Part,
    Replay,
    TextPart,
    content_text,
)
from hermes_messages.strangers import no_message

__all__ = [
    "Quirk",
    "QuirkKind",
    "ReadResult",
    "message_to_dict",
    "messages_from_dicts",
    "read_dicts",
    "to_dicts",
]


def to_dicts(messages: Iterable[Message], *, full: bool = False) -> list[JsonObject]:
    """The messages as OpenAI chat dicts, new ones at each call.

    Content whose parts are all plain text is written as one string, beside other parts blank text is left
    out, `tool_calls` is written only when there are calls, and the keys of `extra` beside the known ones,
    which they never replace.

    `full` keeps everything that `messages_from_dicts` can read back: the parts as they are, `status`,
    `usage`, `finish_reason`, and `replay` with each block as its JSON text, byte for byte. Raises
    `MessageFormatError` when an `extra` or an opaque part is no JSON object, or a message no message.
    """
    return [message_to_dict(message, index, full=full) for index, message in enumerate(messages)]


def message_to_dict(message: Message, index: int, *, full: bool) -> JsonObject:
    """One message as `to_dicts` writes it; `index` is for errors."""
    match message:
        case SystemMessage():
            known: JsonObject = {"role": "system", "content": _content(message.content, index, full=full)}
        case UserMessage():
            known = {"role": "user", "content": _content(message.content, index, full=full)}
        case AssistantMessage():
            known = _assistant(message, index, full=full)
        case ToolMessage():
            known = {
                "role": "tool",
                "tool_call_id": message.tool_call_id,
                "content": _content(message.content, index, full=full),
            }
            if full and message.status != "ok":
                known["status"] = message.status
        case _:
            raise no_message(message, index)
    if message.name is not None:
        known["name"] = message.name
    return known if message.extra is None else _with_extra(known, message.extra, index)


def _assistant(message: AssistantMessage, index: int, *, full: bool) -> JsonObject:
    content = message.content
    known: JsonObject = {
        "role": "assistant",
        "content": None if content is None else _content(content, index, full=full),
    }
    if message.reasoning is not None:
        known["reasoning"] = message.reasoning
    if message.tool_calls:
        known["tool_calls"] = [_call(call, index) for call in message.tool_calls]
    if message.refusal is not None:
        known["refusal"] = message.refusal
    if full:
        if message.finish_reason is not None:
            known["finish_reason"] = message.finish_reason
        if message.usage is not None:
            known["usage"] = msgspec.to_builtins(message.usage)
        if message.replay is not None:
            known["replay"] = _replay(message.replay)
    return known


def _call(call: ToolCall, index: int) -> JsonObject:
    function: JsonObject = {"name": call.name, "arguments": call.arguments}
    known: JsonObject = {"id": call.id, "type": "function", "function": function}
    if call.extra is None:
        return known
    extra = _object(call.extra, "extra", index)
    kind = extra.pop("type", "function")
    known["type"] = kind
    return _merged(known, extra)


def _replay(replay: Replay) -> JsonObject:
    blocks: list[JsonValue] = [bytes(block).decode() for block in replay.blocks]
    return {"origin": msgspec.to_builtins(replay.origin), "wire": replay.wire, "blocks": blocks}


def _content(content: Content, index: int, *, full: bool) -> JsonValue:
    if isinstance(content, str):
        return content
    if not full and all(isinstance(part, TextPart) and part.extra is None for part in content):
        return content_text(content)
    parts = content if full else [part for part in content if not _is_blank_text(part)]
    return [_part(part, index) for part in parts]


def _is_blank_text(part: Part) -> bool:
    """Text blocks without text are refused by some hosts, which is why a request has none."""
    return isinstance(part, TextPart) and part.extra is None and not part.text.strip()


def _part(part: Part, index: int) -> JsonObject:
    match part:
        case TextPart():
            return _with_extra({"type": "text", "text": part.text}, part.extra, index)
        case ImagePart():
            image: JsonObject = {"url": part.url}
            if part.detail is not None:
                image["detail"] = part.detail
            return _with_extra({"type": "image_url", "image_url": image}, part.extra, index)
        case AudioPart():
            audio: JsonObject = {"data": part.data, "format": part.format}
            return _with_extra({"type": "input_audio", "input_audio": audio}, part.extra, index)
        case FilePart():
            named = {"file_id": part.file_id, "filename": part.filename, "file_data": part.data}
            file: JsonObject = {key: value for key, value in named.items() if value is not None}
            return _with_extra({"type": "file", "file": file}, part.extra, index)
        case OpaquePart():
            return _object(part.raw, "an opaque part", index)


def _with_extra(known: JsonObject, extra: Raw | None, index: int) -> JsonObject:
    return known if extra is None else _merged(known, _object(extra, "extra", index))


def _merged(known: JsonObject, extra: JsonObject) -> JsonObject:
    """`known` with the keys that only `extra` has, also one level down (`function`, `image_url`, ...)."""
    for key, value in extra.items():
        inner = known.setdefault(key, value)
        if inner is not value and isinstance(inner, dict) and isinstance(value, dict):
            for inner_key, inner_value in value.items():
                inner.setdefault(inner_key, inner_value)
    return known


def _object(raw: Raw, what: str, index: int) -> JsonObject:
    try:
        value = msgspec.json.decode(raw)
    except (ValueError, RecursionError) as error:  # of msgspec's own errors, too, all are values' errors
        raise MessageFormatError(f"{what} can not be read as JSON: {error}", index=index) from error
    if not isinstance(value, dict):
        raise MessageFormatError(f"{what} is no JSON object", index=index)
    return value
