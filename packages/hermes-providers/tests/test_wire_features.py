"""What every wire can do, each in its own form: names, schemas, answers in a form, parameters."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from all_wires import WIRES, Block, model_of, provider_for, refused, streamed
from byte_server import ByteServer, plain, stream
from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    ChatResponse,
    ErrorKind,
    FinishReason,
    History,
    JsonValue,
    Message,
    ProviderError,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hermes_messages.parts import AudioPart, FilePart, OpaquePart, Part, TextPart
from hermes_providers.wire.base import WireSettings
from hermes_providers.wire.formats import make_wire
from hermes_providers.wire.output_tool import OUTPUT_TOOL, OUTPUT_VALUE_TOOL
from hermes_providers.wire.tool_names import original_names, wire_tool_name
from wire_help import SPEC, answer, run


async def answered(
    wire: str, blocks: Sequence[Block], request: ChatRequest, **settings: object
) -> tuple[ChatResponse, dict[str, object]]:
    """What a host of `wire` that says `blocks` makes of a request, and the body that it got."""
    async with ByteServer([stream(*streamed(wire, blocks))]) as server:
        provider = provider_for(wire, server.base_url, **settings)
        response = await answer(provider, request)
        await provider.close()
        return response, server.requests[0].json()


def asked(wire: str, *messages: Message, **more: object) -> ChatRequest:
    history = History.of(messages or (UserMessage("hi"),))
    return msgspec.structs.replace(ChatRequest(model=model_of(wire), history=history), **more)


def declared(wire: str, body: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """The tools of a body: name to schema."""
    tools = json.loads(json.dumps(body))["tools"]
    match wire:
        case "openai_chat":
            return {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
        case "openai_responses":
            return {tool["name"]: tool["parameters"] for tool in tools}
        case "anthropic_messages":
            return {tool["name"]: tool["input_schema"] for tool in tools}
        case _:
            return {tool["name"]: tool.get("parameters", {}) for tool in tools[0]["functionDeclarations"]}


NAME_RULES = {
    "openai_chat": r"[a-zA-Z0-9_-]{1,64}",
    "openai_responses": r"[a-zA-Z0-9_-]{1,64}",
    "anthropic_messages": r"[a-zA-Z0-9_-]{1,128}",
    "gemini": r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}",
}
ODD_NAMES = ["mcp.server/read file", "天气", "9lives", "x" * 200, "a b", "a/b", "fine_name", "-dash", "é"]


@pytest.mark.parametrize("wire", WIRES)
def test_tool_names_that_a_host_refuses_are_mapped_and_mapped_back(wire: str) -> None:
    tools = tuple(ToolSpec.from_schema(name, "", {"type": "object"}) for name in ODD_NAMES)

    async def main() -> None:
        for name in ODD_NAMES:
            _, body = await answered(wire, [("text", ["ok"])], asked(wire, tools=tools))
            names = list(declared(wire, body))
            assert len(set(names)) == len(ODD_NAMES)
            assert all(re.fullmatch(NAME_RULES[wire], sent) for sent in names), names
            assert "fine_name" in names
            mapped = names[ODD_NAMES.index(name)]
            response, _ = await answered(wire, [(mapped, ['{"q":1}'])], asked(wire, tools=tools))
            message = response.message
            assert [call.name for call in message.tool_calls] == [name]

            # The old call and its result go back under the mapped name, also when the items are replayed.
            history = (UserMessage("hi"), message, ToolMessage(message.tool_calls[0].id, "42", name))
            for origin_kept in (message, msgspec.structs.replace(message, replay=None)):
                again = (history[0], origin_kept, history[2])
                _, body = await answered(wire, [("text", ["ok"])], asked(wire, *again, tools=tools))
                text = json.dumps(body, ensure_ascii=False)
                assert text.count(f'"name": "{mapped}"') >= 2
                assert f'"name": "{name}"' not in text or name == mapped

    run(main())


LONG = Raw(b'{"type":"blob","source":{"data":"' + b"A" * 5_000 + b'"}}')


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (FilePart(filename="plan.docx", data="data:application/msword;base64,AAAA"), "plan.docx"),
        (AudioPart("AAAA", "wav"), "wav"),
        (OpaquePart(Raw(b'{"type":"output_text","text":"21 degrees"}')), "21 degrees"),
        (OpaquePart(Raw(b'{"type":"json","json":{"degrees":21}}')), '\\"json\\"'),
        (OpaquePart(LONG), "of another form"),
    ],
)
@pytest.mark.parametrize("wire", WIRES)
def test_a_result_without_text_and_image_is_not_one_without_output(wire: str, part: Part, said: str) -> None:
    made = make_wire(wire, WireSettings(base_url="http://host/v1", provider="p", host="host"))
    asking = AssistantMessage(tool_calls=(ToolCall("a", "f", "{}"),))
    for parts in ((part,), (TextPart("Found:"), part)):
        request = asked(wire, UserMessage("go"), asking, ToolMessage("a", parts))
        body = made.builder.build(request).decode()
        assert said in body
        assert "(no output)" not in body
        assert ("Found:" in body) == (len(parts) > 1)
        assert "AAAA" not in body


@pytest.mark.parametrize("status", ["ok", "error"])
@pytest.mark.parametrize("wire", WIRES)
def test_what_is_told_of_a_part_stands_in_its_place_and_apart_from_the_text(
    wire: str, status: Literal["ok", "error"]
) -> None:
    made = make_wire(wire, WireSettings(base_url="http://host/v1", provider="p", host="host"))
    asking = AssistantMessage(tool_calls=(ToolCall("a", "f", "{}"),))
    foreign = OpaquePart(Raw(b'{"type":"output_text","text":"21 degrees"}'))
    parts = (TextPart("Now:"), foreign, TextPart("The fo"), TextPart("recast:"), foreign)
    request = asked(wire, UserMessage("go"), asking, ToolMessage("a", parts, status=status))
    assert r'"Now:\n21 degrees\nThe forecast:\n21 degrees"' in made.builder.build(request).decode()


@given(names=st.sets(st.text(min_size=1, max_size=200), min_size=1, max_size=20))
@pytest.mark.parametrize("wire", WIRES)
def test_mapped_names_fit_stay_apart_and_are_stable(wire: str, names: set[str]) -> None:
    made = make_wire(wire, WireSettings(base_url="http://host/v1", provider="p", host="host"))
    mapped = {name: wire_tool_name(name, made.tool_names) for name in names}
    assert len(set(mapped.values())) == len(names)
    for name, sent in mapped.items():
        assert re.fullmatch(NAME_RULES[wire], sent), (name, sent)
        assert wire_tool_name(sent, made.tool_names) == sent  # an admitted name is never mapped
    tools = [ToolSpec.from_schema(name, "", {}) for name in names]
    back = original_names(tools, made.tool_names)
    assert {name: back.get(sent, sent) for name, sent in mapped.items()} == {name: name for name in names}


UNION: dict[str, JsonValue] = {
    "description": "Closes or moves.",
    "type": "object",
    "properties": {"id": {"type": "string"}},
    "required": ["id"],
    "oneOf": [
        {
            "properties": {"how": {"const": "close"}, "reason": {"type": "string"}},
            "required": ["how", "reason"],
        },
        {"properties": {"how": {"const": "move"}, "to": {"type": "string"}}, "required": ["how", "to"]},
    ],
}


@pytest.mark.parametrize("wire", WIRES)
def test_schemas_with_variants_at_the_top_become_one_object(wire: str) -> None:
    schemas: list[dict[str, JsonValue]] = [
        UNION,
        {"anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}]},
        {"allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"required": ["b"]}]},
        {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {"a": {"type": "string"}}}}},
        {"type": "object", "properties": {"a": {"type": "string"}}, "not": {"required": ["a", "b"]}},
        {},
    ]
    tools = tuple(ToolSpec.from_schema(f"t{at}", "", schema) for at, schema in enumerate(schemas))

    async def main() -> None:
        _, body = await answered(wire, [("text", ["ok"])], asked(wire, tools=tools))
        for schema in declared(wire, body).values():
            assert not {"anyOf", "oneOf", "allOf", "not", "$ref", "enum"} & set(schema)
            if wire != "gemini" or schema:  # there, an object without fields is said by nothing
                assert str(schema["type"]).lower() == "object"
        union = declared(wire, body)["t0"]
        assert isinstance(union["properties"], dict)
        assert set(union["properties"]) == {"id", "how", "reason", "to"}
        assert set(union["required"]) == {"id", "how"}  # type: ignore[call-overload]
        words = json.dumps(union["properties"]["how"])
        assert "close" in words
        assert "move" in words
        if wire != "gemini":
            assert "reason" in str(union["description"])
        assert set(declared(wire, body)["t2"]["properties"]) == {"a"}  # type: ignore[call-overload]
        assert "a" in declared(wire, body)["t3"]["properties"]  # type: ignore[operator]

    run(main())


@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_by_a_tool_is_the_text_of_the_message(wire: str) -> None:
    schema = Raw(b'{"type":"object","properties":{"city":{"type":"string"}}}')
    request = asked(wire, response_schema=schema)

    async def main() -> None:
        blocks: list[Block] = [(OUTPUT_TOOL, ['{"city"', ':"Oslo"}'])]
        quirks = {"response_format": "output_tool"}
        response, body = await answered(wire, blocks, request, quirks=quirks)
        assert isinstance(response.message.content, str)
        assert json.loads(response.message.content) == {"city": "Oslo"}
        assert response.message.tool_calls == ()
        assert response.finish is FinishReason.STOP
        assert list(declared(wire, body)) == [OUTPUT_TOOL]
        assert OUTPUT_TOOL in json.dumps(
            {k: v for k, v in body.items() if k in {"tool_choice", "toolConfig"}}
        )

        # Beside tools nothing is forced: the model may call them first.
        with_tools = msgspec.structs.replace(request, tools=(SPEC,))
        response, body = await answered(wire, [("read_file", ['{"path":"x"}'])], with_tools, quirks=quirks)
        assert [call.name for call in response.message.tool_calls] == ["read_file"]
        assert list(declared(wire, body)) == ["read_file", OUTPUT_TOOL]
        assert "tool_choice" not in body
        assert "toolConfig" not in body

        # And the answer goes back as an ordinary one.
        said, _ = await answered(wire, blocks, with_tools, quirks=quirks)
        history = (UserMessage("hi"), said.message, UserMessage("more"))
        _, body = await answered(wire, [("text", ["ok"])], asked(wire, *history), quirks=quirks)
        assert "Oslo" in json.dumps(body)
        assert OUTPUT_TOOL not in json.dumps(body)

    run(main())


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (
            {"type": "array", "items": {"type": "string"}},
            ["Oslo", 'a "}] \\'],
        ),
        ({"anyOf": [{"type": "object", "required": ["a"]}, {"type": "null"}]}, {"a": {"value": [1]}}),
        ({"type": "string"}, "Oslo"),
    ],
)
def test_an_answer_by_a_tool_that_is_no_object_is_wrapped_and_unwrapped(
    wire: str, schema: object, said: object
) -> None:
    async def main() -> None:
        arguments = json.dumps({"value": said})
        blocks: list[Block] = [(OUTPUT_VALUE_TOOL, [arguments[:5], arguments[5:12], arguments[12:]])]
        request = asked(wire, response_schema=Raw(json.dumps(schema).encode()))
        response, body = await answered(wire, blocks, request, quirks={"response_format": "output_tool"})
        assert isinstance(response.message.content, str)
        assert json.loads(response.message.content) == said
        assert response.message.tool_calls == ()
        assert response.finish is FinishReason.STOP
        sent = declared(wire, body)
        assert list(sent) == [OUTPUT_VALUE_TOOL]
        assert list(sent[OUTPUT_VALUE_TOOL]["properties"]) == ["value"]  # type: ignore[call-overload]
        assert OUTPUT_VALUE_TOOL in json.dumps(
            {k: v for k, v in body.items() if k in {"tool_choice", "toolConfig"}}
        )

    run(main())


@pytest.mark.parametrize("wire", WIRES)
def test_reasoning_in_the_text_by_quirk(wire: str) -> None:
    async def main() -> None:
        tagged: list[Block] = [("text", ["<thi", "nk>plan</th", "ink>Done"])]
        begun: list[Block] = [("text", ["pl", "an</th", "ink>Done"])]
        on, off = {"think_tags": True}, {"think_tags": False}
        response, _ = await answered(wire, tagged, asked(wire), quirks=on)
        assert (response.message.reasoning, response.message.content) == ("plan", "Done")
        response, _ = await answered(wire, tagged, asked(wire), quirks=off)
        assert (response.message.reasoning, response.message.content) == (None, "<think>plan</think>Done")
        response, _ = await answered(wire, begun, asked(wire), quirks={**on, "starts_inside": True})
        assert (response.message.reasoning, response.message.content) == ("plan", "Done")
        response, _ = await answered(wire, begun, asked(wire), quirks=on)
        assert response.message.content == "plan</think>Done"

    run(main())


FIELDS: dict[str, object] = {"temperature": 0.5, "seed": 7, "stop": ("END",), "parallel_tool_calls": False}
SENT_AS = {
    "openai_chat": {"temperature", "seed", "stop", "parallel_tool_calls"},
    "openai_responses": {"temperature", "parallel_tool_calls"},
    "anthropic_messages": {"temperature", "stop_sequences"},
    "gemini": {"temperature", "seed", "stopSequences"},
}


@pytest.mark.parametrize("wire", WIRES)
def test_parameters_that_a_wire_does_not_have_are_left_out_and_told(wire: str) -> None:
    async def main() -> None:
        request = asked(wire, tools=(SPEC,), **FIELDS)
        _, body = await answered(wire, [("text", ["ok"])], request)
        known = {"temperature", "seed", "stop", "stop_sequences", "stopSequences", "parallel_tool_calls"}
        config = body.get("generationConfig", {})
        assert isinstance(config, dict)
        assert known & (set(body) | set(config)) == SENT_AS[wire]
        provider = provider_for(wire, "http://127.0.0.1:9/v1")
        expected = {
            "openai_chat": set(),
            "openai_responses": {"seed", "stop"},
            "anthropic_messages": {"seed"},  # parallel calls have another name there
            "gemini": {"parallel_tool_calls"},
        }
        assert provider.left_out_parameters(model_of(wire)) == expected[wire]

    run(main())


def test_a_host_of_responses_may_have_a_seed_and_stops() -> None:
    async def main() -> None:
        wire = "openai_responses"
        quirks = {"seed_option": True, "stop_option": True}
        _, body = await answered(wire, [("text", ["ok"])], asked(wire, **FIELDS), quirks=quirks)
        assert (body["seed"], body["stop"]) == (7, ["END"])

    run(main())


REFUSABLE = {
    "openai_chat": ["temperature", "seed", "stop", "reasoning_effort", "stream_options", "max_tokens"],
    "openai_responses": ["temperature", "reasoning", "include", "max_output_tokens", "parallel_tool_calls"],
    "anthropic_messages": ["temperature", "stop_sequences", "cache_control"],
    "gemini": ["temperature", "seed", "stopSequences", "thinkingConfig", "maxOutputTokens"],
}


@pytest.mark.parametrize(("wire", "parameter"), [(wire, name) for wire in WIRES for name in REFUSABLE[wire]])
def test_a_refused_parameter_is_left_out_when_the_same_request_is_sent_again(
    wire: str, parameter: str
) -> None:
    async def main() -> None:
        effort = {} if wire == "anthropic_messages" else {"reasoning_effort": "low"}
        request = asked(wire, tools=(SPEC,), max_tokens=500, **effort, **FIELDS)
        scripts = [
            plain(refused(wire, parameter), "400 Bad Request"),
            stream(*streamed(wire, [("text", ["ok"])])),
        ]
        async with ByteServer(scripts) as server:
            provider = provider_for(wire, server.base_url, quirks=dict(EXTRA_QUIRKS.get(parameter, {})))
            with pytest.raises(ProviderError) as caught:
                await answer(provider, request)
            error = caught.value
            assert (error.kind, error.left_out) == (ErrorKind.UNSUPPORTED_PARAMETER, True)
            assert error.parameter is not None
            assert len(server.requests) == 1  # nothing is sent again in secret
            assert (await answer(provider, request)).message.content == "ok"
            first, second = (sent.body.decode() for sent in server.requests)
            assert f'"{parameter}"' in first
            assert f'"{parameter}"' not in second
            other = msgspec.structs.replace(request, model=request.model + "-other")
            await answer(provider, other)
            assert f'"{parameter}"' in server.requests[2].body.decode()  # remembered for that model alone
            await provider.close()

    run(main())


EXTRA_QUIRKS: dict[str, dict[str, object]] = {"reasoning": {"reasoning_summary": "auto"}}
