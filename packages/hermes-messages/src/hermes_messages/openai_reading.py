"""The tolerant half of `hermes_messages.openai_shape`: plain dicts in, strict messages and quirks out.

Wire facts: the message, part and call objects of OpenAI's chat-completions API; `reasoning_content`
(DeepSeek, vLLM, llama.cpp) and `reasoning` (OpenRouter) are two names of one thing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final, TypeGuard, get_args

import msgspec
from msgspec import Raw, Struct

from hermes_messages.argument_text import JsonValue
from hermes_messages.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolStatus,
    UserMessage,
)
from hermes_messages.openai_parts import read_part
from hermes_messages.openai_quirks import Notebook, Quirk, QuirkKind
from hermes_messages.parts import (
    Content,
    Origin,
    Replay,
)
from hermes_messages.usage import Usage

__all__ = [
    "NULL_IS_ABSENT",
    "DictReader",
    "ReadResult",
    "messages_from_dicts",
    "read_dicts",
]


class ReadResult(Struct, frozen=True):
    """The messages read, and what had to be overlooked to read them."""

    messages: tuple[Message, ...]
    """One for each dict, in its order."""
    quirks: tuple[Quirk, ...] = ()
    """Empty: the dicts were as the shape wants them."""


def read_dicts(dicts: Iterable[Mapping[str, JsonValue]]) -> ReadResult:
    """Read OpenAI chat dicts. Unknown keys go into `extra`, unknown parts become `OpaquePart`.

    The dicts are not changed and not kept. Raises `MessageFormatError` with index and path for what is no
    chat message: not a mapping, no known role, content of a foreign kind.
    """
    quirks: list[Quirk] = []
    messages = [DictReader(Notebook(index, quirks)).message(item) for index, item in enumerate(dicts)]
    return ReadResult(tuple(messages), tuple(quirks))


def messages_from_dicts(dicts: Iterable[Mapping[str, JsonValue]]) -> list[Message]:
    """`read_dicts` for callers that do not ask about quirks."""
    return list(read_dicts(dicts).messages)


_STATUSES: Final = frozenset(get_args(ToolStatus))
_USAGE_KEYS: Final = frozenset(Usage.__struct_fields__)
_ASSISTANT_KEYS: Final = frozenset(
    {
        "role",
        "content",
        "tool_calls",
        "reasoning",
        "reasoning_content",
        "replay",
        "refusal",
        "name",
        "finish_reason",
        "usage",
    }
)
_TOOL_KEYS: Final = frozenset({"role", "content", "tool_call_id", "name", "status"})
_PLAIN_KEYS: Final = frozenset({"role", "content", "name"})
NULL_IS_ABSENT: Final = _ASSISTANT_KEYS | _TOOL_KEYS | {"function_call", "audio"}


def _is_list(value: object) -> TypeGuard[list[JsonValue] | tuple[JsonValue, ...]]:
    return isinstance(value, list | tuple)


def _is_status(value: JsonValue) -> TypeGuard[ToolStatus]:
    return isinstance(value, str) and value in _STATUSES


class DictReader:
    """Reads one message. Every method takes the path of what it reads, for quirks and errors."""

    __slots__ = ("_notes",)

    def __init__(self, notes: Notebook) -> None:
        self._notes = notes

    def message(self, item: Mapping[str, JsonValue]) -> Message:
        """The message in `item`. Raises `MessageFormatError`."""
        if not isinstance(item, Mapping):
            raise self._notes.error(f"a message must be an object, not {type(item).__name__}", "$")
        match item.get("role"):
            case "user":
                content = self._required_content(item, "user")
                return UserMessage(content, self._text_key(item, "name"), self._extra(item, _PLAIN_KEYS))
            case "assistant":
                return self._assistant(item)
            case "tool":
                return self._tool(item)
            case "system" | "developer" as role:
                if role == "developer":
                    self._notes.note(QuirkKind.DEVELOPER_ROLE, "$.role")
                content = self._required_content(item, role)
                return SystemMessage(content, self._text_key(item, "name"), self._extra(item, _PLAIN_KEYS))
            case role:
                known = "system, developer, user, assistant, tool"
                raise self._notes.error(f"unknown role {role!r} (known: {known})", "$.role")

    def _assistant(self, item: Mapping[str, JsonValue]) -> AssistantMessage:
        kept: dict[str, JsonValue] = {}
        calls = self.calls(item.get("tool_calls"))
        content: Content | None = None
        if item.get("content") is not None:
            content = self._content(item["content"], "assistant")
        elif not calls:
            self._notes.note(
                QuirkKind.NULL_CONTENT if "content" in item else QuirkKind.MISSING_CONTENT, "$.content"
            )
        reasoning = self._reasoning(item, kept)
        return AssistantMessage(
            content=content,
            tool_calls=calls,
            reasoning=reasoning,
            replay=self._replay(item, kept),
            refusal=self._text_key(item, "refusal", kept),
            name=self._text_key(item, "name", kept),
            finish_reason=self._text_key(item, "finish_reason", kept),
            usage=self._usage(item, kept),
            extra=self._extra(item, _ASSISTANT_KEYS, kept),
        )

    def _tool(self, item: Mapping[str, JsonValue]) -> ToolMessage:
        kept: dict[str, JsonValue] = {}
        status: ToolStatus = "ok"
        given = item.get("status")
        if _is_status(given):
            status = given
        elif given is not None:
            self._keep("status", given, kept)
        return ToolMessage(
            tool_call_id=self._id(item.get("tool_call_id"), "$.tool_call_id"),
            content=self._required_content(item, "tool"),
            name=self._text_key(item, "name", kept),
            status=status,
            extra=self._extra(item, _TOOL_KEYS, kept),
        )

    # content and parts

    def _required_content(self, item: Mapping[str, JsonValue], role: str) -> Content:
        value = item.get("content")
        if value is None:
            kind = QuirkKind.NULL_CONTENT if "content" in item else QuirkKind.MISSING_CONTENT
            self._notes.note(kind, "$.content")
            return ""
        return self._content(value, role)

    def _content(self, value: JsonValue, role: str) -> Content:
        if isinstance(value, str):
            return self._notes.clean(value, "$.content")
        if _is_list(value):
            if role != "user":
                self._notes.note(QuirkKind.LIST_CONTENT, "$.content")
            parts = (read_part(self._notes, part, f"$.content[{place}]") for place, part in enumerate(value))
            return tuple(part for part in parts if part is not None)
        if isinstance(value, Mapping) and isinstance(value.get("type"), str) and role != "tool":
            self._notes.note(QuirkKind.BARE_PART, "$.content")
            part = read_part(self._notes, value, "$.content")
            return () if part is None else (part,)
        if role == "tool":
            self._notes.note(QuirkKind.DATA_CONTENT, "$.content")
            return self._notes.encoded(value, "$.content").decode()
        raise self._notes.error(
            f"content must be text or a list of parts, not {type(value).__name__}", "$.content"
        )

    # tool calls

    def calls(self, value: JsonValue) -> tuple[ToolCall, ...]:
        """The calls in `value`, that of the key `tool_calls`. Raises `MessageFormatError`."""
        if value is None:
            return ()
        if not _is_list(value):
            raise self._notes.error(f"tool_calls must be a list, not {type(value).__name__}", "$.tool_calls")
        if not value:
            self._notes.note(QuirkKind.EMPTY_CALL_LIST, "$.tool_calls")
            return ()
        return tuple(self._call(call, f"$.tool_calls[{place}]") for place, call in enumerate(value))

    def _call(self, value: JsonValue, path: str) -> ToolCall:
        if not isinstance(value, Mapping):
            raise self._notes.error(f"a tool call must be an object, not {type(value).__name__}", path)
        inner = value.get("function")
        known = {"id", "function"}
        if not isinstance(inner, Mapping):
            self._notes.note(QuirkKind.FLAT_CALL, path)
            inner, known = value, {"id", "name", "arguments"}
            at = path
        else:
            at = f"{path}.function"
        name = inner.get("name")
        if not isinstance(name, str):
            self._notes.note(QuirkKind.MISSING_NAME, f"{at}.name")
            name = "" if name is None else self._notes.encoded(name, f"{at}.name").decode()
        extra = {key: item for key, item in value.items() if key not in known}
        if "type" in extra and (extra["type"] is None or extra["type"] == "function"):
            extra.pop("type")
        if inner is not value:
            more = {key: item for key, item in inner.items() if key not in {"name", "arguments"}}
            if more:
                extra["function"] = more
        return ToolCall(
            id=self._id(value.get("id"), f"{path}.id"),
            name=self._notes.clean(name, f"{at}.name"),
            arguments=self._arguments(inner.get("arguments"), f"{at}.arguments"),
            extra=self._notes.raw(extra, path),
        )

    def _arguments(self, value: JsonValue, path: str) -> str:
        if isinstance(value, str):
            return self._notes.clean(value, path)
        if value is None:
            self._notes.note(QuirkKind.MISSING_ARGUMENTS, path)
            return ""
        self._notes.note(QuirkKind.ARGUMENTS_AS_DATA, path)
        return self._notes.encoded(value, path, strict=True).decode()

    def _id(self, value: JsonValue, path: str) -> str:
        if isinstance(value, str):
            return self._notes.clean(value, path)
        if value is None:
            self._notes.note(QuirkKind.MISSING_ID, path)
            return ""
        if isinstance(value, int | float) and not isinstance(value, bool):
            self._notes.note(QuirkKind.NUMERIC_ID, path)
            try:
                return str(value)
            except ValueError as error:  # Python writes no integer of more than 4,300 digits
                raise self._notes.error(f"an id that can not be read: {error}", path) from error
        raise self._notes.error(f"an id must be text, not {type(value).__name__}", path)

    # the rest of a message

    def _reasoning(self, item: Mapping[str, JsonValue], kept: dict[str, JsonValue]) -> str | None:
        first = self._text_key(item, "reasoning", kept)
        second = self._text_key(item, "reasoning_content", kept)
        if first is None or second is None:
            return second if first is None else first
        self._notes.note(QuirkKind.TWO_REASONINGS, "$.reasoning_content")
        if first and second and first != second:
            kept["reasoning_content"] = second
        return first or second

    def _replay(self, item: Mapping[str, JsonValue], kept: dict[str, JsonValue]) -> Replay | None:
        value = item.get("replay")
        if value is None:
            return None
        if isinstance(value, Mapping) and value.keys() == {"origin", "wire", "blocks"}:
            wire, blocks = value["wire"], value["blocks"]
            try:
                origin = msgspec.convert(value["origin"], Origin)
                if isinstance(wire, str) and _is_list(blocks):
                    return Replay(origin, wire, tuple(_checked_block(block) for block in blocks))
            except (msgspec.MsgspecError, UnicodeEncodeError, TypeError):
                pass
        self._keep("replay", value, kept)
        return None

    def _usage(self, item: Mapping[str, JsonValue], kept: dict[str, JsonValue]) -> Usage | None:
        value = item.get("usage")
        if value is None:
            return None
        if isinstance(value, Mapping) and value.keys() <= _USAGE_KEYS:
            try:
                usage = msgspec.convert(value, Usage)
            except msgspec.ValidationError:
                usage = None
            if usage is not None and (usage.cost_usd is None or math.isfinite(usage.cost_usd)):
                return usage
        self._keep("usage", value, kept)
        return None

    def _text_key(
        self, item: Mapping[str, JsonValue], key: str, kept: dict[str, JsonValue] | None = None
    ) -> str | None:
        value = item.get(key)
        if value is None:
            return None
        if isinstance(value, str):
            return self._notes.clean(value, f"$.{key}")
        if kept is None:
            raise self._notes.error(f"{key} must be text, not {type(value).__name__}", f"$.{key}")
        self._keep(key, value, kept)
        return None

    def _keep(self, key: str, value: JsonValue, kept: dict[str, JsonValue]) -> None:
        self._notes.note(QuirkKind.UNEXPECTED_TYPE, f"$.{key}")
        kept[key] = value

    def _extra(
        self,
        item: Mapping[str, JsonValue],
        known: frozenset[str],
        kept: dict[str, JsonValue] | None = None,
    ) -> Raw | None:
        """What has no field: unknown keys in their order. A null of a chat key is the same as no key."""
        others: dict[str, JsonValue] = {}
        for key, value in item.items():
            if value is None and key in NULL_IS_ABSENT:
                if key != "content":
                    self._notes.note(QuirkKind.NULL_KEY, f"$.{key}")
            elif key not in known:
                others[key] = value
            elif kept and key in kept:
                others[key] = kept[key]
        return self._notes.raw(others, "$")


def _checked_block(block: JsonValue) -> Raw:
    """A replay block from its JSON text, checked so that it can not break the JSON around it."""
    if not isinstance(block, str):
        raise TypeError("a replay block is JSON text")
    data = block.encode()
    msgspec.json.decode(data, type=Raw)
    return Raw(data)
