"""JSON schemas for hosts that take only some of what JSON schema has."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from hermes_messages import JsonObject, JsonValue

__all__ = ["ODD_AT_TOP", "object_at_top", "without_refs"]

_DEFINITIONS = ("$defs", "definitions")
_MAX_DEPTH = 24


def without_refs(schema: Raw) -> Raw:
    """`schema` with every `$ref` to its own definitions written out; one inside itself becomes "anything".

    A schema that has none comes back as it is.
    """
    if b'"$ref"' not in bytes(schema):
        return schema
    value: JsonValue = msgspec.json.decode(schema)
    if not isinstance(value, dict):
        return schema
    known: dict[str, JsonValue] = {}
    for place in _DEFINITIONS:
        definitions = value.get(place)
        if isinstance(definitions, dict):
            known.update({f"#/{place}/{name}": item for name, item in definitions.items()})
    body: JsonObject = {key: item for key, item in value.items() if key not in _DEFINITIONS}
    return Raw(msgspec.json.encode(_written_out(body, known, ())))


def _written_out(value: JsonValue, known: dict[str, JsonValue], inside: tuple[str, ...]) -> JsonValue:
    if isinstance(value, list):
        return [_written_out(item, known, inside) for item in value]
    if not isinstance(value, dict):
        return value
    reference = value.get("$ref")
    if not isinstance(reference, str):
        return {key: _written_out(item, known, inside) for key, item in value.items()}
    beside = {key: item for key, item in value.items() if key != "$ref"}
    if reference in inside or reference not in known or len(inside) >= _MAX_DEPTH:
        return beside
    target = _written_out(known[reference], known, (*inside, reference))
    return {**target, **beside} if isinstance(target, dict) else target


def object_at_top(schema: Raw) -> Raw:
    """The schema of a tool's arguments as one object, which hosts demand: "input_schema does not support
    oneOf, allOf, or anyOf at the top level" (Anthropic), "schema must have type 'object' and not have
    'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level" (OpenAI).

    Fields of all variants are allowed, those that all of them demand are required, and the rest is in words.
    The caller validates arguments against the whole schema anyway. A plain object comes back as it is, and so
    does what is no JSON object, for the host to judge.
    """
    try:
        fields = msgspec.json.decode(schema, type=dict[str, Raw])
        if not ODD_AT_TOP.intersection(fields) and fields.get("type") == _OBJECT:
            return schema
        if not ODD_AT_TOP.intersection(fields) and "type" not in fields:
            return Raw(msgspec.json.encode({"type": "object", **fields}))
        value: JsonValue = msgspec.json.decode(without_refs(schema) if "$ref" in fields else schema)
    except msgspec.MsgspecError:
        return schema
    if not isinstance(value, dict):
        return schema
    merged = _one_object(value)
    return Raw(msgspec.json.encode({"type": "object", **merged, **_note(value, merged)}))


_OBJECT = Raw(b'"object"')
_VARIANTS = ("anyOf", "oneOf")
ODD_AT_TOP = frozenset({*_VARIANTS, "allOf", "enum", "const", "not", "if", "then", "else", "$ref"})


def _one_object(schema: JsonObject) -> JsonObject:
    """`schema` without what is odd at the top: the fields of all members and variants."""
    merged: JsonObject = {
        key: value for key, value in schema.items() if key not in ODD_AT_TOP and key != "type"
    }
    members = [_one_object(member) for member in _schemas(schema.get("allOf"))]
    alternatives = [_schemas(schema.get(key)) for key in _VARIANTS]
    members += [
        _either([_one_object(variant) for variant in variants]) for variants in alternatives if variants
    ]
    for member in members:
        merged = _both(merged, member)
    return merged


def _schemas(value: JsonValue) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _both(left: JsonObject, right: JsonObject) -> JsonObject:
    """The fields of both; of what only one can say, the first."""
    merged = {**right, **left}
    properties, added = dict(_properties(left)), _properties(right)
    for name, value in added.items():
        known = properties.get(name, {})
        properties[name] = (
            {**value, **known} if isinstance(value, dict) and isinstance(known, dict) else value
        )
    if properties:
        merged["properties"] = properties
    required = dict.fromkeys([*_required(left), *_required(right)])
    if required:
        merged["required"] = list(required)
    merged.pop("additionalProperties", None)
    return merged


def _either(variants: list[JsonObject]) -> JsonObject:
    """The fields of all; one that differs may be any of what it is."""
    kinds: dict[str, list[JsonValue]] = {}
    for variant in variants:
        for name, value in _properties(variant).items():
            known = kinds.setdefault(name, [])
            if value not in known:
                known.append(value)
    merged: JsonObject = {}
    if kinds:
        merged["properties"] = {
            name: values[0] if len(values) == 1 else {"anyOf": values} for name, values in kinds.items()
        }
    common = [name for name in _required(variants[0]) if all(name in _required(v) for v in variants[1:])]
    if common:
        merged["required"] = list(common)
    definitions = {key: variant[key] for variant in variants for key in _DEFINITIONS if key in variant}
    return merged | definitions


def _properties(schema: JsonObject) -> JsonObject:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _required(schema: JsonObject) -> list[str]:
    required = schema.get("required")
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []


def _note(schema: JsonObject, merged: JsonObject) -> JsonObject:
    """What goes together, in words."""
    groups = [_required(_one_object(variant)) for key in _VARIANTS for variant in _schemas(schema.get(key))]
    told = [" and ".join(group) for group in groups if group]
    if len(told) < len(groups) or len(set(told)) < 2:
        return {}
    note = f"(required besides: {' | '.join(told)})"
    described = merged.get("description")
    return {"description": f"{described} {note}" if isinstance(described, str) and described else note}
