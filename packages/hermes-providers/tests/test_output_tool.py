"""An answer in a given form where a host has tools and no schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from byte_server import ByteServer, plain, stream
from hermes_messages import ChatResponse, FinishReason, TextDelta, ToolCallStarted
from hermes_messages.protocols import ProviderOptions
from hermes_providers import from_profile
from hermes_providers.wire.output_tool import OUTPUT_TOOL, OUTPUT_VALUE_TOOL, AnswerText, answer_tool
from wire_help import DONE, KEY, SPEC, ask, chunk, collect, cut, event, run

SCHEMA = Raw(b'{"type":"object","properties":{"city":{"type":"string"}}}')


def fragment(index: int | None, **more: Any) -> dict[str, Any]:
    function = {key: more.pop(key) for key in ("name", "arguments") if key in more}
    return {"index": index, "function": function, **more}


def calls(*fragments: dict[str, Any]) -> bytes:
    return b"".join(event(chunk({"tool_calls": [one]})) for one in fragments)


async def ask_groq(script: Any, **more: Any) -> tuple[list[Any], ChatResponse, dict[str, Any]]:
    async with ByteServer([script]) as server:
        provider = from_profile("groq", ProviderOptions(api_key=KEY, base_url=server.base_url))
        events = await collect(provider, ask(response_schema=SCHEMA, **more))
        await provider.close()
        return events[:-1], events[-1].response, server.requests[0].json()  # type: ignore[union-attr]


@pytest.mark.parametrize("index", [0, None])
def test_arguments_of_the_tool_are_the_answer(index: int | None) -> None:
    script = stream(
        calls(
            fragment(index, id="c1", name=OUTPUT_TOOL, arguments='{"ci'),
            fragment(index, arguments='ty":"Os'),
            fragment(index, arguments='lo"}'),
        ),
        event(chunk({}, "tool_calls")) + DONE,
    )
    events, response, sent = run(ask_groq(script))
    assert response.message.content == '{"city":"Oslo"}'
    assert response.message.tool_calls == ()
    assert response.finish is FinishReason.STOP
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == '{"city":"Oslo"}'
    assert not [e for e in events if isinstance(e, ToolCallStarted)]
    assert sent["tool_choice"] == {"type": "function", "function": {"name": OUTPUT_TOOL}}
    assert sent["tools"][0]["function"]["parameters"] == json.loads(bytes(SCHEMA))
    assert "response_format" not in sent


def test_own_tools_can_be_called_first() -> None:
    script = stream(
        calls(fragment(0, id="c1", name="read_file", arguments='{"path":"a"}')),
        event(chunk({}, "tool_calls")) + DONE,
    )
    _, response, sent = run(ask_groq(script, tools=(SPEC,)))
    assert [call.name for call in response.message.tool_calls] == ["read_file"]
    assert response.finish is FinishReason.TOOL_CALLS
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["read_file", OUTPUT_TOOL]
    assert "tool_choice" not in sent


def test_calls_beside_the_answer_stay_calls() -> None:
    script = stream(
        calls(
            fragment(0, id="c1", name="read_file", arguments=""),
            fragment(1, id="c2", name=OUTPUT_TOOL, arguments='{"city":'),
            fragment(0, arguments='{"path":"a"}'),
            fragment(1, arguments='"Oslo"}'),
        ),
        event(chunk({}, "tool_calls")) + DONE,
    )
    _, response, _ = run(ask_groq(script, tools=(SPEC,)))
    assert [call.arguments for call in response.message.tool_calls] == ['{"path":"a"}']
    assert response.message.content == '{"city":"Oslo"}'
    assert response.finish is FinishReason.TOOL_CALLS


def test_plain_answer() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": OUTPUT_TOOL, "arguments": '{"city":"Oslo"}'}}
    body = {"choices": [{"message": {"content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    _, response, _ = run(ask_groq(plain(json.dumps(body).encode())))
    assert (response.message.content, response.finish) == ('{"city":"Oslo"}', FinishReason.STOP)


def test_answer_that_was_cut_off_says_so() -> None:
    script = stream(
        calls(fragment(0, id="c1", name=OUTPUT_TOOL, arguments='{"ci')), event(chunk({}, "length")) + DONE
    )
    _, response, _ = run(ask_groq(script))
    assert (response.message.content, response.finish) == ('{"ci', FinishReason.LENGTH)


PLAIN_OBJECTS = [
    {"type": "object", "properties": {"city": {"type": "string"}}},
    {"properties": {"city": {"type": "string"}}},
    {"$ref": "#/$defs/City", "$defs": {"City": {"type": "object", "properties": {}}}},
]
NO_PLAIN_OBJECTS: list[Any] = [
    {"type": "array", "items": {"type": "string"}},
    {"type": "string", "enum": ["yes", "no"]},
    {"type": ["object", "null"]},
    {"anyOf": [{"type": "object", "required": ["a"]}, {"type": "object", "required": ["b"]}]},
    {"$ref": "#/$defs/Cities", "$defs": {"Cities": {"type": "array"}}},
    {},
    True,
]


@pytest.mark.parametrize("schema", PLAIN_OBJECTS)
def test_an_object_is_not_wrapped(schema: Any) -> None:
    tool = answer_tool(Raw(json.dumps(schema).encode()))
    assert (tool.name, json.loads(bytes(tool.parameters))) == (OUTPUT_TOOL, schema)


@pytest.mark.parametrize("schema", NO_PLAIN_OBJECTS)
def test_what_is_no_plain_object_is_the_value_of_one_and_loses_nothing(schema: Any) -> None:
    tool = answer_tool(Raw(json.dumps(schema).encode()))
    sent = json.loads(bytes(tool.parameters))
    assert tool.name == OUTPUT_VALUE_TOOL
    assert (sent["type"], sent["required"], sent["additionalProperties"]) == ("object", ["value"], False)
    expected = {"type": "array"} if isinstance(schema, dict) and "$ref" in schema else schema
    assert sent["properties"]["value"] == expected


def test_references_of_a_wrapped_schema_lead_to_what_they_meant() -> None:
    node = {"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"$ref": "#/$defs/Leaf"}]}}
    schema = {**node, "$defs": {"Leaf": {"type": "array", "items": {"$ref": "#/items"}}}}
    sent = json.loads(bytes(answer_tool(Raw(json.dumps(schema).encode())).parameters))
    value = "#/properties/value"
    assert sent["properties"]["value"]["items"]["anyOf"] == [{"$ref": value}, {"$ref": "#/$defs/Leaf"}]
    assert sent["$defs"] == {"Leaf": {"type": "array", "items": {"$ref": f"{value}/items"}}}
    assert "$defs" not in sent["properties"]["value"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, st.lists(st.integers(0, 10_000), max_size=12), st.sampled_from([None, 1]), st.booleans())
def test_any_value_comes_out_as_it_went_in_however_it_is_cut(
    value: Any, places: list[int], indent: int | None, ascii_only: bool
) -> None:
    said = json.dumps({"value": value, "more": "}"}, indent=indent, ensure_ascii=ascii_only)
    answer = AnswerText(OUTPUT_VALUE_TOOL)
    places = sorted(place % (len(said) + 1) for place in places)
    pieces = [said[i:j] for i, j in zip([0, *places], [*places, len(said)], strict=True)]
    assert json.loads("".join(answer.feed(piece) for piece in pieces)) == value


@given(JSON, st.lists(st.integers(0, 10_000), max_size=12))
def test_a_value_that_the_model_did_not_wrap_is_taken_as_it_is(value: Any, places: list[int]) -> None:
    said = json.dumps({"other": value} if isinstance(value, dict) else value).encode()
    answer = AnswerText(OUTPUT_VALUE_TOOL)
    assert json.loads("".join(answer.feed(piece.decode()) for piece in cut(said, places))) == (
        {"other": value} if isinstance(value, dict) else value
    )


def test_white_space_without_end_before_the_value_costs_nothing() -> None:
    answer = AnswerText(OUTPUT_VALUE_TOOL)
    said = "".join(answer.feed(" \n" * 50) for _ in range(2000)) + answer.feed('{"value" :[1]}')
    assert said == "[1]"
