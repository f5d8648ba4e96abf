"""JSON schemas for tool arguments, made from a msgspec struct: short, no references, in a fixed order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec

from hermes_messages import JsonObject, JsonValue

__all__ = ["build_schema"]

_REF_PREFIX = "#/$defs/"


def build_schema(arguments: type[msgspec.Struct], descriptions: Mapping[str, str]) -> JsonObject:
    """The schema of the object whose properties are the fields of `arguments`.

    Named types are written out where they are used, because many hosts do not follow references; only types
    that contain themselves stay under `$defs`. An optional field that may be null loses its null: leaving the
    field out says the same. `descriptions` fills in properties that describe themselves nowhere else.
    """
    _, components = msgspec.json.schema_components((arguments,), ref_template=_REF_PREFIX + "{name}")
    definitions = cast("dict[str, JsonObject]", components)
    inliner = _Inliner(definitions)
    own = definitions[_component_name(arguments, definitions)]
    required = own.get("required")
    required_names = set(required) if isinstance(required, list) else set()
    properties: JsonObject = {}
    for name, raw in cast("dict[str, JsonObject]", own.get("properties", {})).items():
        shown = inliner.inline(raw)
        assert isinstance(shown, dict)
        if name not in required_names:
            shown = _without_null(shown)
        if name in descriptions and "description" not in shown:
            shown = {**shown, "description": descriptions[name]}
        properties[name] = shown
    schema: JsonObject = {"type": "object", "properties": properties}
    if isinstance(required, list) and required:
        schema["required"] = required
    if inliner.recursive:
        schema["$defs"] = {name: inliner.recursive[name] for name in sorted(inliner.recursive)}
    return schema


def _component_name(arguments: type[msgspec.Struct], definitions: Mapping[str, JsonObject]) -> str:
    """msgspec names a component after its class, or after module and class when two share a name."""
    if arguments.__name__ in definitions:
        return arguments.__name__
    return f"{arguments.__module__}.{arguments.__qualname__}".replace(".", "_")


class _Inliner:
    """Replaces references by what they refer to, save inside types that contain themselves."""

    def __init__(self, definitions: Mapping[str, JsonObject]) -> None:
        self._definitions = definitions
        self._open: list[str] = []
        self.recursive: JsonObject = {}

    def inline(self, node: JsonValue) -> JsonValue:
        if isinstance(node, list):
            return [self.inline(item) for item in node]
        if not isinstance(node, dict):
            return node
        reference = node.get("$ref")
        if isinstance(reference, str) and reference.startswith(_REF_PREFIX):
            return self._follow(reference, node)
        kept = {key: value for key, value in node.items() if not _is_title(key, value)}
        values = kept.get("enum")
        if isinstance(values, list) and all(isinstance(value, str) for value in values):
            kept = {"type": "string", **kept}  # msgspec leaves it out, some hosts insist on it
        return {key: self._inline_value(key, value) for key, value in kept.items()}

    def _inline_value(self, key: str, value: JsonValue) -> JsonValue:
        if key in ("default", "enum", "const", "examples"):
            return value  # data, not schema
        if key == "properties" and isinstance(value, dict):
            return {name: self.inline(schema) for name, schema in value.items()}
        return self.inline(value)

    def _follow(self, reference: str, node: JsonObject) -> JsonValue:
        name = reference.removeprefix(_REF_PREFIX)
        if name in self._open:
            self.recursive.setdefault(name, None)
            return {"$ref": reference}
        self._open.append(name)
        target = self.inline(self._definitions[name])
        self._open.pop()
        assert isinstance(target, dict)
        if name in self.recursive:
            self.recursive[name] = target
            return {"$ref": reference}
        siblings = {key: self.inline(value) for key, value in node.items() if key != "$ref"}
        return {**target, **siblings}


def _is_title(key: str, value: JsonValue) -> bool:
    """A `title` keyword of the schema (a property of that name holds a schema, an object)."""
    return key == "title" and isinstance(value, str)


def _without_null(schema: JsonObject) -> JsonObject:
    branches = schema.get("anyOf")
    if not isinstance(branches, list) or {"type": "null"} not in branches:
        return schema
    rest = [branch for branch in branches if branch != {"type": "null"}]
    kept = {
        key: value for key, value in schema.items() if key != "anyOf" and (key, value) != ("default", None)
    }
    if len(rest) == 1 and isinstance(rest[0], dict):
        return {**rest[0], **kept}
    return {"anyOf": rest, **kept}
