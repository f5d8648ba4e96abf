"""JSON schemas in Gemini's dialect: a part of OpenAPI 3.0, in which unknown keys are refused.

"Schema" (ai.google.dev/api/caching#Schema). What can not be said there is dropped; the caller validates
arguments and answers against the whole schema anyway. A bound that the model should know is put in words.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Raw

from hermes_messages import JsonObject, JsonValue
from hermes_providers.streaming.json_bytes import dump
from hermes_providers.wire.schema_dialect import without_refs

__all__ = ["in_gemini_dialect"]

_TYPES = {"string", "number", "integer", "boolean", "array", "object"}
_TAKEN_BY: Mapping[str, tuple[str, ...]] = {
    "string": ("minLength", "maxLength", "pattern"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "boolean": (),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
_FORMATS: Mapping[str, frozenset[str]] = {
    # "only 'enum' and 'date-time' are supported for STRING type"
    "string": frozenset({"enum", "date-time"}),
    "number": frozenset({"float", "double"}),
    "integer": frozenset({"int32", "int64"}),
}
_IN_WORDS = ("exclusiveMinimum", "exclusiveMaximum", "multipleOf", "uniqueItems", "format")


def in_gemini_dialect(schema: Raw) -> Raw | None:
    """`schema` in the dialect; None for an object without properties, which is said by saying nothing."""
    value: JsonValue = msgspec.json.decode(without_refs(schema))
    if not isinstance(value, dict):
        return None
    converted = _converted(value)
    if converted.get("type") == "OBJECT" and not converted.get("properties"):
        return None
    return Raw(dump(converted))


def _schema(value: JsonValue) -> JsonObject:
    return _converted(value) if isinstance(value, dict) else {"type": "STRING"}


def _converted(schema: JsonObject) -> JsonObject:
    schema = _with_all_of(schema)
    kinds, nullable = _kinds(schema)
    variants = _variants(schema)
    described = schema.get("description")
    made: JsonObject = {"description": described} if isinstance(described, str) and described else {}
    if nullable or any(_is_null(variant) for variant in variants):
        made["nullable"] = True
    variants = [variant for variant in variants if not _is_null(variant)]
    if len(variants) == 1:
        return {**_schema(variants[0]), **made}
    if variants:
        made["anyOf"] = [_schema(variant) for variant in variants]
    elif len(kinds) > 1:
        made["anyOf"] = [_one_kind(kind, schema) for kind in kinds]
    else:
        words = made.get("description")
        made.update(_one_kind(kinds[0], schema))
        _add_words(made, schema, words if isinstance(words, str) else "")
    return made


def _with_all_of(schema: JsonObject) -> JsonObject:
    """The members of `allOf`, which the dialect does not have, joined into the schema."""
    members = schema.get("allOf")
    if not isinstance(members, list):
        return schema
    merged: JsonObject = {}
    rest = {key: value for key, value in schema.items() if key != "allOf"}
    for member in [*members, rest]:
        if not isinstance(member, dict):
            continue
        for key, value in _with_all_of(member).items():
            old = merged.get(key)
            if isinstance(old, dict) and isinstance(value, dict):
                merged[key] = {**old, **value}
            elif isinstance(old, list) and isinstance(value, list) and key == "required":
                merged[key] = [*old, *value]
            else:
                merged[key] = value
    return merged


def _kinds(schema: JsonObject) -> tuple[list[str], bool]:
    """The types of a schema, at least one, and whether null is among them."""
    said = schema.get("type")
    names = said if isinstance(said, list) else [said]
    kinds = [name for name in names if isinstance(name, str) and name in _TYPES]
    if not kinds:
        kinds = [_implied_kind(schema)]
    return kinds, "null" in names or schema.get("nullable") is True


def _implied_kind(schema: JsonObject) -> str:
    if "properties" in schema:
        return "object"
    if "items" in schema or "prefixItems" in schema:
        return "array"
    for value in _choices(schema):
        match value:
            case bool():
                return "boolean"
            case int():
                return "integer"
            case float():
                return "number"
            case _:
                pass
    return "string"


def _variants(schema: JsonObject) -> list[JsonValue]:
    for key in ("anyOf", "oneOf"):
        variants = schema.get(key)
        if isinstance(variants, list) and variants:
            return variants
    return []


def _is_null(variant: JsonValue) -> bool:
    return isinstance(variant, dict) and variant.get("type") == "null"


def _one_kind(kind: str, schema: JsonObject) -> JsonObject:
    made: JsonObject = {"type": kind.upper()}
    for key in _TAKEN_BY[kind]:
        if key in schema:
            made[key] = schema[key]
    said_format = schema.get("format")
    if isinstance(said_format, str) and said_format in _FORMATS.get(kind, ()):
        made["format"] = said_format
    if kind == "string":
        choices: list[JsonValue] = [value for value in _choices(schema) if isinstance(value, str) and value]
        if choices:
            made["enum"] = choices
    elif kind == "array":
        # Without them: "items: missing field".
        made["items"] = _schema(schema.get("items", {"type": "string"}))
    elif kind == "object":
        _add_properties(made, schema)
    return made


def _add_properties(made: JsonObject, schema: JsonObject) -> None:
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        return  # "properties: should be non-empty for OBJECT type"
    made["properties"] = {name: _schema(value) for name, value in properties.items()}
    required = schema.get("required")
    if isinstance(required, list):
        # Of others: "required[0]: property is not defined".
        known: list[JsonValue] = [name for name in dict.fromkeys(map(str, required)) if name in properties]
        if known:
            made["required"] = known


def _choices(schema: JsonObject) -> list[JsonValue]:
    if "const" in schema:
        return [schema["const"]]
    choices = schema.get("enum")
    return choices if isinstance(choices, list) else []


def _add_words(made: JsonObject, schema: JsonObject, described: str) -> None:
    """What the dialect has no key for, in the description."""
    said = [f"{key}: {dump(schema[key]).decode()}" for key in _IN_WORDS if key in schema and key not in made]
    choices = _choices(schema)
    if choices and "enum" not in made:  # "only allowed for STRING type"
        said.append(f"one of: {', '.join(dump(value).decode() for value in choices)}")
    if said:
        note = f"({', '.join(said)})"
        made["description"] = f"{described} {note}" if described else note
