"""Requests on the Responses wire, byte for byte."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    ConfigurationError,
    ErrorKind,
    History,
    Message,
    MessageLog,
    ProviderError,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    encode_messages,
)
from hermes_messages.parts import AudioPart, FilePart, ImagePart, OpaquePart, Origin, Replay, TextPart
from hermes_providers.refusals import Refusals
from hermes_providers.wire.base import WireSettings
from hermes_providers.wire.openai_responses_format import make_wire
from hermes_providers.wire.openai_responses_quirks import ResponsesQuirks
from hermes_providers.wire.openai_responses_request import ResponsesRequestBuilder
from wire_help import SPEC, ask

PICTURE = ImagePart("data:image/png;base64,AAAA")
CALL = ToolCall("call_1", "read_file", '{"path": "x"}')
HOME = Origin("openai", "host.example", "m-1")
REASONING: dict[str, object] = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [],
    "content": [],
    "encrypted_content": "gAAA=",
    "status": None,
}
CALL_ITEM = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "arguments": '{"path": "x"}',
    "call_id": "call_1",
    "name": "read_file",
}


def builder(quirks: ResponsesQuirks | None = None, **more: Any) -> ResponsesRequestBuilder:
    settings = WireSettings(
        base_url="https://host.example/v1", provider="openai", host="host.example", quirks=quirks, **more
    )
    made = make_wire(settings).builder
    assert isinstance(made, ResponsesRequestBuilder)
    return made


def body(*messages: Message, quirks: ResponsesQuirks | None = None, **more: Any) -> dict[str, Any]:
    value = json.loads(builder(quirks).build(ask(*messages, **more)))
    assert isinstance(value, dict)
    return value


def items(*messages: Message, **quirks: Any) -> list[dict[str, Any]]:
    found = body(*messages, quirks=ResponsesQuirks(**quirks))["input"]
    assert isinstance(found, list)
    return found


def replayed(*blocks: object, origin: Origin = HOME, wire: str = "openai_responses") -> Replay:
    return Replay(origin, wire, tuple(Raw(msgspec.json.encode(block)) for block in blocks))


def text_item(text: str, **more: object) -> dict[str, object]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {
        "id": "msg_1",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [part],
        **more,
    }


def round_with(replay: Replay | None, content: str | None = None, *calls: ToolCall) -> list[Message]:
    calls = calls or (CALL,)
    results = [ToolMessage(call.id, "done") for call in calls]
    return [UserMessage("hi"), AssistantMessage(content, tool_calls=calls, replay=replay), *results]


def test_whole_body_of_a_tool_round() -> None:
    request = ask(
        SystemMessage("be brief"),
        UserMessage("read x"),
        AssistantMessage("Looking.", tool_calls=(CALL,)),
        ToolMessage("call_1", "content of x"),
        tools=(SPEC,),
        temperature=0.5,
        max_tokens=100,
        reasoning_effort="low",
        session_id="s-1",
    )
    assert builder().build(request) == (
        b'{"model":"m-1","stream":true,"store":false,"include":["reasoning.encrypted_content"],'
        b'"max_output_tokens":100,"temperature":0.5,"reasoning":{"effort":"low"},"prompt_cache_key":"s-1",'
        b'"instructions":"be brief","input":['
        b'{"type":"message","role":"user","content":"read x"},'
        b'{"type":"message","role":"assistant","content":"Looking."},'
        b'{"type":"function_call","call_id":"call_1","name":"read_file","arguments":"{\\"path\\": \\"x\\"}"},'
        b'{"type":"function_call_output","call_id":"call_1","output":"content of x"}'
        b'],"tools":[{"type":"function","name":"read_file","description":"Read a text file.",'
        b'"parameters":{"type":"object","properties":{"path":{"type":"string"}}},"strict":false}]}'
    )
    assert builder().url(request) == "https://host.example/v1/responses"


def test_leading_system_messages_are_joined_into_instructions() -> None:
    sent = body(SystemMessage("A"), SystemMessage(" "), SystemMessage("B"), UserMessage("hi"))
    assert sent["instructions"] == "A\n\nB"
    assert [item["role"] for item in sent["input"]] == ["user"]


def test_blank_system_message_is_left_out() -> None:
    assert "instructions" not in body(SystemMessage(" \n"), UserMessage("hi"))


@pytest.mark.parametrize("role", ["system", "developer"])
def test_system_text_as_a_first_message_where_a_host_has_no_instructions(role: Any) -> None:
    sent = body(SystemMessage("A"), UserMessage("hi"), quirks=ResponsesQuirks(system_as=role))
    assert "instructions" not in sent
    assert sent["input"][0] == {"type": "message", "role": role, "content": "A"}


def test_late_system_message_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(ProviderError, match="only the first") as caught:
        body(UserMessage("hi"), SystemMessage("late"))
    assert caught.value.kind is ErrorKind.FORMAT


@pytest.mark.parametrize("messages", [[SystemMessage("A")], [AssistantMessage("")]])
def test_conversation_with_nothing_to_send_is_refused(messages: list[Message]) -> None:
    with pytest.raises(ProviderError, match="nothing to send"):
        body(*messages)


@pytest.mark.parametrize("content", [None, "", " \n", (TextPart(" "),)])
def test_empty_assistant_turn_of_a_failed_stream_is_not_sent(content: Any) -> None:
    sent = items(UserMessage("a"), AssistantMessage(content), UserMessage("b"))
    assert [item["role"] for item in sent] == ["user", "user"]


def test_whitespace_only_text_blocks_are_dropped() -> None:
    assert items(UserMessage((TextPart(" \n"), PICTURE)))[0]["content"] == [
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"}
    ]


def test_blank_user_turn_keeps_its_place() -> None:
    assert items(UserMessage("  "))[0]["content"] == "(empty message)"


def test_parts_of_a_user_message() -> None:
    content = (
        TextPart("look"),
        ImagePart("https://host.example/a.png", detail="low"),
        FilePart(filename="a.pdf", data="data:application/pdf;base64,AAAA"),
        FilePart(file_id="file-1"),
        AudioPart("AAAA", "wav"),
        OpaquePart(Raw(b'{"type":"input_video","x":1}')),
    )
    assert items(UserMessage(content))[0]["content"] == [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": "https://host.example/a.png", "detail": "low"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"},
        {"type": "input_file", "file_id": "file-1"},
        {"type": "input_text", "text": "(a sound, which this model can not hear)"},
        {"type": "input_video", "x": 1},
    ]


def test_image_only_tool_result_has_a_text_in_front() -> None:
    sent = items(*round_with(None)[:2], ToolMessage("call_1", (PICTURE,)))
    assert sent[-1]["output"] == [
        {"type": "input_text", "text": "(image)"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"},
    ]


def test_image_of_a_tool_result_moves_behind_all_results_where_a_host_wants_text() -> None:
    calls = (CALL, ToolCall("call_2", "read_file", "{}"))
    sent = items(
        UserMessage("hi"),
        AssistantMessage(tool_calls=calls),
        ToolMessage("call_1", (TextPart("a"), PICTURE)),
        ToolMessage("call_2", "b"),
        tool_images=False,
    )
    assert [item["type"] for item in sent[-3:]] == ["function_call_output", "function_call_output", "message"]
    assert isinstance(sent[-3]["output"], str)
    assert sent[-1]["content"][1]["type"] == "input_image"


@pytest.mark.parametrize("content", ["", " \n", ()])
def test_tool_result_without_text(content: Any) -> None:
    assert items(*round_with(None)[:2], ToolMessage("call_1", content))[-1]["output"] == "(no output)"


def test_ids_of_another_host_are_mapped_the_same_way_on_call_and_result() -> None:
    foreign = "call_abc|fc_HIR/d_iG" + "x" * 60
    other = foreign + "y"
    calls = (ToolCall(foreign, "f", "{}"), ToolCall(other, "f", "{}"))
    sent = items(*round_with(None, None, *calls))
    ids = [item["call_id"] for item in sent if "call_id" in item]
    assert ids[:2] == ids[2:]
    assert len(set(ids)) == 2
    assert all(len(one) <= 64 and one.replace("_", "").replace("-", "").isalnum() for one in ids)


def test_ids_that_a_host_uses_again_in_each_round_are_made_to_differ() -> None:
    sent = items(*round_with(None), *round_with(None))
    ids = [item["call_id"] for item in sent if "call_id" in item]
    assert ids[:2] == ["call_1", "call_1"]
    assert ids[2] == ids[3] != "call_1"


def test_valid_id_of_another_host_stays() -> None:
    assert items(*round_with(None))[1]["call_id"] == "call_1"


def test_broken_arguments_of_another_host_are_sent_as_valid_json() -> None:
    sent = items(*round_with(None, None, ToolCall("a", "f", '{"x": 1')))
    assert isinstance(json.loads(sent[1]["arguments"]), dict)


def test_output_items_go_back_verbatim_in_order_and_with_empty_arrays() -> None:
    replay = replayed(REASONING, text_item("Looking.", phase="commentary"), CALL_ITEM)
    sent = items(*round_with(replay, "Looking."))
    assert sent[1:] == [
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [], "encrypted_content": "gAAA="},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Looking.", "annotations": [], "logprobs": []}],
            "status": "completed",
            "phase": "commentary",
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "read_file",
            "arguments": '{"path": "x"}',
            "status": "completed",
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "done"},
    ]


def test_interleaved_reasoning_and_calls_keep_their_order() -> None:
    second = ToolCall("call_2", "read_file", "{}")
    item = {**CALL_ITEM, "id": "fc_2", "call_id": "call_2", "arguments": "{}"}
    replay = replayed(REASONING, CALL_ITEM, {**REASONING, "id": "rs_2"}, item)
    sent = items(*round_with(replay, None, CALL, second))
    assert [one.get("id") for one in sent[1:5]] == ["rs_1", "fc_1", "rs_2", "fc_2"]


def test_reasoning_item_without_summary_gets_an_empty_one() -> None:
    bare = {"id": "rs_1", "type": "reasoning", "encrypted_content": "g"}
    assert items(*round_with(replayed(bare, CALL_ITEM)))[1]["summary"] == []


def test_output_only_fields_are_not_sent_as_input() -> None:
    extra = {**CALL_ITEM, "parsed_arguments": {"path": "x"}, "created_by": "me"}
    sent = items(*round_with(replayed(REASONING, extra)))
    assert {"parsed_arguments", "created_by"}.isdisjoint(sent[2])


def test_item_of_a_hosted_tool_goes_back_as_it_came() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
    assert items(*round_with(replayed(REASONING, search, CALL_ITEM)))[2] == search


@pytest.mark.parametrize(
    "replay",
    [
        replayed(REASONING, CALL_ITEM, origin=Origin("openai", "host.example", "other-model")),
        replayed(REASONING, CALL_ITEM, origin=Origin("azure", "else.example", "m-1")),
        replayed(REASONING, CALL_ITEM, wire="openai_chat"),
        replayed({**REASONING, "encrypted_content": None}, CALL_ITEM),
        replayed(REASONING),
        replayed(REASONING, {**CALL_ITEM, "arguments": '{"path": "y"}'}),
        replayed(REASONING, CALL_ITEM, text_item("I said more.")),
        replayed(CALL_ITEM, REASONING),
        replayed("nonsense", CALL_ITEM),
    ],
    ids=[
        "other model",
        "other host",
        "other wire",
        "not encrypted",
        "reasoning alone",
        "call edited",
        "text edited",
        "reasoning last",
        "broken",
    ],
)
def test_items_go_back_all_or_none(replay: Replay) -> None:
    assert items(*round_with(replay))[1:] == [
        {"type": "function_call", "call_id": "call_1", "name": "read_file", "arguments": '{"path": "x"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "done"},
    ]


def test_plain_reasoning_goes_back_where_the_host_wants_it() -> None:
    thought = {
        "type": "reasoning",
        "id": "r",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "hm"}],
    }
    assert items(*round_with(replayed(thought, CALL_ITEM)), replay="always")[1] == thought
    assert items(*round_with(replayed(REASONING, CALL_ITEM)), replay="never")[1]["type"] == "function_call"


def test_building_changes_nothing_in_the_history() -> None:
    messages: list[Message] = [*round_with(replayed(REASONING, CALL_ITEM)), UserMessage("y")]
    before = encode_messages(messages)
    body(*messages)
    assert encode_messages(messages) == before


def test_tool_options_only_with_tools() -> None:
    without = body(tool_choice="required", parallel_tool_calls=True)
    assert {"tools", "tool_choice", "parallel_tool_calls"}.isdisjoint(without)
    with_tools = body(tools=(SPEC,), tool_choice="required", parallel_tool_calls=False)
    assert (with_tools["tool_choice"], with_tools["parallel_tool_calls"]) == ("required", False)


def test_wire_without_seed_and_stop_sequences_leaves_them_out() -> None:
    assert {"seed", "stop"}.isdisjoint(body(seed=1, stop=("END",)))


def test_schema_of_the_answer() -> None:
    schema = Raw(b'{"type":"object","properties":{"a":{"type":"integer"}}}')
    assert body(response_schema=schema)["text"] == {
        "format": {"type": "json_schema", "name": "answer", "schema": json.loads(bytes(schema))}
    }
    careful = ResponsesQuirks(response_format="without_tools")
    assert "text" not in body(response_schema=schema, tools=(SPEC,), quirks=careful)
    assert "text" in body(response_schema=schema, quirks=careful)


@pytest.mark.parametrize("model", ["gpt-4.1-mini", "gpt-4o", "gpt-5-chat-latest"])
def test_encrypted_reasoning_is_not_asked_of_models_that_refuse_it(model: str) -> None:
    request = ChatRequest(model=model, history=History.of([UserMessage("hi")]))
    assert "include" not in json.loads(builder().build(request))


def test_refused_include_is_left_out_from_then_on() -> None:
    refusals = Refusals()
    made = builder(refusals=refusals)
    assert "include" in json.loads(made.build(ask()))
    assert refusals.note("m-1", "include")
    assert "include" not in json.loads(made.build(ask()))


@pytest.mark.parametrize(
    ("model", "asked", "sent"),
    [
        ("gpt-6.2-sol", "none", "low"),
        ("gpt-6-astra", "minimal", "low"),
        ("gpt-6-luna", "none", "none"),
        ("gpt-6-sol", "minimal", "low"),
        ("gpt-5.4-mini", "minimal", "low"),
        ("gpt-5.2-2025-12-11", "none", "none"),
        ("gpt-5-mini", "none", "minimal"),
        ("gpt-5-2025-08-07", "minimal", "minimal"),
        ("gpt-6.2-sol", "high", "high"),
        ("of-another-host", "minimal", "minimal"),
    ],
)
def test_low_effort_that_a_model_refuses_becomes_the_lowest_that_it_has(
    model: str, asked: Any, sent: str
) -> None:
    assert body(model=model, reasoning_effort=asked)["reasoning"] == {"effort": sent}


@pytest.mark.parametrize(
    ("model", "xhigh", "most"),
    [
        ("gpt-6.2-sol", "xhigh", "max"),
        ("gpt-6-luna", "xhigh", "max"),
        ("openai/gpt-5.6-terra", "xhigh", "max"),
        ("ft:gpt-5.6-luna:org", "xhigh", "max"),
        ("gpt-5.5-pro", "xhigh", "xhigh"),
        ("gpt-5.2-2025-12-11", "xhigh", "xhigh"),
        ("gpt-5.1-codex-max", "xhigh", "xhigh"),
        ("gpt-5.2-chat-latest", "high", "high"),
        ("gpt-5.6-chat-latest", "high", "high"),
        ("gpt-6.1-chat-latest", "high", "high"),
        ("gpt-5.1-codex", "high", "high"),
        ("gpt-5-pro", "high", "high"),
        ("gpt-5-mini", "high", "high"),
        ("gpt-35-turbo", "high", "high"),
        ("o4-mini", "high", "high"),
        ("grok-4.7", "xhigh", "xhigh"),
        ("grok-4.5", "high", "high"),
        ("of-another-host", "high", "high"),
    ],
)
def test_effort_above_high_becomes_the_highest_that_a_model_has(model: str, xhigh: str, most: str) -> None:
    assert body(model=model, reasoning_effort="xhigh")["reasoning"] == {"effort": xhigh}
    assert body(model=model, reasoning_effort="max")["reasoning"] == {"effort": most}


def test_a_host_of_other_models_may_say_what_efforts_they_have() -> None:
    quirks = ResponsesQuirks(strong_efforts=(("^new-", ("max",)),))
    assert body(model="new-1", reasoning_effort="xhigh", quirks=quirks)["reasoning"] == {"effort": "max"}
    assert body(model="old-1", reasoning_effort="xhigh", quirks=quirks)["reasoning"] == {"effort": "high"}


def test_reasoning_summary_is_asked_for_by_quirk() -> None:
    quirks = ResponsesQuirks(reasoning_summary="auto")
    assert body(reasoning_effort="high", quirks=quirks)["reasoning"] == {"effort": "high", "summary": "auto"}
    assert body(reasoning_effort="none", quirks=quirks)["reasoning"] == {"effort": "none"}
    assert "reasoning" not in body()


def test_extra_body_is_merged_last() -> None:
    extra = Raw(b'{"service_tier":"flex","store":true}')
    sent = body(extra_body=extra)
    assert (sent["service_tier"], sent["store"]) == ("flex", True)


@pytest.mark.parametrize("extra", [b'{"input":[]}', b'{"stream":false}', b"[1]"])
def test_extra_body_that_can_not_be_sent(extra: bytes) -> None:
    with pytest.raises(ConfigurationError):
        builder(extra_body=Raw(extra))
    with pytest.raises(ConfigurationError):
        body(extra_body=Raw(extra))


def test_lone_surrogates_do_not_stop_a_request() -> None:
    broken = "a\ud800b"
    messages: list[Message] = [
        UserMessage(broken),
        AssistantMessage(tool_calls=(ToolCall("a", "f", f'{{"x": "{broken}"}}'),)),
        ToolMessage("a", broken),
    ]
    assert body(*messages)["input"][0]["content"] == "a�b"


def test_count_body_has_only_what_counts() -> None:
    request = ask(UserMessage("hi"), tools=(SPEC,), max_tokens=5, temperature=1.0, session_id="s")
    assert set(json.loads(builder().count_body(request))) == {"model", "input", "tools"}
    settings = WireSettings(base_url="https://host.example/v1", provider="openai", host="host.example")
    counter = make_wire(settings).counter
    assert counter is not None
    assert counter.first(request).url == "https://host.example/v1/responses/input_tokens"
    assert counter.read(b'{"object":"response.input_tokens","input_tokens":11}') == 11
    assert counter.read(b"<html>") is None


def grown_conversation(rounds: int) -> list[Message]:
    messages: list[Message] = [SystemMessage("be brief")]
    for number in range(rounds):
        messages.append(UserMessage(f"question {number}"))
        call = {**CALL_ITEM, "id": f"fc_{number}", "call_id": f"call_{number}"}
        calls = (ToolCall(f"call_{number}", "read_file", '{"path": "x"}'),)
        messages.append(AssistantMessage(tool_calls=calls, replay=replayed(REASONING, call)))
        messages.append(ToolMessage(f"call_{number}", f"result {number}"))
        messages.append(AssistantMessage(f"answer {number}"))
    return messages


def common_prefix(left: bytes, right: bytes) -> int:
    return next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), len(left))


def test_consecutive_bodies_share_everything_up_to_the_end_of_the_input() -> None:
    log, made = MessageLog(), builder()
    previous = b""
    for message in grown_conversation(4):
        log.append(message)
        if isinstance(message, SystemMessage):
            continue
        request = ChatRequest(model="m-1", history=log.view(), tools=(SPEC,))
        current = made.build(request)
        # The open segment may still grow, so the end that counts is that of the list's last item.
        assert common_prefix(previous, current) >= previous.rfind(b'],"tools":')
        previous = current
    assert made.encode_calls < 60


@given(
    st.lists(
        st.sampled_from(
            [
                UserMessage("u"),
                UserMessage(" "),
                AssistantMessage("t"),
                AssistantMessage(""),
                *round_with(None)[1:],
                *round_with(replayed(REASONING, CALL_ITEM))[1:2],
            ]
        ),
        min_size=1,
    )
)
def test_growing_log_and_fresh_log_give_the_same_bytes(messages: list[Message]) -> None:
    log, kept = MessageLog([UserMessage("first")]), builder()
    for message in messages:
        log.append(msgspec.structs.replace(message))  # no log holds one object twice
        request = ChatRequest(model="m-1", history=log.view())
        again = kept.build(request)
        assert again == builder().build(ChatRequest(model="m-1", history=History.of(list(log.view()))))
        json.loads(again)
