"""Final answers of a given form: checked, asked for again, and never silently wrong."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TypedDict

import msgspec
import pytest

from hermes_loop import AIAgent
from hermes_loop.output_type import OutputContract, OutputMisfitError, read_output_type
from hermes_loop.schema_check import find_misfit
from hermes_messages import ConfigurationError, JsonObject, JsonValue, UserMessage, validate
from hermes_messages.protocols import ConversationResult
from hermes_messages.testing import (
    MemoryStore,
    ScriptedProvider,
    ScriptStep,
    SimpleExecutor,
    ToolDouble,
    call,
    calls,
    hang,
    text,
)


class City(msgspec.Struct):
    name: str
    people: int


@dataclass
class Town:
    name: str
    people: int


class Village(TypedDict):
    name: str
    people: int


SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["name", "people"],
    "additionalProperties": False,
}
ULM = '{"name": "Ulm", "people": 126000}'


def run(
    *script: ScriptStep, output_type: object = City, **others: object
) -> tuple[ConversationResult, ScriptedProvider]:
    provider = ScriptedProvider(script)

    async def main() -> ConversationResult:
        agent = AIAgent(
            provider=provider,
            tools=SimpleExecutor([ToolDouble("look")]),
            session_db=MemoryStore(),
            output_type=output_type,  # type: ignore[arg-type]
            **others,  # type: ignore[arg-type]
        )
        async with agent:
            return await agent.run_conversation("Which city?")

    return asyncio.run(main()), provider


@pytest.mark.parametrize(
    ("output_type", "value"),
    [
        (City, City("Ulm", 126000)),
        (Town, Town("Ulm", 126000)),
        (Village, {"name": "Ulm", "people": 126000}),
        (SCHEMA, {"name": "Ulm", "people": 126000}),
    ],
)
def test_the_answer_after_tools_is_the_value_that_was_asked_for(output_type: object, value: object) -> None:
    result, provider = run(calls(call("look")), text(ULM), output_type=output_type)
    assert result["structured_output"] == value
    assert (result["final_response"], result["turn_exit_reason"]) == (ULM, "text_response")
    first, second = provider.requests
    assert first.response_schema == second.response_schema is not None
    assert len(first.tools) == len(second.tools) == 1
    assert first.response_schema is not None
    schema = msgspec.json.decode(first.response_schema)
    assert schema["type"] == "object"
    assert set(schema["properties"]) == {"name", "people"}
    assert "name" in str(first.history[-1].content)
    assert [m["content"] for m in result["messages"] if m["role"] == "user"] == ["Which city?"]


def test_a_wrong_answer_is_asked_for_again_with_the_error_and_without_tools() -> None:
    result, provider = run(text('{"name": "Ulm"}'), text(ULM))
    assert result["structured_output"] == City("Ulm", 126000)
    assert result["api_calls"] == 2
    again = provider.last_request
    assert again.tools == ()
    [asked] = [m for m in result["transcript"] if isinstance(m, UserMessage)][1:]
    assert "`people`" in str(asked.content)
    assert validate(result["transcript"]) == []


def test_a_model_that_never_fits_ends_the_turn_with_its_text_kept() -> None:
    result, provider = run(*[text("A city in the south.")] * 5)
    assert (result["turn_exit_reason"], result["failed"], result["partial"]) == ("invalid_output", True, True)
    assert result["final_response"] == "A city in the south."
    assert result["structured_output"] is None
    assert "not JSON" in str(result["error"])
    assert len(provider.requests) == 3
    assert result["saved"]
    assert result["messages"][-1]["content"] == "A city in the south."


def test_a_budget_ends_the_corrections_too() -> None:
    result, _ = run(*[text("no")] * 5, max_iterations=1)
    assert (result["turn_exit_reason"], result["final_response"]) == ("invalid_output", "no")
    assert (result["structured_output"], result["api_calls"]) == (None, 1)


def test_an_interrupt_while_it_corrects_keeps_the_text() -> None:
    async def main() -> None:
        store = MemoryStore()

        def status(kind: str, _: str) -> None:
            if kind == "correction":
                agent.interrupt()

        agent = AIAgent(
            provider=ScriptedProvider([text("no"), hang()]),
            output_type=City,
            session_db=store,
            session_id="s",
            status_callback=status,
        )
        async with agent:
            result = await agent.run_conversation("go")
        assert (result["turn_exit_reason"], result["final_response"]) == ("interrupted", "no")
        assert validate(store.messages("s")) == []

    asyncio.run(main())


def test_an_answer_that_was_cut_off_is_no_value() -> None:
    result, _ = run(text(ULM, finish="length"))
    assert (result["turn_exit_reason"], result["structured_output"]) == ("output_truncated", None)


def test_tools_may_be_used_again_after_a_note_of_the_host() -> None:
    """Only the correction itself is asked for without tools."""

    async def main() -> None:
        provider = ScriptedProvider([text("no"), text(ULM), calls(call("look")), text(ULM)])
        agent = AIAgent(provider=provider, tools=SimpleExecutor([ToolDouble("look")]), output_type=City)
        async with agent:
            assert (await agent.run_conversation("one"))["structured_output"] == City("Ulm", 126000)
            assert (await agent.run_conversation("two"))["structured_output"] == City("Ulm", 126000)
        assert [len(request.tools) for request in provider.requests] == [1, 0, 1, 1]

    asyncio.run(main())


@pytest.mark.parametrize(
    "wrapped",
    [
        f"```json\n{ULM}\n```",
        f"Here it is:\n```\n{ULM}\n```\nAnything else?",
        f"Sure! {ULM} Done.",
        f" {ULM}\n",
    ],
)
def test_json_is_found_where_models_put_it(wrapped: str) -> None:
    contract = read_output_type(City)
    assert isinstance(contract, OutputContract)
    assert contract.parse(wrapped) == City("Ulm", 126000)


@pytest.mark.parametrize(
    "wrong", ["", "no", "[]", "{", '{"name": 3, "people": 1}', "```json\n{}\n```", "null", "\ud800"]
)
@pytest.mark.parametrize("output_type", [City, SCHEMA])
def test_what_does_not_fit_is_told_and_never_raises_anything_else(output_type: object, wrong: str) -> None:
    contract = read_output_type(output_type)
    assert contract is not None
    with pytest.raises(OutputMisfitError):
        contract.parse(wrong)


@pytest.mark.parametrize("output_type", [City, SCHEMA])
def test_an_answer_that_is_nested_without_end_is_asked_for_again(output_type: object) -> None:
    result, _ = run(text('{"name":' * 2_000), text(ULM), output_type=output_type)
    assert result["completed"]
    assert result["structured_output"] in (City("Ulm", 126000), {"name": "Ulm", "people": 126000})


def test_forms_that_differ_at_their_end_are_told_apart_in_one_look_at_each_place() -> None:
    """Each level of the answer would else be looked at once per form of the level above: 3 ** 15 times."""
    kinds = ("add", "multiply", "negate")
    forms: list[JsonValue] = [
        {"properties": {"of": {"$ref": "#/$defs/term"}, "kind": {"const": kind}}} for kind in kinds
    ]
    schema: JsonObject = {
        "type": "object",
        "$defs": {"term": {"anyOf": forms}},
        "properties": {"term": {"$ref": "#/$defs/term"}},
    }

    def nested(kind: str) -> JsonObject:
        term: JsonValue = 1
        for _ in range(15):
            term = {"of": term, "kind": kind}
        return {"term": term}

    assert find_misfit(nested("negate"), schema) is None
    assert "fits none of its 3 forms" in str(find_misfit(nested("divide"), schema))


@pytest.mark.parametrize(
    "given",
    [
        3,
        "City",
        int,
        list[int],
        {"type": "array"},
        {"type": "object", "x": {1, 2}.__iter__},
        object,
        City("a", 1),
    ],
)
def test_what_can_not_be_an_answer_is_refused_when_the_agent_is_made(given: object) -> None:
    with pytest.raises(ConfigurationError, match="output_type"):
        AIAgent(provider=ScriptedProvider([]), output_type=given)  # type: ignore[arg-type]


class Node(msgspec.Struct):
    value: int
    next: Node | None = None


def test_a_recursive_type_keeps_its_definition() -> None:
    contract = read_output_type(Node)
    assert contract is not None
    schema = msgspec.json.decode(contract.schema)
    assert (schema["type"], set(schema["$defs"])) == ("object", {"Node"})
    assert contract.parse('{"value": 1, "next": {"value": 2}}') == Node(1, Node(2))
