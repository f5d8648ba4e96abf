from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_tools import ArgumentsMismatchError
from hermes_tools.arguments import fit_arguments


def fitted(value: Any, schema: Any) -> object:
    root: Any = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return fit_arguments({"a": value}, root)["a"]


INTEGER = {"type": "integer"}
STRING = {"type": "string"}


@pytest.mark.parametrize(
    ("value", "schema", "expected"),
    [
        ("42", INTEGER, 42),
        (" -7 ", INTEGER, -7),
        (42.0, INTEGER, 42),
        ("4.5", {"type": "number"}, 4.5),
        ("4", {"type": "number"}, 4),
        ("true", {"type": "boolean"}, True),
        ("False", {"type": "boolean"}, False),
        ("[1,2]", {"type": "array", "items": INTEGER}, [1, 2]),
        ('["1"]', {"type": "array", "items": INTEGER}, [1]),
        ('{"b": "1"}', {"type": "object", "properties": {"b": INTEGER}}, {"b": 1}),
        (7, STRING, "7"),
        ("5", {"enum": [5, 6]}, 5),
        ("7", {"type": ["integer", "null"]}, 7),
        (None, {"anyOf": [INTEGER, {"type": "null"}]}, None),
    ],
)
def test_values_of_the_wrong_type_are_fitted_toward_the_schema(
    value: object, schema: dict[str, Any], expected: object
) -> None:
    result = fitted(value, schema)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize("text", ["42", "true", "null", "[1,2]", '{"a": 1}', "1e5", " x "])
@pytest.mark.parametrize(
    "schema",
    [STRING, {"anyOf": [INTEGER, STRING]}, {"type": ["string", "array"]}, {}, {"anyOf": [{}, INTEGER]}],
)
def test_a_string_field_whose_text_looks_like_json_stays_a_string(text: str, schema: dict[str, Any]) -> None:
    assert fitted(text, schema) == text


@pytest.mark.parametrize(
    ("value", "schema", "words"),
    [
        ("4.2", INTEGER, r"\$\.a: expected integer, got string \"4.2\""),
        (4.2, INTEGER, "expected integer, got number 4.2"),
        (True, INTEGER, "expected integer, got boolean"),
        ("many", INTEGER, "expected integer"),
        ("yes", {"type": "boolean"}, "expected boolean"),
        (1, {"type": "boolean"}, "expected boolean"),
        ("nan", {"type": "number"}, "expected number"),
        ("1_0", {"type": "number"}, "expected number"),
        ("{}", {"type": "array"}, "expected array"),
        (True, STRING, "expected string"),
        (
            {"b": [1, "x"]},
            {"type": "object", "properties": {"b": {"type": "array", "items": INTEGER}}},
            r"\$\.a\.b\[1\]",
        ),
        ("c", {"enum": ["a", "b"]}, 'one of "a", "b"'),
        ("x", {"anyOf": [INTEGER, {"type": "boolean"}]}, "expected integer.*or expected boolean"),
        ({}, {"type": "object", "properties": {"b": INTEGER}, "required": ["b"]}, r"\$\.a: 'b' is missing"),
        (
            {"c": 1},
            {"type": "object", "properties": {"b": INTEGER}, "additionalProperties": False},
            "no argument 'c'",
        ),
        (1, False, "nothing may be given"),
    ],
)
def test_what_does_not_fit_is_named_with_its_path(value: object, schema: Any, words: str) -> None:
    with pytest.raises(ArgumentsMismatchError, match=words):
        fitted(value, schema)


def test_null_for_an_optional_argument_means_not_given() -> None:
    schema: Any = {"type": "object", "properties": {"a": INTEGER, "b": STRING}, "required": ["b"]}
    assert fit_arguments({"a": None, "b": "x"}, schema) == {"b": "x"}
    with pytest.raises(ArgumentsMismatchError, match="expected string, got null"):
        fit_arguments({"b": None}, schema)


def test_references_inside_the_schema_are_followed_and_cycles_end() -> None:
    tree: Any = {
        "type": "object",
        "properties": {"v": INTEGER, "kids": {"type": "array", "items": {"$ref": "#/$defs/T"}}},
    }
    root: Any = {"type": "object", "properties": {"t": {"$ref": "#/$defs/T"}}, "$defs": {"T": tree}}
    assert fit_arguments({"t": {"kids": [{"v": "3"}]}}, root) == {"t": {"kids": [{"v": 3}]}}
    loop: Any = {
        "type": "object",
        "properties": {"t": {"$ref": "#/$defs/L"}},
        "$defs": {"L": {"$ref": "#/$defs/L"}},
    }
    with pytest.raises(ArgumentsMismatchError, match="nested too deeply"):
        fit_arguments({"t": 1}, loop)


def test_the_first_alternative_that_fits_unchanged_wins() -> None:
    schema = {"anyOf": [INTEGER, {"type": "array", "items": INTEGER}, {"type": "boolean"}]}
    assert fitted(True, schema) is True
    assert fitted("[1]", schema) == [1]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
SCHEMAS = st.recursive(
    st.sampled_from(
        [{"type": kind} for kind in ("integer", "number", "string", "boolean", "null", "array", "object")]
    ),
    lambda inner: (
        st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(lambda branches: {"anyOf": branches}, st.lists(inner, min_size=1, max_size=3))
        | st.builds(lambda a: {"type": "object", "properties": {"a": a}, "required": ["a"]}, inner)
    ),
    max_leaves=5,
)


@given(JSON, SCHEMAS)
def test_fitting_twice_changes_nothing_more(value: Any, schema: Any) -> None:
    try:
        once = fitted(value, schema)
    except ArgumentsMismatchError:
        return
    assert fitted(once, schema) == once
