"""The OpenAI chat shape straight from and to JSON text, for long conversations and data sets.

>>> from hermes_messages.openai_json import messages_from_json, to_json
>>> messages = messages_from_json(b'[{"role": "user", "content": "hi", "x_trace": 1.50}]')
>>> to_json(messages)
b'[{"role":"user","content":"hi","x_trace":1.50}]'

The results are those of `read_dicts(json.loads(data))` and of `to_dicts`, quirks included, at a multiple
of the speed. One thing is kept better: a message's unknown keys stay as they were spelt (`1.50`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType

from hermes_messages.errors import MessageFormatError
from hermes_messages.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from hermes_messages.openai_json_reading import messages_from_json, read_json
from hermes_messages.openai_shape import message_to_dict

__all__ = ["messages_from_json", "read_json", "to_json"]

_extra_decoder: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])
_encoder: Final = msgspec.json.Encoder()


class _FunctionOut(Struct, gc=False):
    name: str
    arguments: str


class _CallOut(Struct, gc=False):
    id: str
    function: _FunctionOut
    type: str = "function"


class _AssistantOut(Struct, gc=False, omit_defaults=True, tag_field="role", tag="assistant"):
    content: str | UnsetType | None = UNSET  # with this default a None is written
    reasoning: str | None = None
    tool_calls: list[_CallOut | dict[str, object]] | None = None
    refusal: str | None = None
    name: str | None = None


_PLAIN_KINDS: Final = frozenset({SystemMessage, UserMessage, ToolMessage})
_CALL_KEYS: Final = frozenset({"id", "type", "function"})


def to_json(messages: Iterable[Message], *, full: bool = False) -> bytes:
    """`to_dicts` as JSON text, in UTF-8, without spaces. Unknown keys are written as they were spelt.

    Raises as `to_dicts` does, and `MessageFormatError` for text with a lone surrogate.
    """
    items: list[object] = []
    for index, message in enumerate(messages):
        try:
            item = _assistant_out(message, full) if type(message) is AssistantMessage else _plain_out(message)
        except (DecodeError, UnicodeError):  # an extra that is no JSON object; the slow way tells which
            item = None
        items.append(message_to_dict(message, index, full=full) if item is None else item)
    try:
        data = _encoder.encode(items)
        if not data.isascii():
            data.decode()  # the bytes of an extra are written as they are
    except UnicodeError as error:
        raise MessageFormatError(f"text that can not be written as UTF-8: {error}") from error
    return data


def _plain_out(message: Message) -> object | None:
    """What is encoded to the message in the OpenAI shape; None for all but the ordinary forms."""
    if type(message) not in _PLAIN_KINDS or type(content := message.content) is not str:
        return None  # a subclass may have more fields
    if type(message) is ToolMessage and message.status != "ok":
        return None
    if message.extra is None:
        return message
    others = _extra_decoder.decode(message.extra)
    if type(message) is UserMessage:
        item: dict[str, object] = {"role": "user", "content": content, **others}
        known = 2
    elif type(message) is ToolMessage:
        item = {"role": "tool", "tool_call_id": message.tool_call_id, "content": content, **others}
        known = 3
    else:
        item = {"role": "system", "content": content, **others}
        known = 2
    if message.name is not None:
        item["name"] = message.name
        known += 1
    return item if len(item) == known + len(others) else None  # known keys win over those of `extra`


def _assistant_out(message: AssistantMessage, full: bool) -> object | None:
    """The same for an assistant message."""
    content = message.content
    if not (content is None or type(content) is str):
        return None
    if full and not (message.finish_reason is None and message.usage is None and message.replay is None):
        return None
    calls: list[_CallOut | dict[str, object]] | None = None
    if message.tool_calls:
        calls = []
        for call in message.tool_calls:
            function = _FunctionOut(call.name, call.arguments)
            if call.extra is None:
                calls.append(_CallOut(call.id, function))
                continue
            others = _extra_decoder.decode(call.extra)
            if not _CALL_KEYS.isdisjoint(others):
                return None
            calls.append({"id": call.id, "type": "function", "function": function, **others})
    if message.extra is None:
        return _AssistantOut(content, message.reasoning, calls, message.refusal, message.name)
    others = _extra_decoder.decode(message.extra)
    item: dict[str, object] = {"role": "assistant", "content": content, **others}
    known = 2
    if message.reasoning is not None:
        item["reasoning"] = message.reasoning
        known += 1
    if calls is not None:
        item["tool_calls"] = calls
        known += 1
    if message.refusal is not None:
        item["refusal"] = message.refusal
        known += 1
    if message.name is not None:
        item["name"] = message.name
        known += 1
    return item if len(item) == known + len(others) else None
