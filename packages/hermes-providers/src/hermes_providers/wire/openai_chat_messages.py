"""Messages to the chat-completions wire: one segment of a history to JSON bytes.

Every field that is sent is named here; keys that came with a message and are not known stay at home. Nothing
is changed in the messages: what a host needs to be different is different in the request copy only.
Wire facts:
https://developers.openai.com/api/reference/resources/chat/subresources/completions/methods/create
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TypeGuard

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
    Replay,
    TextPart,
    content_text,
)
from hermes_messages.transcript_rules import is_blank
from hermes_providers.profiles import ChatQuirks
from hermes_providers.streaming.json_bytes import dump
from hermes_providers.wire.call_ids import wire_call_id
from hermes_providers.wire.result_text import result_text
from hermes_providers.wire.tool_names import wire_tool_name
from hermes_providers.wire.valid_arguments import valid_arguments

__all__ = ["WIRE", "encode_segment", "encode_system"]

WIRE = "openai_chat"

JsonDict = dict[str, object]

_NO_OUTPUT = "(no output)"
_NO_TEXT = "(empty message)"
_IMAGE_BELOW = "(image: see the next user message)"
_NAME = re.compile(r"[^\s<|\\/>]{1,64}")  # the pattern that OpenAI's error for a bad name states


def encode_segment(messages: Sequence[Message], quirks: ChatQuirks, origin: Origin) -> bytes:
    """One segment as JSON objects joined by commas; b"" when nothing of it is to be sent.

    `origin` is where the request goes: reasoning blocks of another origin are left out.
    """
    first = messages[0]
    match first:
        case SystemMessage():
            return encode_system([first.content], quirks)
        case UserMessage():
            wired = _user_turn([m for m in messages if isinstance(m, UserMessage)], quirks)
        case AssistantMessage() | ToolMessage():
            wired = _round(messages, quirks, origin)
    return b",".join(map(dump, wired))


def encode_system(contents: Iterable[Content], quirks: ChatQuirks) -> bytes:
    """One system message of the joined texts, in order; b"" when they are blank."""
    texts = [text for text in map(content_text, contents) if text.strip()]
    return dump({"role": quirks.system_role, "content": "\n\n".join(texts)}) if texts else b""


def _user_turn(messages: Sequence[UserMessage], quirks: ChatQuirks) -> list[JsonDict]:
    contents = [(message, _user_content(message.content, quirks)) for message in messages]
    told = [(message, content) for message, content in contents if content]
    if not told:
        return [{"role": "user", "content": _NO_TEXT}]
    if quirks.merge_user_turns and len(told) > 1:
        return [{"role": "user", "content": _merged([content for _, content in told])}]
    return [_user(message, content, quirks) for message, content in told]


def _user(message: UserMessage, content: str | list[object], quirks: ChatQuirks) -> JsonDict:
    wired: JsonDict = {"role": "user", "content": content}
    if quirks.names and message.name and _NAME.fullmatch(message.name):
        wired["name"] = message.name
    return wired


def _merged(contents: Sequence[str | list[object]]) -> str | list[object]:
    texts = [content for content in contents if isinstance(content, str)]
    if len(texts) == len(contents):
        return "\n\n".join(texts)
    parts: list[object] = []
    for content in contents:
        parts.extend([_text(content)] if isinstance(content, str) else content)
    return parts


def _user_content(content: Content, quirks: ChatQuirks) -> str | list[object]:
    """A plain string when all parts are text, a list only where something else requires it."""
    if not isinstance(content, str):
        content = tuple(_taken(part, quirks) for part in content)
    if isinstance(content, str) or all(isinstance(part, TextPart) for part in content):
        text = content_text(content)
        return text if text.strip() else ""
    return [wired for wired in map(_user_part, content) if wired is not None]


def _taken(part: Part, quirks: ChatQuirks) -> Part:
    """`part` itself, or a text that stands for what this host does not take."""
    match part:
        case ImagePart() if "image" not in quirks.user_parts:
            return TextPart("(an image, which this model can not see)")
        case AudioPart() if "audio" not in quirks.user_parts:
            return TextPart("(a sound, which this model can not hear)")
        case FilePart() if "file" not in quirks.user_parts:
            return TextPart(f"(the file {part.filename or 'without a name'}, which this model can not read)")
        case _:
            return part


def _user_part(part: Part) -> object | None:
    match part:
        case TextPart():
            return _text(part.text) if part.text.strip() else None
        case ImagePart():
            image = {"url": part.url} if part.detail is None else {"url": part.url, "detail": part.detail}
            return {"type": "image_url", "image_url": image}
        case AudioPart():
            return {"type": "input_audio", "input_audio": {"data": part.data, "format": part.format}}
        case FilePart():
            file = {"file_id": part.file_id, "filename": part.filename, "file_data": part.data}
            return {"type": "file", "file": {key: value for key, value in file.items() if value is not None}}
        case OpaquePart():
            return part.raw  # a host's own kind of part, which the user wrote for that host


def _text(text: str) -> JsonDict:
    return {"type": "text", "text": text}


def _round(messages: Sequence[Message], quirks: ChatQuirks, origin: Origin) -> list[JsonDict]:
    """An assistant message and its results; images that no tool message may hold follow at the end."""
    wired: list[JsonDict] = []
    images: list[object] = []
    for message in messages:
        match message:
            case AssistantMessage() if not is_blank(message):
                wired.append(_assistant(message, quirks, origin))
            case ToolMessage():
                content, moved = _tool_content(message.content, quirks)
                call_id = wire_call_id(message.tool_call_id, quirks.call_ids)
                wired.append({"role": "tool", "tool_call_id": call_id, "content": content})
                images.extend(moved)
            case _:
                pass
    if images:
        wired.append({"role": "user", "content": [_text("Images from the tool results above:"), *images]})
    return wired


def _assistant(message: AssistantMessage, quirks: ChatQuirks, origin: Origin) -> JsonDict:
    wired: JsonDict = {"role": "assistant"}
    text = content_text(message.content)
    if not text.strip():
        text = message.refusal or ""
    if text.strip():
        wired["content"] = text
    elif not message.tool_calls:
        wired["content"] = _NO_TEXT  # an image or the like, which no host takes back from an assistant
    elif quirks.empty_content != "omit":
        wired["content"] = None if quirks.empty_content == "null" else ""
    if quirks.reasoning_echo is not None:
        missing = quirks.reasoning_echo_missing if message.tool_calls else None
        reasoning = message.reasoning if message.reasoning is not None else missing
        if reasoning is not None:
            wired[quirks.reasoning_echo] = reasoning
    if quirks.replay_field is not None and _is_own(message.replay, origin):
        wired[quirks.replay_field] = list(message.replay.blocks)
    if message.tool_calls:
        wired["tool_calls"] = [_call(call, quirks) for call in message.tool_calls]
    return wired


def _is_own(replay: Replay | None, origin: Origin) -> TypeGuard[Replay]:
    """Whether these are blocks that this origin made: it alone can check their signatures."""
    return replay is not None and bool(replay.blocks) and replay.wire == WIRE and replay.origin == origin


def _call(call: ToolCall, quirks: ChatQuirks) -> JsonDict:
    arguments = valid_arguments(call.arguments) if quirks.json_arguments else call.arguments
    return {
        "id": wire_call_id(call.id, quirks.call_ids),
        "type": "function",
        "function": {"name": wire_tool_name(call.name, quirks.tool_names), "arguments": arguments},
    }


def _tool_content(content: Content, quirks: ChatQuirks) -> tuple[str | list[object], list[object]]:
    """The content of a tool message, and the images that have to go elsewhere."""
    text = result_text(content)
    images = [] if isinstance(content, str) else [part for part in content if isinstance(part, ImagePart)]
    if not images:
        return (text if text.strip() else _NO_OUTPUT), []
    if "image" not in quirks.user_parts:
        note = "(an image, which this model can not see)"
        return (f"{text}\n{note}" if text.strip() else note), []
    wired = [_user_part(image) for image in images]
    if quirks.tool_content_list:
        # Some hosts fail on a result without text, so a text part stands in front.
        return [_text(text if text.strip() else "(image)"), *wired], []
    return (f"{text}\n{_IMAGE_BELOW}" if text.strip() else _IMAGE_BELOW), wired
