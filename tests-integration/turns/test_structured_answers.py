"""The loop's own check of answers against a validator that is not ours."""

from __future__ import annotations

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_loop.schema_check import find_misfit
from hermes_messages import JsonObject, JsonValue

pytestmark = pytest.mark.needs("hermes-loop")

LEAVES: st.SearchStrategy[JsonValue] = st.sampled_from([None, True, False, 0, 1, 2.5, 1.0, "a", "b", ""])
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
KINDS = st.sampled_from(["object", "array", "string", "boolean", "null", "number", "integer"])


def _schemas(inner: st.SearchStrategy[JsonValue]) -> st.SearchStrategy[JsonValue]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": KINDS | st.lists(KINDS, min_size=1, max_size=2, unique=True),
            "enum": st.lists(LEAVES, min_size=1, max_size=3),
            "const": LEAVES,
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
            "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
            "additionalProperties": st.booleans() | inner,
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
        },
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # however busy the machine is
@given(st.recursive(st.booleans() | _schemas(st.booleans()), _schemas, max_leaves=4), VALUES)
def test_the_check_agrees_with_a_validator_on_what_it_knows(schema: JsonValue, value: JsonValue) -> None:
    if not isinstance(schema, dict):
        return
    root: JsonObject = schema
    valid = jsonschema.Draft202012Validator(root).is_valid(value)
    assert (find_misfit(value, root) is None) is valid
