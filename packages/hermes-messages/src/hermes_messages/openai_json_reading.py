"""The reading half of `hermes_messages.openai_json`.

A list in which every message has the clean form takes one typed pass. Otherwise a second pass finds the keys
of each message, those that the typed one did not explain are its `extra`, and what is of no ordinary form
goes to the tolerant reader.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias, final

import msgspec
from msgspec import DecodeError, Meta, Raw, Struct, ValidationError
from msgspec.structs import force_setattr

from hermes_messages.argument_text import JsonObject, JsonValue
from hermes_messages.errors import MessageFormatError
from hermes_messages.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolStatus,
    UserMessage,
)
from hermes_messages.openai_quirks import Notebook, Quirk, QuirkKind
from hermes_messages.openai_reading import (
    NULL_IS_ABSENT,
    DictReader,
    ReadResult,
)

__all__ = ["messages_from_json", "read_json"]


_NULL: Final = Raw(b"null")


class _Function(Struct, forbid_unknown_fields=True, gc=False):
    name: str
    arguments: str


class _Call(Struct, gc=False):
    id: str
    function: _Function
    type: Literal["function"] = "function"


class _StrictCall(_Call, forbid_unknown_fields=True, gc=False):
    pass


if TYPE_CHECKING:
    TextOrAbsent: TypeAlias = str | None
    CallsOrAbsent: TypeAlias = list[_StrictCall] | None
    CallsAsRead: TypeAlias = list[_StrictCall] | Raw | None
else:
    # To msgspec a null is no text: None only says that the key was absent.
    TextOrAbsent = str
    CallsOrAbsent = Annotated[list[_StrictCall], Meta(min_length=1)]
    CallsAsRead = CallsOrAbsent

# The clean form: no unknown key, no null where a key should be absent.


@final
class _CleanSystem(Struct, tag_field="role", tag="system", forbid_unknown_fields=True, gc=False):
    content: str
    name: TextOrAbsent = None


@final
class _CleanUser(Struct, tag_field="role", tag="user", forbid_unknown_fields=True, gc=False):
    content: str
    name: TextOrAbsent = None


@final
class _CleanTool(Struct, tag_field="role", tag="tool", forbid_unknown_fields=True, gc=False):
    tool_call_id: str
    content: str
    name: TextOrAbsent = None
    status: ToolStatus = "ok"


@final
class _CleanAssistant(Struct, tag_field="role", tag="assistant", forbid_unknown_fields=True, gc=False):
    content: str | None
    tool_calls: CallsOrAbsent = None
    reasoning: TextOrAbsent = None
    reasoning_content: TextOrAbsent = None
    refusal: TextOrAbsent = None
    name: TextOrAbsent = None
    finish_reason: TextOrAbsent = None


class _Assistant(Struct, tag_field="role", tag="assistant", gc=False):
    """An assistant message with unknown keys, but none in its calls."""

    content: str | None = None
    tool_calls: CallsAsRead = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None
    name: str | None = None
    finish_reason: str | None = None


class _OddAssistant(_Assistant, tag_field="role", tag="assistant", gc=False):
    """The same with any calls; they stay JSON until their message is looked at."""

    tool_calls: Raw = _NULL


_Clean: TypeAlias = _CleanSystem | _CleanUser | _CleanTool | _CleanAssistant
_Typed: TypeAlias = SystemMessage | UserMessage | ToolMessage | _Assistant
_Odd: TypeAlias = SystemMessage | UserMessage | ToolMessage | _OddAssistant
_Keys: TypeAlias = dict[str, Raw]

_clean_decoder: msgspec.json.Decoder[list[_Clean]] = msgspec.json.Decoder(list[_Clean])
_typed_decoder: msgspec.json.Decoder[list[_Typed]] = msgspec.json.Decoder(list[_Typed])
_odd_decoder: msgspec.json.Decoder[list[_Odd]] = msgspec.json.Decoder(list[_Odd])
_one_odd_decoder: msgspec.json.Decoder[_Odd] = msgspec.json.Decoder(_Odd)
_keys_decoder: msgspec.json.Decoder[list[_Keys]] = msgspec.json.Decoder(list[_Keys])
_keys_decoder_of_one: msgspec.json.Decoder[_Keys] = msgspec.json.Decoder(_Keys)
_raw_list_decoder: msgspec.json.Decoder[list[Raw]] = msgspec.json.Decoder(list[Raw])
_calls_decoder: msgspec.json.Decoder[list[_Call]] = msgspec.json.Decoder(list[_Call])
_encoder: Final = msgspec.json.Encoder()


def messages_from_json(data: bytes | str) -> list[Message]:
    """The messages of a JSON list in the OpenAI chat shape. Raises as `read_json` does."""
    return list(read_json(data).messages)


def read_json(data: bytes | str) -> ReadResult:
    """`read_messages` for the JSON text of a list of messages.

    Raises `MessageFormatError` for what is no JSON list, and as `read_messages` does.
    """
    try:
        if isinstance(data, str):
            data = data.encode()
        if not data.isascii():
            data.decode()  # a skipped string is not checked by the decoders below
        return _read_clean(data) or _Pass(data).read()
    except (DecodeError, UnicodeError, RecursionError):
        return _read_loosely(data)


def _read_loosely(data: bytes | str) -> ReadResult:
    """Text that is no strict JSON (half characters, NaN), or a list that does not hold objects only."""
    try:
        listed: JsonValue = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MessageFormatError(f"this can not be read as JSON: {error}") from error
    if not isinstance(listed, list):
        raise MessageFormatError(f"a list of messages is needed, not {type(listed).__name__}")
    quirks: list[Quirk] = []
    messages = [_read_value(value, index, quirks) for index, value in enumerate(listed)]
    return ReadResult(tuple(messages), tuple(quirks))


def _read_value(value: JsonValue, index: int, quirks: list[Quirk]) -> Message:
    notes = Notebook(index, quirks)
    if not isinstance(value, dict):
        raise notes.error(f"a message must be an object, not {type(value).__name__}", "$")
    return DictReader(notes).message(value)


def _read_clean(data: bytes) -> ReadResult | None:
    """All messages, if all are of the clean form."""
    messages: list[Message] = []
    try:
        for clean in _clean_decoder.decode(data):
            if type(clean) is _CleanUser:
                messages.append(UserMessage(clean.content, clean.name))
            elif type(clean) is _CleanTool:
                result = ToolMessage(clean.tool_call_id, clean.content, clean.name, clean.status)
                messages.append(result)
            elif type(clean) is _CleanSystem:
                messages.append(SystemMessage(clean.content, clean.name))
            elif (message := _clean_assistant(clean)) is not None:
                messages.append(message)
            else:
                return None
    except ValidationError:
        return None
    return ReadResult(tuple(messages))


def _clean_assistant(clean: _CleanAssistant) -> AssistantMessage | None:
    """The message; None when it holds a quirk after all."""
    reasoning = clean.reasoning
    calls: tuple[ToolCall, ...] = ()
    if clean.reasoning_content is not None:
        if reasoning is not None:
            return None
        reasoning = clean.reasoning_content
    if clean.tool_calls is not None:
        calls = _from_strict(clean.tool_calls)
    elif clean.content is None:
        return None
    return AssistantMessage(
        clean.content, calls, reasoning, None, clean.refusal, clean.name, clean.finish_reason
    )


def _from_strict(calls: list[_StrictCall]) -> tuple[ToolCall, ...]:
    return tuple([ToolCall(call.id, call.function.name, call.function.arguments) for call in calls])


class _Pass:
    """One reading of strict JSON whose items are all objects.

    The methods for one message take away from `keys` what they have read, so that the unknown ones are left.
    They return None, with nothing taken away, for what is left to the tolerant reader.
    """

    __slots__ = ("_data", "_extras", "_owners", "_quirks")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._quirks: list[Quirk] = []
        self._owners: list[Message | ToolCall] = []
        self._extras: list[_Keys] = []

    def read(self) -> ReadResult:
        messages: list[Message] = []
        keys_of_all = _keys_decoder.decode(self._data)
        owners, extras = self._owners, self._extras
        message: Message | None
        for typed, keys in zip(self._typed(), keys_of_all, strict=True):
            message = None
            if type(typed) is _Assistant or type(typed) is _OddAssistant:
                message = self._assistant(typed, keys, len(messages))
            elif typed is not None and type(typed.content) is str:
                message = typed  # type: ignore[assignment] # the type checker does not rule _Assistant out
                del keys["role"], keys["content"]
                if typed.name is not None:
                    del keys["name"]
                if type(typed) is ToolMessage:
                    del keys["tool_call_id"]
                    keys.pop("status", None)
                if keys:
                    owners.append(message)  # type: ignore[arg-type] # nor None here
                    extras.append(keys)
            messages.append(self._tolerantly(keys, len(messages)) if message is None else message)
        self._set_extras(messages)
        return ReadResult(tuple(messages), tuple(self._quirks))

    def _typed(self) -> Sequence[_Typed | None]:
        """Each message as its type, None for those that are not of the ordinary form."""
        try:
            return _typed_decoder.decode(self._data)
        except ValidationError:
            pass
        try:
            return _odd_decoder.decode(self._data)
        except ValidationError:
            return [_odd_or_none(raw) for raw in _raw_list_decoder.decode(self._data)]

    def _tolerantly(self, keys: _Keys, index: int) -> Message:
        value: JsonObject = {key: _value(raw) for key, raw in keys.items()}
        message = DictReader(Notebook(index, self._quirks)).message(value)
        if message.extra is not None:  # the same keys, as they were spelt
            spelt = {key: keys[key] for key in _keys_decoder_of_one.decode(message.extra)}
            force_setattr(message, "extra", Raw(_encoder.encode(spelt)))
        return message

    def _assistant(self, typed: _Assistant, keys: _Keys, index: int) -> AssistantMessage | None:
        reasoning, second, content = typed.reasoning, typed.reasoning_content, typed.content
        if (reasoning is not None and second is not None) or "usage" in keys or "replay" in keys:
            return None
        del keys["role"]
        calls: tuple[ToolCall, ...] = ()
        if type(typed.tool_calls) is list:
            calls = _from_strict(typed.tool_calls)
            del keys["tool_calls"]
        elif typed.tool_calls is not None and typed.tool_calls != _NULL and "tool_calls" in keys:
            calls = self._calls(keys.pop("tool_calls"), index)
        if content is None and not calls:
            kind = QuirkKind.NULL_CONTENT if "content" in keys else QuirkKind.MISSING_CONTENT
            self._quirks.append(Quirk(kind, index, "$.content"))
        keys.pop("content", None)
        if reasoning is not None:
            del keys["reasoning"]
        elif second is not None:
            del keys["reasoning_content"]
            reasoning = second
        refusal, name, finish_reason = typed.refusal, typed.name, typed.finish_reason
        if refusal is not None:
            del keys["refusal"]
        if name is not None:
            del keys["name"]
        if finish_reason is not None:
            del keys["finish_reason"]
        message = AssistantMessage(content, calls, reasoning, None, refusal, name, finish_reason)
        if keys:
            self._owners.append(message)
            self._extras.append(keys)
        return message

    def _calls(self, raw: Raw, index: int) -> tuple[ToolCall, ...]:
        try:
            calls = _calls_decoder.decode(raw)
            if calls:  # an empty list is a quirk
                return tuple(map(self._call, calls, _keys_decoder.decode(raw)))
        except ValidationError:
            pass
        return DictReader(Notebook(index, self._quirks)).calls(_value(raw))

    def _call(self, typed: _Call, keys: _Keys) -> ToolCall:
        del keys["id"], keys["function"]
        keys.pop("type", None)
        call = ToolCall(typed.id, typed.function.name, typed.function.arguments)
        if keys:
            self._owners.append(call)
            self._extras.append(keys)
        return call

    def _set_extras(self, messages: list[Message]) -> None:
        """Write all `extra` at once, which is much faster; nobody else has seen their owners yet."""
        data = _encoder.encode(self._extras)
        if b":null" in data:
            self._take_nulls(messages)
            data = _encoder.encode(self._extras)
        extras = _raw_list_decoder.decode(data)
        for owner, keys, extra in zip(self._owners, self._extras, extras, strict=True):
            force_setattr(owner, "extra", extra if keys else None)

    def _take_nulls(self, messages: list[Message]) -> None:
        """Drop the nulls that `DictReader` takes for absent keys, and note them as it does."""
        places = {id(message): index for index, message in enumerate(messages)}
        for owner, keys in zip(self._owners, self._extras, strict=True):
            if type(owner) is not ToolCall and _NULL in keys.values():
                for key in [key for key, raw in keys.items() if raw == _NULL and key in NULL_IS_ABSENT]:
                    del keys[key]
                    self._quirks.append(Quirk(QuirkKind.NULL_KEY, places[id(owner)], f"$.{key}"))
        self._quirks.sort(key=lambda quirk: quirk.index)


def _odd_or_none(raw: Raw) -> _Odd | None:
    try:
        return _one_odd_decoder.decode(raw)
    except ValidationError:
        return None


def _value(raw: Raw) -> JsonValue:
    """The value of checked JSON text; numbers that only Python's own parser takes are left to it."""
    try:
        value: JsonValue = msgspec.json.decode(raw)
    except ValidationError:
        value = json.loads(bytes(raw))
    return value
