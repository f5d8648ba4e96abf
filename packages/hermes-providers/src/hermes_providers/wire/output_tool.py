"""An answer in a given form from hosts that have tools and no schemas: a tool whose arguments are the answer.

It is added to the request, and what a response says in it is handed on as text, so that the conversation
holds an ordinary answer. Arguments are always one object; an answer that need not be one, or that may be
one of several, stands in a tool of another name as its `value`. So the name alone says how to read it.
"""

from __future__ import annotations

import re
from typing import TypeGuard

import msgspec
from msgspec import Raw

from hermes_messages import ChatRequest, JsonObject, JsonValue, ToolSpec
from hermes_messages.deltas import Delta, TextChunk, ToolCallChunk
from hermes_providers.wire.schema_dialect import ODD_AT_TOP, without_refs

__all__ = [
    "OUTPUT_TOOL",
    "OUTPUT_VALUE_TOOL",
    "AnswerCalls",
    "AnswerText",
    "answer_tool",
    "is_answer_tool",
    "schema_for_tool",
]

OUTPUT_TOOL = "submit_structured_answer"
OUTPUT_VALUE_TOOL = "submit_structured_value"
_ANSWER_TOOLS = (OUTPUT_TOOL, OUTPUT_VALUE_TOOL)

_TOLD = "Give the final answer, in the form of this tool's input."
_TOLD_VALUE = "Give the final answer, as the value of this tool's input."
_OF_THE_ROOT = ("$schema", "$defs", "definitions")
_INSIDE = re.compile(r"#(?!/(?:\$defs|definitions)/)(?=/|$)")
_PLACE = "#/properties/value"


def answer_tool(schema: Raw) -> ToolSpec:
    """The tool for an answer of that schema. What is no JSON schema goes as it is, for the host to judge."""
    try:
        value: JsonValue = msgspec.json.decode(schema)
        if isinstance(value, dict) and isinstance(value.get("$ref"), str):
            value = msgspec.json.decode(without_refs(schema))
    except msgspec.MsgspecError:
        return ToolSpec(OUTPUT_TOOL, _TOLD, schema)
    if not isinstance(value, dict | bool) or (isinstance(value, dict) and _is_object(value)):
        return ToolSpec(OUTPUT_TOOL, _TOLD, schema)
    return ToolSpec(OUTPUT_VALUE_TOOL, _TOLD_VALUE, Raw(msgspec.json.encode(_in_an_object(value))))


def schema_for_tool(request: ChatRequest, way: str) -> Raw | None:
    """The schema of the answer, if a tool asks for it; `way`: the `response_format` of the host's quirks."""
    return request.response_schema if way == "output_tool" else None


def is_answer_tool(name: str | None) -> TypeGuard[str]:
    """Whether a call of `name` is the answer."""
    return name in _ANSWER_TOOLS


def _is_object(schema: JsonObject) -> bool:
    if ODD_AT_TOP.intersection(schema):
        return False
    return schema.get("type", "object" if "properties" in schema else None) == "object"


def _in_an_object(schema: JsonObject | bool) -> JsonObject:
    """The schema of an object whose only field is the answer. Definitions stay at the root, where references
    look for them."""
    fields: JsonObject = {} if isinstance(schema, bool) else schema
    inner = {key: value for key, value in fields.items() if key not in _OF_THE_ROOT}
    outer = {key: _moved(value) for key, value in fields.items() if key in _OF_THE_ROOT}
    return {
        "type": "object",
        "properties": {"value": schema if isinstance(schema, bool) else _moved(inner)},
        "required": ["value"],
        "additionalProperties": False,
        **outer,
    }


def _moved(value: JsonValue) -> JsonValue:
    """`value` with references to the old root, or to a place below it, leading to its new place."""
    if isinstance(value, list):
        return [_moved(item) for item in value]
    if not isinstance(value, dict):
        return value
    moved: JsonObject = {key: _moved(item) for key, item in value.items()}
    reference = value.get("$ref")
    if isinstance(reference, str) and _INSIDE.match(reference):
        moved["$ref"] = _PLACE + reference[1:]
    return moved


_HEAD = re.compile(r'\s*(?:\{\s*(?:"(?:v(?:a(?:l(?:u(?:e(?:"\s*(?::\s*)?)?)?)?)?)?)?)?)?')
_WHOLE_HEAD = re.compile(r'\s*\{\s*"value"\s*:\s*')
_MARKS = re.compile(r'[{}\[\],"]')
_IN_STRING = re.compile(r'["\\]')


class AnswerText:
    """The text of one answer, from its arguments in pieces of any size.

    `name` is that of the tool. Where the value stands in an object, that object is taken off; a model that
    left it out is taken at its word.
    """

    __slots__ = ("_depth", "_escaped", "_head", "_in_string", "_state")

    def __init__(self, name: str) -> None:
        self._state = "head" if name == OUTPUT_VALUE_TOOL else "as it is"
        self._head = ""
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def feed(self, text: str) -> str:
        """What `text` adds to the answer."""
        match self._state:
            case "head":
                return self._begin(text)
            case "value":
                return self._value(text)
            case "over":
                return ""
            case _:
                return text

    def _begin(self, text: str) -> str:
        self._head += text
        found = _WHOLE_HEAD.match(self._head)
        if found is not None and found.end() < len(self._head):
            self._state = "value"
            return self._value(self._head[found.end() :])
        if found is None and _HEAD.fullmatch(self._head) is None:
            self._state = "as it is"
            return self._head
        self._head = "".join(self._head.split())  # white space without end must cost nothing
        return ""

    def _value(self, text: str) -> str:
        place = 0
        while place < len(text):
            if self._in_string:
                place = self._past_string(text, place)
                continue
            found = _MARKS.search(text, place)
            if found is None:
                break
            mark, place = found.group(), found.end()
            if mark == '"':
                self._in_string = True
            elif mark in "{[":
                self._depth += 1
            elif self._depth == 0:  # the end of the value: the object closes, or something else follows
                self._state = "over"
                return text[: found.start()]
            elif mark in "}]":
                self._depth -= 1
        return text

    def _past_string(self, text: str, place: int) -> int:
        """Where the string that began before `place` ends, or the text."""
        if self._escaped:
            self._escaped = False
            place += 1
        while (found := _IN_STRING.search(text, place)) is not None:
            place = found.end()
            if found.group() == '"':
                self._in_string = False
                return place
            self._escaped = place == len(text)
            place += 1
        return len(text)


class AnswerCalls:
    """Tells the fragments of that one call from those of others, by index and id.

    `only`: there was no other call.
    """

    __slots__ = ("_id", "_index", "_text", "only")

    def __init__(self) -> None:
        self.only: bool = True
        self._text: AnswerText | None = None
        self._index: int | None = None
        self._id: str | None = None

    @property
    def seen(self) -> bool:
        """Whether there was such a call."""
        return self._text is not None

    def take(self, fragment: ToolCallChunk) -> Delta:
        """`fragment` itself, or what its arguments add to the text."""
        name = fragment.name
        if name is not None and name in _ANSWER_TOOLS:
            if self._text is None:
                self._text = AnswerText(name)
            self._index, self._id = fragment.index, fragment.id
        elif self._text is None or name or not self._continues(fragment):
            self.only = False
            return fragment
        assert self._text is not None
        return TextChunk(self._text.feed(fragment.arguments or ""))

    def taken(self, deltas: list[Delta]) -> list[Delta]:
        """`deltas` with the arguments of that call as text."""
        return [self.take(delta) if isinstance(delta, ToolCallChunk) else delta for delta in deltas]

    def _continues(self, fragment: ToolCallChunk) -> bool:
        return fragment.index in (None, self._index) and fragment.id in (None, self._id)
