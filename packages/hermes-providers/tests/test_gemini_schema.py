"""JSON schemas in Gemini's dialect."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from hermes_providers.wire.gemini_schema import in_gemini_dialect

TAKEN = {
    "type",
    "format",
    "description",
    "nullable",
    "enum",
    "maxItems",
    "minItems",
    "properties",
    "required",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "anyOf",
    "items",
    "minimum",
    "maximum",
}


def converted(schema: object) -> Any:
    made = in_gemini_dialect(Raw(json.dumps(schema).encode()))
    return None if made is None else json.loads(bytes(made))


def field(schema: object) -> Any:
    """A schema as that of a property, and as it comes out."""
    return converted({"type": "object", "properties": {"a": schema}})["properties"]["a"]


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        ({"type": "string", "title": "A", "default": "x"}, {"type": "STRING"}),
        ({"type": ["string", "null"]}, {"type": "STRING", "nullable": True}),
        ({"type": ["string", "integer"]}, {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]}),
        (
            {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "d"},
            {"type": "INTEGER", "description": "d", "nullable": True},
        ),
        (
            {"oneOf": [{"type": "integer"}, {"type": "string"}]},
            {"anyOf": [{"type": "INTEGER"}, {"type": "STRING"}]},
        ),
        ({"const": "x"}, {"type": "STRING", "enum": ["x"]}),
        ({"enum": ["x", "", "y"]}, {"type": "STRING", "enum": ["x", "y"]}),
        ({"type": "integer", "enum": [1, 2]}, {"type": "INTEGER", "description": "(one of: 1, 2)"}),
        ({"enum": [True]}, {"type": "BOOLEAN", "description": "(one of: true)"}),
        ({"type": "string", "format": "date-time"}, {"type": "STRING", "format": "date-time"}),
        ({"type": "string", "format": "uri"}, {"type": "STRING", "description": '(format: "uri")'}),
        (
            {"type": "number", "description": "d", "exclusiveMinimum": 0, "maximum": 5},
            {"type": "NUMBER", "maximum": 5, "description": "d (exclusiveMinimum: 0)"},
        ),
        ({"type": "array"}, {"type": "ARRAY", "items": {"type": "STRING"}}),
        ({"items": {"type": "number"}}, {"type": "ARRAY", "items": {"type": "NUMBER"}}),
        (
            {"type": "array", "prefixItems": [{}], "items": False, "uniqueItems": True},
            {"type": "ARRAY", "items": {"type": "STRING"}, "description": "(uniqueItems: true)"},
        ),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"type": "OBJECT"}),
        (True, {"type": "STRING"}),
        ({}, {"type": "STRING"}),
        ({"type": "null"}, {"type": "STRING", "nullable": True}),
        (
            {"allOf": [{"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}]},
            {"type": "OBJECT", "properties": {"x": {"type": "STRING"}}, "required": ["x"]},
        ),
    ],
)
def test_what_becomes_of_a_property(schema: object, wanted: object) -> None:
    assert field(schema) == wanted


def test_references_are_written_out_and_circles_cut() -> None:
    schema = {
        "type": "object",
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "properties": {"n": {"$ref": "#/$defs/Node"}},
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {"next": {"$ref": "#/$defs/Node"}, "v": {"type": "integer"}},
            }
        },
    }
    made = converted(schema)
    assert made["properties"]["n"]["properties"]["v"] == {"type": "INTEGER"}
    assert "$" not in json.dumps(made)


def test_required_names_only_what_is_there() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "gone", "a"]}
    assert converted(schema)["required"] == ["a"]


def test_properties_keep_names_that_look_like_keywords() -> None:
    schema = {"type": "object", "properties": {"title": {"type": "string"}, "$ref": {"type": "string"}}}
    assert set(converted(schema)["properties"]) == {"title", "$ref"}


@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "object", "properties": {}}, [], None])
def test_object_without_properties_is_said_by_saying_nothing(schema: object) -> None:
    assert converted(schema) is None


SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
SCHEMAS = st.recursive(
    st.dictionaries(st.sampled_from(["type", "enum", "const", "format", "minimum", "default", "x"]), SCALARS),
    lambda inner: (
        st.dictionaries(st.sampled_from(["items", "not", "if", "additionalProperties", "description"]), inner)
        | st.dictionaries(
            st.sampled_from(["properties", "$defs", "patternProperties"]),
            st.dictionaries(st.text(max_size=3), inner),
        )
        | st.dictionaries(
            st.sampled_from(["anyOf", "oneOf", "allOf", "prefixItems"]), st.lists(inner, max_size=3)
        )
    ),
    max_leaves=15,
)


@given(SCHEMAS)
def test_any_schema_comes_out_in_the_dialect(schema: dict[str, Any]) -> None:
    check(field(schema))


def check(schema: Any) -> None:
    assert isinstance(schema, dict)
    assert set(schema) <= TAKEN
    assert ("type" in schema) != ("anyOf" in schema)
    for inner in [*schema.get("anyOf", []), *schema.get("properties", {}).values()]:
        check(inner)
    if schema.get("type") == "ARRAY":
        check(schema["items"])
