"""JSON schemas for hosts that do not read `$ref`."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from hermes_messages import JsonObject, JsonValue

__all__ = ["without_refs"]

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
