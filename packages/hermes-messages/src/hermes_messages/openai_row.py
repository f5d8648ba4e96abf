"""Conversations as OpenAI `messages` and `tools` for a data set, with fixed columns of fixed types.

Everything whose shape differs from row to row is a JSON string, nothing is null and there is no list of
objects that may be empty, so that a columnar reader finds one type in each column however it cuts the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

import msgspec

from hermes_messages.argument_text import JsonObject, JsonValue
from hermes_messages.errors import MessageFormatError
from hermes_messages.exchange import ToolSpec
from hermes_messages.hygiene import replace_surrogates
from hermes_messages.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_messages.openai_reading import messages_from_dicts
from hermes_messages.strangers import no_message
from hermes_messages.trajectory_text import content_with_stubs

__all__ = ["OpenAIRow", "OpenAIRowMessage", "from_openai_row", "to_openai_row", "tool_definition"]


class OpenAIRowMessage(TypedDict):
    """One message of an `OpenAIRow`. `tool_calls` is a JSON list; what a role does not have is ""."""

    role: str
    """`system`, `user`, `assistant` or `tool`."""
    content: str
    """Text; an image, a sound or a file is a line about it."""
    reasoning: str
    """The assistant's thoughts."""
    tool_calls: str
    tool_call_id: str
    """Of a tool's result: the call that it answers."""
    name: str
    """Of a tool's result: the tool; of a user: who speaks."""


class OpenAIRow(TypedDict):
    """A conversation with the same columns of the same types in every row. `tools` is a JSON list."""

    messages: list[OpenAIRowMessage]
    """The system message first, if there is one."""
    tools: str


def to_openai_row(messages: Iterable[Message], tools: Sequence[ToolSpec] = ()) -> OpenAIRow:
    """The conversation as a row. Lone surrogates become U+FFFD, media become a line of text.

    Raises `MessageFormatError` for what is no message.
    """
    listed: list[JsonValue] = [tool_definition(tool) for tool in tools]
    rows = [_openai_message(message, index) for index, message in enumerate(messages)]
    return {"messages": rows, "tools": _plain_json(listed)}


def _openai_message(message: Message, index: int) -> OpenAIRowMessage:
    if not isinstance(message, Message):
        raise no_message(message, index)
    row: OpenAIRowMessage = {
        "role": "",
        "content": replace_surrogates(content_with_stubs(message.content)),
        "reasoning": "",
        "tool_calls": "[]",
        "tool_call_id": "",
        "name": replace_surrogates(message.name or ""),
    }
    match message:
        case SystemMessage():
            row["role"] = "system"
        case UserMessage():
            row["role"] = "user"
        case AssistantMessage():
            row["role"] = "assistant"
            row["content"] = row["content"] or replace_surrogates(message.refusal or "")
            row["reasoning"] = replace_surrogates(message.reasoning or "")
            row["tool_calls"] = _plain_json([_openai_call(call) for call in message.tool_calls])
        case ToolMessage():
            row["role"] = "tool"
            row["tool_call_id"] = replace_surrogates(message.tool_call_id)
    return row


def _openai_call(call: ToolCall) -> JsonObject:
    function: JsonObject = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _plain_json(value: JsonValue) -> str:
    return replace_surrogates(json.dumps(value, ensure_ascii=False))


def from_openai_row(row: Mapping[str, JsonValue] | OpenAIRow) -> list[Message]:
    """The messages of a row. "" and an absent value are one here, and media stay lines of text.

    Raises `MessageFormatError` for what is no such row.
    """
    listed = row.get("messages")
    if not isinstance(listed, list):
        raise MessageFormatError("a row needs a list of messages", path="$.messages")
    return messages_from_dicts(_as_dict(item, index) for index, item in enumerate(listed))


def _as_dict(item: object, index: int) -> JsonObject:
    if not isinstance(item, Mapping):
        raise MessageFormatError("a message must be an object", index=index)
    found: JsonObject = {key: value for key, value in item.items() if value or key in {"role", "content"}}
    calls = found.pop("tool_calls", "[]")
    if isinstance(calls, str):
        try:
            calls = json.loads(calls)
        except ValueError as error:
            raise MessageFormatError(f"no JSON: {error}", index=index, path="$.tool_calls") from None
    if calls:
        found["tool_calls"] = calls
        found["content"] = found.get("content") or None
    return found


def tool_definition(tool: ToolSpec) -> JsonObject:
    """The tool in OpenAI shape."""
    function: JsonObject = {
        "name": tool.name,
        "description": tool.description,
        "parameters": _schema(tool),
    }
    return {"type": "function", "function": function}


def _schema(tool: ToolSpec) -> JsonValue:
    try:
        schema: JsonValue = msgspec.json.decode(tool.parameters)
    except msgspec.DecodeError:  # it reads no escaped lone surrogate, no NaN, and no number that is too large
        schema = json.loads(bytes(tool.parameters))
    return schema
