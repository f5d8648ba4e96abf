"""Messages to the Responses wire: one segment of a history to input items as JSON bytes.

Nothing is changed in the messages: what the host needs to be different is different in the request copy only.
Wire facts: "Create a response" (developers.openai.com/api/reference/resources/responses/methods/create),
`input`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hermes_messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
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
from hermes_providers.profiles import CallIdRule
from hermes_providers.streaming.json_bytes import dump
from hermes_providers.wire.call_ids import wire_call_id
from hermes_providers.wire.openai_responses_quirks import ResponsesQuirks
from hermes_providers.wire.openai_responses_replay import own_items
from hermes_providers.wire.result_text import result_text
from hermes_providers.wire.tool_names import wire_tool_name
from hermes_providers.wire.valid_arguments import valid_arguments

__all__ = ["encode_segment", "text_message"]

_SYSTEM_SEGMENT = b"\x00"
"""Stands for a system message, which has a place of its own in the body. No JSON text holds this byte."""

JsonDict = dict[str, object]

_ANY_ID = CallIdRule()
_NO_OUTPUT = "(no output)"
_NO_TEXT = "(empty message)"
_IMAGE_BELOW = "(image: see the next user message)"


def encode_segment(
    messages: Sequence[Message], quirks: ResponsesQuirks, origin: Origin, renamed: Mapping[int, str]
) -> bytes:
    """One segment as JSON objects joined by commas; b"" when nothing of it is to be sent.

    `origin` is where the request goes: reasoning of another origin is left out. `renamed` has, for assistant
    messages (by identity) whose call ids repeat earlier ones, what makes them differ: a result is found by
    its id alone here.
    """
    first = messages[0]
    match first:
        case SystemMessage():
            return _SYSTEM_SEGMENT
        case UserMessage():
            items = _user_turn([m for m in messages if isinstance(m, UserMessage)])
        case AssistantMessage() | ToolMessage():
            items = _round(messages, quirks, origin, renamed)
    return b",".join(map(dump, items))


def text_message(role: str, content: object) -> JsonDict:
    """A message item. Its type may be left out at OpenAI; other hosts tell items apart by it."""
    return {"type": "message", "role": role, "content": content}


def _user_turn(messages: Sequence[UserMessage]) -> list[object]:
    contents = [content for message in messages if (content := _user_content(message.content))]
    return [text_message("user", content) for content in contents or [_NO_TEXT]]


def _user_content(content: Content) -> str | list[object]:
    """A plain string when all parts are text, a list only where something else requires it."""
    if isinstance(content, str) or all(isinstance(part, TextPart) for part in content):
        text = content_text(content)
        return text if text.strip() else ""
    return [wired for wired in map(_input_part, content) if wired is not None]


def _input_part(part: Part) -> object | None:
    match part:
        case TextPart():
            return _text(part.text) if part.text.strip() else None
        case ImagePart():
            return {"type": "input_image", "image_url": part.url, "detail": part.detail or "auto"}
        case FilePart():
            file = {"file_id": part.file_id, "filename": part.filename, "file_data": part.data}
            return {"type": "input_file"} | {name: said for name, said in file.items() if said is not None}
        case AudioPart():
            return _text("(a sound, which this model can not hear)")
        case OpaquePart():
            return part.raw  # a host's own kind of part, which the user wrote for that host


def _text(text: str) -> JsonDict:
    return {"type": "input_text", "text": text}


def _round(
    messages: Sequence[Message], quirks: ResponsesQuirks, origin: Origin, renamed: Mapping[int, str]
) -> list[object]:
    """An assistant message and its results; images that no result may hold follow at the end."""
    items: list[object] = []
    images: list[object] = []
    ids, ending = quirks.call_ids, ""
    for message in messages:
        match message:
            case AssistantMessage() if not is_blank(message):
                own = own_items(message, quirks, origin)
                # The host's own calls go back with its own ids, and so do their results.
                if own is not None:
                    ids = _ANY_ID
                else:
                    ending = renamed.get(id(message), "")
                items += _rebuilt(message, quirks, ids, ending) if own is None else own
            case ToolMessage():
                output, moved = _output(message.content, quirks)
                call_id = wire_call_id(message.tool_call_id + ending, ids)
                items.append({"type": "function_call_output", "call_id": call_id, "output": output})
                images += moved
            case _:
                pass
    if images:
        items.append(text_message("user", [_text("Images from the tool results above:"), *images]))
    return items


def _rebuilt(
    message: AssistantMessage, quirks: ResponsesQuirks, ids: CallIdRule, ending: str
) -> list[object]:
    """The message from its own fields, without reasoning and without the host's ids of items."""
    items: list[object] = []
    text = content_text(message.content)
    if not text.strip():
        text = message.refusal or ""
    if text.strip() or not message.tool_calls:
        items.append(text_message("assistant", text if text.strip() else _NO_TEXT))
    items += [
        {
            "type": "function_call",
            "call_id": wire_call_id(call.id + ending, ids),
            "name": wire_tool_name(call.name, quirks.tool_names),
            "arguments": valid_arguments(call.arguments),
        }
        for call in message.tool_calls
    ]
    return items


def _output(content: Content, quirks: ResponsesQuirks) -> tuple[str | list[object], list[object]]:
    """The output of a call, and the images that have to go elsewhere."""
    text = result_text(content)
    images = [] if isinstance(content, str) else [part for part in content if isinstance(part, ImagePart)]
    if not images:
        return (text if text.strip() else _NO_OUTPUT), []
    wired = [_input_part(image) for image in images]
    if quirks.tool_images:
        # Some hosts fail on a result without text, so a text part stands in front.
        return [_text(text if text.strip() else "(image)"), *wired], []
    return (f"{text}\n{_IMAGE_BELOW}" if text.strip() else _IMAGE_BELOW), wired
