"""The reading half of `hermes_messages.openai_json`.

A list in which every message has the clean form takes one typed pass. Otherwise a second pass finds the keys
of each message, those that the typed one did not explain are its `extra`, and what is of no ordinary form
goes to the tolerant reader.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from itertools import chain, repeat
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
    CallsAsRead: TypeAlias = list[_StrictCall] | list[_Call] | Raw | None
else:
    # To msgspec a null is no text: None only says that the key was absent.
    TextOrAbsent = str
    CallsOrAbsent = Annotated[list[_StrictCall], Meta(min_length=1)]
    CallsAsRead = CallsOrAbsent
LaxCallsOrAbsent = Annotated[list[_Call], Meta(min_length=1)]

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


class _LaxAssistant(_Assistant, tag_field="role", tag="assistant", gc=False):
    """The same with unknown keys in its calls too, but none in their functions."""

    tool_calls: LaxCallsOrAbsent = None  # type: ignore[assignment] # as above


class _OddAssistant(_Assistant, tag_field="role", tag="assistant", gc=False):
    """The same with any calls; they stay JSON until their message is looked at."""

    tool_calls: Raw = _NULL


_Clean: TypeAlias = _CleanSystem | _CleanUser | _CleanTool | _CleanAssistant
_Typed: TypeAlias = SystemMessage | UserMessage | ToolMessage | _Assistant
_Lax: TypeAlias = SystemMessage | UserMessage | ToolMessage | _LaxAssistant
_Odd: TypeAlias = SystemMessage | UserMessage | ToolMessage | _OddAssistant
_Keys: TypeAlias = dict[str, Raw]

_clean_decoder: msgspec.json.Decoder[list[_Clean]] = msgspec.json.Decoder(list[_Clean])
_typed_decoder: msgspec.json.Decoder[list[_Typed]] = msgspec.json.Decoder(list[_Typed])
_lax_decoder: msgspec.json.Decoder[list[_Lax]] = msgspec.json.Decoder(list[_Lax])
_odd_decoder: msgspec.json.Decoder[list[_Odd]] = msgspec.json.Decoder(list[_Odd])
_one_odd_decoder: msgspec.json.Decoder[_Odd] = msgspec.json.Decoder(_Odd)
_keys_decoder: msgspec.json.Decoder[list[_Keys]] = msgspec.json.Decoder(list[_Keys])
_keys_decoder_of_one: msgspec.json.Decoder[_Keys] = msgspec.json.Decoder(_Keys)
_keys_of_calls_decoder: msgspec.json.Decoder[list[list[_Keys]]] = msgspec.json.Decoder(list[list[_Keys]])
_raw_list_decoder: msgspec.json.Decoder[list[Raw]] = msgspec.json.Decoder(list[Raw])
_calls_decoder: msgspec.json.Decoder[list[_Call]] = msgspec.json.Decoder(list[_Call])
_encoder: Final = msgspec.json.Encoder()


def messages_from_json(data: bytes | str) -> list[Message]:
    """The messages of a JSON list in the OpenAI chat shape. Raises as `read_json` does."""
    return list(read_json(data).messages)


def read_json(data: bytes | str) -> ReadResult:
    """`read_dicts` for the JSON text of a list of messages.

    Raises `MessageFormatError` for what is no JSON list, and as `read_dicts` does.
    """
    try:
        data = data.encode() if isinstance(data, str) else bytes(data)  # no buffer that may change later
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
        calls = _from_typed(clean.tool_calls)
    elif clean.content is None:
        return None
    return AssistantMessage(
        clean.content, calls, reasoning, None, clean.refusal, clean.name, clean.finish_reason
    )


def _from_typed(calls: Sequence[_Call]) -> tuple[ToolCall, ...]:
    return tuple([ToolCall(call.id, call.function.name, call.function.arguments) for call in calls])


class _Pass:
    """One reading of strict JSON whose items are all objects.

    The methods for one message take away from `keys` what they have read, so that the unknown ones are left.
    They return None, with nothing taken away, for what is left to the tolerant reader. Their time decides
    what a message costs; that is why they test before they take away, and look up nothing twice.
    """

    __slots__ = ("_calls", "_calls_json", "_data", "_extras", "_owners", "_quirks")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._quirks: list[Quirk] = []
        self._owners: list[Message | ToolCall] = []
        self._extras: list[_Keys] = []
        self._calls: list[tuple[ToolCall, ...]] = []
        self._calls_json: list[Raw] = []

    def read(self) -> ReadResult:
        messages: list[Message] = []
        keys_of_all = _keys_decoder.decode(self._data)
        owners, extras, assistant = self._owners, self._extras, self._assistant
        message: Message | None
        for typed, keys in zip(self._typed(), keys_of_all, strict=True):
            if isinstance(typed, _Assistant):
                message = assistant(typed, keys, len(messages))
            elif typed is not None and type(typed.content) is str:
                message = typed
                del keys["role"], keys["content"]
                if message.name is not None:
                    del keys["name"]
                if type(message) is ToolMessage:
                    del keys["tool_call_id"]
                    if "status" in keys:
                        del keys["status"]
            else:
                message = None
            if message is None:
                messages.append(self._tolerantly(keys, len(messages)))
                continue
            messages.append(message)
            if keys:
                owners.append(message)
                extras.append(keys)
        self._take_call_keys()
        self._set_extras(messages)
        return ReadResult(tuple(messages), tuple(self._quirks))

    def _typed(self) -> Sequence[_Typed | None]:
        """Each message as its type, None for those that are not of the ordinary form."""
        for decoder in (_typed_decoder, _lax_decoder, _odd_decoder):
            try:
                return decoder.decode(self._data)
            except ValidationError:
                continue
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
        if typed.tool_calls is not None:
            calls = self._calls_of(typed.tool_calls, keys, index)
        if content is not None:
            del keys["content"]
        elif "content" in keys:
            del keys["content"]
            if not calls:
                self._quirks.append(Quirk(QuirkKind.NULL_CONTENT, index, "$.content"))
        elif not calls:
            self._quirks.append(Quirk(QuirkKind.MISSING_CONTENT, index, "$.content"))
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
        return AssistantMessage(content, calls, reasoning, None, refusal, name, finish_reason)

    def _calls_of(
        self, typed: Sequence[_StrictCall] | Sequence[_Call] | Raw, keys: _Keys, index: int
    ) -> tuple[ToolCall, ...]:
        """The calls of a message, whose key is taken away if there are some."""
        if type(typed) is list:
            raw = keys.pop("tool_calls")
            calls = _from_typed(typed)
            if type(typed[0]) is _StrictCall:
                return calls
        elif typed == _NULL or "tool_calls" not in keys:
            return ()
        else:
            raw = keys.pop("tool_calls")
            try:
                calls = _from_typed(_calls_decoder.decode(raw))
            except ValidationError:
                calls = ()
            if not calls:  # an empty list is a quirk
                return DictReader(Notebook(index, self._quirks)).calls(_value(raw))
        self._calls.append(calls)
        self._calls_json.append(raw)
        return calls

    def _take_call_keys(self) -> None:
        """The unknown keys of all calls that may have some, found in one go."""
        if not self._calls:
            return
        keys_of_all = _keys_of_calls_decoder.decode(_encoder.encode(self._calls_json))
        owners, extras = self._owners, self._extras
        for call, keys in zip(chain(*self._calls), chain(*keys_of_all), strict=True):
            del keys["id"], keys["function"]
            if "type" in keys:
                del keys["type"]
            if keys:
                owners.append(call)
                extras.append(keys)

    def _set_extras(self, messages: list[Message]) -> None:
        """Write all `extra` at once, which is much faster; nobody else has seen their owners yet."""
        data = _encoder.encode(self._extras)
        if b":null" in data:
            self._take_nulls(messages)
            data = _encoder.encode(self._extras)
        values: list[Raw | None] = [*_raw_list_decoder.decode(data)]
        if not all(self._extras):  # nothing but nulls
            values = [raw if keys else None for raw, keys in zip(values, self._extras, strict=True)]
        deque(map(force_setattr, self._owners, repeat("extra"), values), maxlen=0)

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
