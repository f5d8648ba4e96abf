"""A conversation that began on one wire goes on on every other one."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

import msgspec
import pytest

from all_wires import WIRES, Block, model_of, streamed
from byte_server import ByteServer, stream
from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    Message,
    MessageLog,
    SystemMessage,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hermes_messages.assembler import StreamAssembler
from hermes_messages.parts import ImagePart, Origin, TextPart
from hermes_messages.protocols import ProviderOptions
from hermes_providers import SSEParser, classify, from_profile, get_profile
from hermes_providers.wire.base import WireSettings
from hermes_providers.wire.formats import make_wire
from hermes_providers.wire.tool_names import original_names, wire_tool_name, with_original_name
from wire_help import KEY, ODD_SPEC, SPEC, answer, ask, run

SECRETS = ("c2ln", "gAAA=")
"""The signatures and the encrypted reasoning of the recorded answers."""

ROUND: list[Block] = [
    ("reasoning", ["a thought"]),
    ("text", ["I look."]),
    ("read_file", ['{"path":"a"}']),
    (ODD_SPEC.name, ['{"line":1}']),
]
IMAGE = ImagePart("data:image/png;base64,iVBORw0KGgo=")
IDS = {
    "openai_chat": re.compile(r".+"),
    "openai_responses": re.compile(r"[a-zA-Z0-9_-]{1,64}"),
    "anthropic_messages": re.compile(r"[a-zA-Z0-9_-]{1,64}"),
    "gemini": re.compile(r".+"),
}


def settings(wire: str) -> WireSettings:
    return WireSettings(base_url="http://host/v1", provider=wire, host=f"{wire}.example")


def answered(wire: str) -> AssistantMessage:
    made = make_wire(wire, settings(wire))
    reader = made.make_reader(partial(classify, 200, {}, now=0.0))
    names = original_names([SPEC, ODD_SPEC], made.tool_names)
    assembler = StreamAssembler(Origin(wire, f"{wire}.example", model_of(wire)), wire)
    parser = SSEParser()
    blocks = [(wire_tool_name(kind, made.tool_names), pieces) for kind, pieces in ROUND]
    ids = "x|fc_HIR/d_iG" * 6  # longer than most take, with characters that others refuse
    for event in (*parser.feed(b"".join(streamed(wire, blocks, ids=ids))), *parser.close()):
        for delta in reader.feed(event):
            assembler.feed(with_original_name(delta, names))
    for delta in reader.close():
        assembler.feed(delta)
    return assembler.finish(complete=reader.done).message


def conversation(wire: str) -> MessageLog:
    message = answered(wire)
    first, second = message.tool_calls
    log = MessageLog([SystemMessage("Be brief."), UserMessage("Read.")])
    log.append(message)
    log.append(ToolMessage(first.id, (TextPart("a picture"), IMAGE), first.name))
    log.append(ToolMessage(second.id, "no such line", second.name, status="error"))
    log.append(UserMessage("And now?"))
    return log


def ids_in(value: Any) -> list[str]:
    """The ids of calls and results, wherever a wire has them."""
    match value:
        case {"type": "tool_use", "id": str(one)} | {"tool_use_id": str(one)} | {"tool_call_id": str(one)}:
            return [one]
        case {"call_id": str(one)} | {"type": "function", "id": str(one)}:
            return [one]
        case {"functionCall": {"id": str(one)}} | {"functionResponse": {"id": str(one)}}:
            return [one]
        case dict():
            return [one for item in value.values() for one in ids_in(item)]
        case list():
            return [one for item in value for one in ids_in(item)]
        case _:
            return []


@pytest.mark.parametrize("then", WIRES)
@pytest.mark.parametrize("first", WIRES)
def test_what_one_host_made_can_be_sent_to_every_other(first: str, then: str) -> None:
    log = conversation(first)
    before = msgspec.json.encode(list(log.view()))
    made = make_wire(then, settings(then))
    body = made.builder.build(ChatRequest(model=model_of(then), history=log.view(), tools=(SPEC, ODD_SPEC)))
    sent = json.loads(body)
    text = json.dumps(sent, ensure_ascii=False)

    assert msgspec.json.encode(list(log.view())) == before  # only the request copy is different
    if first != then:
        assert not any(secret in text for secret in SECRETS)
        assert "a thought" not in text
    elif first != "openai_chat":
        assert any(secret in text for secret in SECRETS)  # what it made itself goes back
    for word in ("I look.", "a picture", "no such line", "And now?", "iVBORw0KGgo="):
        assert word in text, word
    assert ODD_SPEC.name not in text

    ids = ids_in(sent)
    assert len(ids) == 4
    assert len(set(ids)) == 2
    assert sorted(ids[:2]) == sorted(ids[2:])  # each result answers its call
    if first != then:
        assert all(IDS[then].fullmatch(one) for one in ids), ids


@pytest.mark.parametrize("wire", WIRES)
def test_back_on_the_first_host_everything_is_as_it_was(wire: str) -> None:
    log = conversation(wire)
    builder = make_wire(wire, settings(wire)).builder
    request = ChatRequest(model=model_of(wire), history=log.view(), tools=(SPEC, ODD_SPEC))
    at_home = builder.build(request)
    for other in WIRES:
        make_wire(other, settings(other)).builder.build(
            msgspec.structs.replace(request, model=model_of(other))
        )
    assert builder.build(request) == at_home


# Models of one host that speak another of its wires


@pytest.mark.parametrize(
    ("model", "wire"),
    [
        ("gpt-4.1-mini", "openai_chat"),
        ("gpt-5.2", "openai_chat"),
        ("ft:gpt-4.1-mini:acme::id", "openai_chat"),
        ("my-gpt-6", "openai_chat"),
        ("gpt-5.4-mini", "openai_responses"),
        ("gpt-5.10", "openai_responses"),
        ("gpt-6.2-sol", "openai_responses"),
        ("gpt-10", "openai_responses"),
        ("gpt-5-pro-2025-10-06", "openai_responses"),
        ("gpt-5.1-codex-max", "openai_responses"),
    ],
)
def test_models_that_take_functions_on_one_wire_only_are_asked_over_it(model: str, wire: str) -> None:
    def of(**more: Any) -> str:
        made = from_profile("openai", ProviderOptions(api_key=KEY, **more))
        return made._wire_of(model).name

    assert of() == of(base_url="https://api.openai.com/v1") == wire
    # What belongs to one wire keeps all models on it.
    assert of(settings={"wire": "openai_chat"}) == "openai_chat"
    assert of(settings={"wire": "openai_responses"}) == "openai_responses"
    assert of(settings={"quirks": {"names": False}}) == "openai_chat"
    assert of(settings={"extra_body": {"logprobs": True}}) == "openai_chat"
    assert of(base_url="https://gateway.example/v1") == "openai_chat"


def test_one_provider_asks_each_model_over_its_wire_and_reads_both_answers() -> None:
    async def main() -> None:
        async with ByteServer(
            [
                stream(*streamed(wire, [("text", ["Hello."])]))
                for wire in ("openai_chat", "openai_responses") * 2
            ]
        ) as server:
            openai = get_profile("openai")
            own = msgspec.structs.replace(openai, base_url=server.base_url)
            made = from_profile(own, ProviderOptions(api_key=KEY, settings={"headers": {"x-mine": "1"}}))
            conversation: list[Message] = []
            for model in ("gpt-5.2", "gpt-6.2-sol") * 2:
                conversation.append(UserMessage("hi"))
                request = ask(*conversation, model=model, tools=(SPEC,), seed=7, reasoning_effort="low")
                said = await answer(made, request)
                assert said.message.content == "Hello."
                conversation.append(said.message)
            await made.close()
            lines = [request.line.split()[1] for request in server.requests]
            assert lines == ["/v1/chat/completions", "/v1/responses"] * 2
            assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {KEY}"}
            assert {request.headers["x-mine"] for request in server.requests} == {"1"}
            chat, responses = (request.json() for request in server.requests[2:])
            assert (chat["reasoning_effort"], chat["seed"]) == ("low", 7)
            assert (responses["reasoning"], responses.get("seed")) == ({"effort": "low"}, None)
            assert made.left_out_parameters("gpt-5.2") == frozenset()
            assert "seed" in made.left_out_parameters("gpt-6.2-sol")

    run(main())


def test_a_call_gets_its_tools_name_back_when_another_wire_of_the_host_takes_longer_ones() -> None:
    """What was found for the one wire was held for true of the other."""
    tool = ToolSpec.from_schema("look_up_" + "x" * 80, "Looks something up.", {"type": "object"})
    wires = {"m-1": "openai_chat", "claude-1": "anthropic_messages"}

    async def main() -> None:
        rules = {wire: make_wire(wire, settings(wire)).tool_names for wire in wires.values()}
        asked = ["claude-1", "m-1"] * 2
        calls = [(wire, wire_tool_name(tool.name, rules[wire])) for wire in (wires[model] for model in asked)]
        assert len(set(calls)) == 2
        async with ByteServer([stream(*streamed(wire, [(name, ["{}"])])) for wire, name in calls]) as server:
            own = msgspec.structs.replace(
                get_profile("openai"),
                base_url=server.base_url,
                model_wires=(("^claude", "anthropic_messages"),),
            )
            made = from_profile(own, ProviderOptions(api_key=KEY))
            for model in asked:
                said = await answer(made, ask(UserMessage("hi"), model=model, tools=(tool,)))
                assert [call.name for call in said.message.tool_calls] == [tool.name], model
            await made.close()

    run(main())
