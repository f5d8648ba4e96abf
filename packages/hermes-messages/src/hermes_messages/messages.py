"""The four message roles as frozen structs, and the tool call.

>>> from hermes_messages import AssistantMessage, ToolCall
>>> call = ToolCall(id="call_1", name="read_file", arguments='{"path": "notes.txt"}')
>>> AssistantMessage(tool_calls=(call,)).tool_calls[0].parse_arguments()
{'path': 'notes.txt'}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, get_args

import msgspec
from msgspec import Struct

from hermes_messages.argument_text import JsonObject, parse_arguments
from hermes_messages.errors import MessageFormatError
from hermes_messages.parts import Content, Extra, Replay
from hermes_messages.strangers import check_kinds
from hermes_messages.usage import Usage

__all__ = [
    "AssistantMessage",
    "Message",
    "SystemMessage",
    "ToolCall",
    "ToolMessage",
    "ToolStatus",
    "UserMessage",
    "decode_message",
    "decode_messages",
    "encode_message",
    "encode_messages",
]

ToolStatus = Literal["ok", "error", "denied", "timed_out", "interrupted", "not_started", "unknown"]
"""How a tool call ended. `interrupted`: it ran and was stopped; `not_started`: it never ran;
`unknown`: it may have run, the process died before its end was recorded."""


class ToolCall(Struct, frozen=True, gc=False, omit_defaults=True):
    """One call that the model asks for. `arguments` is the model's own text, byte for byte."""

    id: str
    """What the result answers to; unique within its round."""
    name: str
    """The tool's, as the model wrote it: there may be no such tool."""
    arguments: str
    extra: Extra = None
    """Keys that have no field here, as JSON bytes, kept for the way back; None: there were none."""

    def parse_arguments(self) -> JsonObject:
        """The arguments as a dict. Raises `ArgumentsError` with the position when they are no JSON object."""
        return parse_arguments(self.arguments)


class SystemMessage(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="role", tag="system"):
    """Instructions. At most one in a transcript, first."""

    content: Content
    """Text, or parts of it."""
    name: str | None = None
    """Of the one who speaks; only some hosts take it."""
    extra: Extra = None
    """Keys that have no field here, as JSON bytes, kept for the way back; None: there were none."""


class UserMessage(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="role", tag="user"):
    """What the user, or a program on the user's behalf, says."""

    content: Content
    """Text, or parts: text, images, sound, files."""
    name: str | None = None
    """Of the one who speaks; only some hosts take it."""
    extra: Extra = None
    """Keys that have no field here, as JSON bytes, kept for the way back; None: there were none."""


class AssistantMessage(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="role", tag="assistant"):
    """What the model said: visible content, calls, and apart from them its reasoning.

    `content` None and "" are different, and so are `reasoning` None (none was given) and "" (an empty one
    was given: some hosts want exactly that back). `replay` is the provider's opaque data.
    `finish_reason` is the host's own word.
    """

    content: Content | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    """In the order of the model; empty: none, and this message is an answer."""
    reasoning: str | None = None
    replay: Replay | None = None
    refusal: str | None = None
    """The model's own words for not answering, where the host sends them apart."""
    name: str | None = None
    """Of the one who speaks; only some hosts take it."""
    finish_reason: str | None = None
    usage: Usage | None = None
    """What the request for it cost; None: unknown, or no request was made for it."""
    extra: Extra = None
    """Keys that have no field here, as JSON bytes, kept for the way back; None: there were none."""


class ToolMessage(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="role", tag="tool"):
    """The result of the call `tool_call_id` of the latest assistant message."""

    tool_call_id: str
    content: Content
    """What the model reads; also where the call failed."""
    name: str | None = None
    """The tool's; messages that were read may lack it."""
    status: ToolStatus = "ok"
    """How the call ended; what a host or a file says nothing of is `ok`."""
    extra: Extra = None
    """Keys that have no field here, as JSON bytes, kept for the way back; None: there were none."""


Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage
"""A message of any role; the field `role` in JSON tells which."""

MESSAGE_KINDS: Final = frozenset(get_args(Message))
_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)
_list_decoder: msgspec.json.Decoder[list[Message]] = msgspec.json.Decoder(list[Message])


def encode_message(message: Message) -> bytes:
    """The message as JSON in the library's own lossless shape (that of the structs).

    Raises `MessageFormatError` for text with a lone surrogate, which no JSON file can hold
    (`hermes_messages.hygiene.clean_text` replaces these), and for what is no message: a dict is read with
    `messages_from_dicts` before.
    """
    if type(message) not in MESSAGE_KINDS:
        check_kinds((message,), MESSAGE_KINDS)
    return _encode(message)


def encode_messages(messages: Sequence[Message]) -> bytes:
    """Many messages as one JSON array of the same shape. Raises as `encode_message` does."""
    several = messages if isinstance(messages, list | tuple) else list(messages)
    check_kinds(several, MESSAGE_KINDS)
    return _encode(several)


def decode_message(data: bytes | str) -> Message:
    """The inverse of `encode_message`; keys that the structs do not have are passed over.

    Raises `MessageFormatError` on anything else.
    """
    try:
        return _decoder.decode(_checked(data))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise MessageFormatError(str(error)) from error


def decode_messages(data: bytes | str) -> list[Message]:
    """The inverse of `encode_messages`. Reads and raises as `decode_message` does."""
    try:
        return _list_decoder.decode(_checked(data))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise MessageFormatError(str(error)) from error


def _checked(data: bytes | str) -> bytes | str:
    """`data` as nobody can change it, for `extra` and replay blocks are slices of it, and all of it UTF-8."""
    if isinstance(data, str):
        return data
    data = bytes(data)  # the same object, unless it is a buffer that can be written to
    if not data.isascii():
        data.decode()  # the decoder looks at no text inside of these slices
    return data


def _encode(value: Message | list[Message] | tuple[Message, ...]) -> bytes:
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError as error:
        raise MessageFormatError(f"text that can not be written as UTF-8: {error.reason}") from error
