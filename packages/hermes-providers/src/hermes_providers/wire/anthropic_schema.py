"""JSON schemas in the dialect that the Messages wire takes.

"Structured outputs" (platform.claude.com/docs/en/build-with-claude/structured-outputs), limitations of JSON
schemas: every object needs `additionalProperties: false`; bounds on numbers, on lengths of strings and on
sizes of arrays are refused. They are kept as words in the description, and the caller validates anyway.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from hermes_messages import JsonObject, JsonValue
from hermes_providers.streaming.json_bytes import dump

__all__ = ["answer_schema"]

_REFUSED = frozenset(
    {
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "maxItems",
        "uniqueItems",
        "minProperties",
        "maxProperties",
    }
)
_NAMED_SCHEMAS = ("properties", "$defs", "definitions", "patternProperties")
_LISTED_SCHEMAS = ("anyOf", "allOf", "oneOf", "prefixItems")


def answer_schema(schema: Raw) -> Raw:
    """The schema of an answer. One that can not be read goes as it is, for the host to judge."""
    try:
        value: JsonValue = msgspec.json.decode(schema)
    except msgspec.DecodeError:
        return schema
    return Raw(dump(_object_schema(value))) if isinstance(value, dict) else schema


def _schema(value: JsonValue) -> JsonValue:
    return _object_schema(value) if isinstance(value, dict) else value


def _object_schema(schema: JsonObject) -> JsonObject:
    changed: JsonObject = {}
    said: list[str] = []
    for key, value in schema.items():
        if key in _REFUSED or (key == "minItems" and value not in (0, 1)):
            said.append(f"{key}: {dump(value).decode()}")
        elif key in _NAMED_SCHEMAS and isinstance(value, dict):
            changed[key] = {name: _schema(item) for name, item in value.items()}
        elif key in _LISTED_SCHEMAS and isinstance(value, list):
            changed["anyOf" if key == "oneOf" else key] = [_schema(item) for item in value]
        elif key in {"items", "not"}:
            changed[key] = _schema(value)
        else:
            changed[key] = value
    if changed.get("type") == "object" or "properties" in changed:
        changed["additionalProperties"] = False
    if said:
        described = changed.get("description")
        note = f"({', '.join(said)})"
        changed["description"] = f"{described} {note}" if isinstance(described, str) else note
    return changed
