"""Requests on the Messages wire: messages, results, tools, thinking and the other options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from anthropic_help import MODEL, ask, body, builder, replay, unmarked, wire, wired
from anthropic_requests import CALL, CALL_2, CASES, HI, LIST, PICTURE, SCHEMA, SPEC, THINKING, USE, round_of
from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    ConfigurationError,
    ErrorKind,
    MessageLog,
    ProviderError,
    ReasoningEffort,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_messages.parts import Origin, TextPart
from hermes_providers.wire.anthropic_format import make_wire
from hermes_providers.wire.anthropic_quirks import AnthropicQuirks
from hermes_providers.wire.base import WireSettings

GOLDEN = Path(__file__).parent / "golden" / "anthropic"


@pytest.mark.parametrize("name", sorted(CASES))
def test_request_bytes_are_the_golden_ones(name: str) -> None:
    assert builder().build(CASES[name]) == (GOLDEN / f"{name}.json").read_bytes().rstrip(b"\n")


def test_results_of_a_round_are_one_user_message_with_the_results_first() -> None:
    messages = wired(HI, *round_of(CALL, CALL_2), UserMessage("go on"), tools=(SPEC, LIST))
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    kinds = [block["type"] for block in messages[2]["content"]]
    assert kinds == ["tool_result", "tool_result", "text"]
    assert [block["tool_use_id"] for block in messages[2]["content"][:2]] == ["toolu_1", "toolu_2"]


def test_roles_alternate_whatever_is_left_out() -> None:
    messages = wired(HI, UserMessage(" \n"), AssistantMessage("  "), UserMessage("still there?"))
    assert messages == [
        {
            "role": "user",
            "content": [{"type": "text", "text": "hi"}, {"type": "text", "text": "still there?"}],
        }
    ]


def test_empty_assistant_turn_left_by_a_failed_stream_is_not_sent() -> None:
    messages = wired(HI, AssistantMessage(""), UserMessage("again"))
    assert [message["role"] for message in messages] == ["user"]


def test_whitespace_only_text_block_is_dropped() -> None:
    answer = AssistantMessage((TextPart(" \n"), TextPart("")), tool_calls=(CALL,))
    content = wired(HI, answer, ToolMessage("toolu_1", " \n"))[1]["content"]
    assert [block["type"] for block in content] == ["tool_use"]
    assert wired(UserMessage((TextPart(" \n"), PICTURE)))[0]["content"][0]["type"] == "image"


def test_blank_texts_of_a_replayed_message_are_dropped() -> None:
    blocks = replay(THINKING, {"type": "text", "text": "\n\n"}, USE)
    content = wired(HI, *round_of(CALL, blocks=blocks, text="\n\n"), reasoning_effort="low")[1]["content"]
    assert [block["type"] for block in content] == ["thinking", "tool_use"]


def test_a_blank_user_turn_and_a_blank_result_still_say_something() -> None:
    messages = wired(UserMessage(" "), AssistantMessage(tool_calls=(CALL,)), ToolMessage("toolu_1", ""))
    assert messages[0]["content"] == [{"type": "text", "text": "(empty message)"}]
    assert messages[2]["content"][0]["content"] == "(no output)"


def test_a_conversation_that_begins_with_an_answer_gets_a_user_message_in_front() -> None:
    messages = wired(AssistantMessage("Welcome."), HI)
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]


@pytest.mark.parametrize("call_id", ["call_abc|fc_HIR/d_iG" + "x" * 60, "call 1", "functions.read:0", "ключ"])
def test_foreign_call_ids_are_mapped_alike_on_call_and_result(call_id: str) -> None:
    messages = wired(HI, *round_of(ToolCall(call_id, "read_file", "{}")))
    sent = messages[1]["content"][0]["id"]
    assert sent == messages[2]["content"][0]["tool_use_id"]
    assert set(sent) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
    assert 0 < len(sent) <= 64


def test_own_call_ids_stay_as_they_are() -> None:
    assert wired(HI, *round_of(CALL))[1]["content"][0]["id"] == "toolu_1"


def test_call_ids_that_repeat_between_rounds_become_unique() -> None:
    call = ToolCall("call_0", "read_file", "{}")
    messages = wired(HI, *round_of(call), *round_of(call), *round_of(call))
    calls = [block["id"] for message in messages[1::2] for block in message["content"]]
    results = [block["tool_use_id"] for message in messages[2::2] for block in message["content"]]
    assert calls == results
    assert len(set(calls)) == 3
    assert calls[0] == "call_0"


def test_repeated_ids_get_the_same_names_in_later_requests() -> None:
    made, log = builder(), MessageLog([HI, *round_of(CALL), *round_of(CALL)])
    before = unmarked(json.loads(made.build(ChatRequest(model=MODEL, history=log.view()))))
    log.extend(round_of(CALL_2))
    after = unmarked(json.loads(made.build(ChatRequest(model=MODEL, history=log.view()))))
    assert after["messages"][: len(before["messages"])] == before["messages"]


def test_arguments_go_as_the_object_with_the_bytes_of_the_model() -> None:
    call = ToolCall("toolu_1", "read_file", '{ "path":"x",  "n": 1.50 }')
    assert b'"input":{ "path":"x",  "n": 1.50 }' in builder().build(ask(HI, *round_of(call)))


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ("", {}),
        ('{"a":"x\ny"}', {"a": "x\ny"}),
        ('{}""', {}),
        ("[1", {"unreadable_arguments": "[1"}),
        ('{"a": "\ud800"}', {"a": "\ufffd"}),
    ],
)
def test_arguments_that_are_no_object_become_one_in_the_request(arguments: str, sent: object) -> None:
    assert wired(HI, *round_of(ToolCall("toolu_1", "f", arguments)))[1]["content"][0]["input"] == sent


def test_image_only_result_has_a_text_in_front() -> None:
    result = wired(HI, AssistantMessage(tool_calls=(CALL,)), ToolMessage("toolu_1", (PICTURE,)))[2][
        "content"
    ][0]
    assert [part["type"] for part in result["content"]] == ["text", "image"]
    assert "is_error" not in result


def test_images_of_failed_results_stand_behind_all_results() -> None:
    failed = ToolMessage("toolu_1", (TextPart("boom"), PICTURE), status="error")
    answer = AssistantMessage(tool_calls=(CALL, CALL_2))
    content = wired(HI, answer, failed, ToolMessage("toolu_2", "ok"))[2]["content"]
    assert [block["type"] for block in content] == ["tool_result", "tool_result", "image"]
    assert (content[0]["content"], content[0]["is_error"]) == ("boom", True)


def test_text_parts_of_a_result_are_one_string() -> None:
    content = (TextPart("a"), TextPart("b"))
    result = wired(HI, AssistantMessage(tool_calls=(CALL,)), ToolMessage("toolu_1", content))[2]["content"][0]
    assert result["content"] == "ab"


def test_system_text_is_top_level_and_comes_first_only() -> None:
    sent = unmarked(body(SystemMessage("A"), SystemMessage((TextPart("B"),)), SystemMessage(" "), HI))
    assert sent["system"] == [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]
    assert len(sent["messages"]) == 1
    with pytest.raises(ProviderError, match="system message stands behind") as caught:
        body(HI, SystemMessage("late"), HI)
    assert caught.value.kind is ErrorKind.FORMAT


def test_a_history_of_instructions_alone_can_not_be_sent() -> None:
    with pytest.raises(ProviderError, match="nothing to send"):
        body(SystemMessage("A"))


@pytest.mark.parametrize(
    ("choice", "sent"), [("auto", None), ("none", {"type": "none"}), ("required", {"type": "any"})]
)
def test_tool_choice(choice: Any, sent: object) -> None:
    assert body(HI, tools=(SPEC,), tool_choice=choice).get("tool_choice") == sent


def test_tool_options_need_tools() -> None:
    sent = body(HI, tool_choice="required", parallel_tool_calls=False)
    assert "tool_choice" not in sent
    assert "tools" not in sent


def test_models_that_refuse_a_forced_tool_are_asked_without_force() -> None:
    sent = body(HI, tools=(SPEC,), tool_choice="required", model="claude-sonnet-5-5")
    assert "tool_choice" not in sent


def test_a_call_without_tools_behind_tool_rounds_keeps_the_tools_and_forbids_them() -> None:
    made, log = builder(), MessageLog([HI, *round_of(CALL)])
    with_tools = json.loads(made.build(ChatRequest(model=MODEL, history=log.view(), tools=(SPEC, LIST))))
    log.append(UserMessage("Summarise."))
    without = json.loads(made.build(ChatRequest(model=MODEL, history=log.view())))
    assert without["tools"] == with_tools["tools"]
    assert without["tool_choice"] == {"type": "none"}
    unknown = body(HI, *round_of(CALL), HI)  # a history from elsewhere
    assert [tool["name"] for tool in unknown["tools"]] == ["read_file"]


def test_a_tool_schema_without_a_type_gets_one() -> None:
    assert body(HI, tools=(LIST,))["tools"][0]["input_schema"] == {"type": "object", "properties": {}}


BOUND = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}


@pytest.mark.parametrize(
    ("model", "effort", "sent"),
    [
        ("claude-opus-4-1-20250805", "high", {"type": "enabled", "budget_tokens": 12288}),
        ("claude-sonnet-4-20250514", "minimal", {"type": "enabled", "budget_tokens": 1024}),
        ("claude-haiku-4-5", "none", None),
        ("claude-opus-4-6", "low", {"type": "adaptive", "display": "summarized"}),
        ("claude-opus-4-7", "none", None),
        ("claude-opus-5", "none", {"type": "disabled"}),
        ("claude-sonnet-5-5", "none", {"type": "between_tools"}),
        ("claude-haiku-5-5", "none", {"type": "disabled"}),
        ("claude-opus-5-5", "none", {"type": "adaptive"} | BOUND),
        ("claude-haiku-5-5", None, {"type": "adaptive"} | BOUND),
        ("claude-fable-5-2", "high", {"type": "adaptive", "display": "summarized"} | BOUND),
        ("claude-fable-5-20260609", None, None),
        ("claude-3-5-haiku-latest", "high", None),
        ("claude-opus-5", None, None),
        ("some-other-model", "low", {"type": "enabled", "budget_tokens": 2048}),
    ],
)
def test_thinking_is_asked_for_in_the_form_of_the_model(model: str, effort: Any, sent: object) -> None:
    assert body(HI, model=model, reasoning_effort=effort).get("thinking") == sent


def test_thinking_whose_conversation_has_changed_is_left_out_where_that_may_be_asked_for() -> None:
    def sent(headers: dict[str, str] | None = None, **more: Any) -> tuple[bool, str | None]:
        quirks = AnthropicQuirks(**more)
        made = wire(quirks, headers=headers or {})
        thinking = json.loads(made.builder.build(ask(HI, model="claude-opus-5-5"))).get("thinking", {})
        return "block_binding" in thinking, made.headers.get("anthropic-beta")

    feature = "thinking-binding-controls-2026-08-01"
    assert sent() == (True, feature)
    assert sent(beta=("context-1m-2025-08-07",)) == (True, f"context-1m-2025-08-07,{feature}")
    assert sent(beta=(feature,)) == (True, feature)
    assert sent(block_binding="none") == (False, None)
    # The user's own header stands for the wire's: without the feature in it, the field would be refused.
    assert sent({"Anthropic-Beta": "fast-mode-2026-02-01"})[0] is False
    assert sent({"Anthropic-Beta": f"fast-mode-2026-02-01,{feature}"})[0] is True


def test_another_host_of_the_wire_is_not_asked_to_leave_thinking_out() -> None:
    def sent(**more: Any) -> bool:
        elsewhere = WireSettings(
            base_url="https://h.example", provider="x", host="h.example", quirks=AnthropicQuirks(**more)
        )
        return "thinking" in json.loads(make_wire(elsewhere).builder.build(ask(HI, model="claude-opus-5-5")))

    assert not sent()
    assert sent(block_binding="drop_block")


def test_effort_goes_with_adaptive_thinking_and_is_low_where_it_can_not_be_off() -> None:
    assert body(HI, model="claude-opus-5", reasoning_effort="minimal")["output_config"] == {"effort": "low"}
    assert body(HI, model="claude-fable-5", reasoning_effort="none")["output_config"] == {"effort": "low"}
    assert "output_config" not in body(HI, model="claude-opus-5", reasoning_effort="none")


@pytest.mark.parametrize(
    ("model", "xhigh", "most"),
    [
        ("claude-opus-5-5", "xhigh", "max"),
        ("claude-sonnet-5-5-20261001", "xhigh", "max"),
        ("claude-haiku-5-5", "xhigh", "max"),
        ("claude-fable-5-1", "xhigh", "max"),
        ("claude-fable-5", "xhigh", "max"),
        ("claude-opus-4.8", "xhigh", "max"),
        ("claude-opus-4-6", "max", "max"),
        ("claude-sonnet-4-6", "max", "max"),
        ("claude-mythos-preview", "max", "max"),
    ],
)
def test_effort_above_high_is_one_that_the_model_has_with_room_to_think(
    model: str, xhigh: str, most: str
) -> None:
    asked: tuple[tuple[ReasoningEffort, str], ...] = (("xhigh", xhigh), ("max", most))
    for effort, expected in asked:
        sent = body(HI, model=model, reasoning_effort=effort)
        assert (sent["output_config"], sent["max_tokens"]) == ({"effort": expected}, 64_000)
        assert body(HI, model=model, reasoning_effort=effort, max_tokens=900)["max_tokens"] == 900


def test_another_model_that_is_to_think_adaptively_gets_no_effort_above_high() -> None:
    quirks = AnthropicQuirks(thinking="adaptive")
    sent = json.loads(wire(quirks).builder.build(ask(HI, model="some-other-model", reasoning_effort="max")))
    assert (sent["output_config"], sent["max_tokens"]) == ({"effort": "high"}, 16_384)


@pytest.mark.parametrize(
    ("model", "xhigh", "most"),
    [
        ("claude-haiku-4-5", 24_576, 32_000),
        ("claude-sonnet-4-20250514", 24_576, 32_000),
        ("claude-3-7-sonnet-20250219", 24_576, 32_000),
        # These answer with 32,000 tokens at most, thoughts included.
        ("claude-opus-4-1-20250805", 15_616, 15_616),
        ("claude-opus-4@20250514", 15_616, 15_616),
        # Nothing is known of its limit: what "high" asks for is what it was asked for before.
        ("some-other-model", 12_288, 12_288),
    ],
)
def test_a_budget_above_high_stays_under_the_limit_of_the_model(model: str, xhigh: int, most: int) -> None:
    asked: tuple[tuple[ReasoningEffort, int], ...] = (("xhigh", xhigh), ("max", most))
    for effort, expected in asked:
        sent = body(HI, model=model, reasoning_effort=effort)
        assert sent["thinking"]["budget_tokens"] == expected
        assert sent["max_tokens"] == 16_384 + expected
        given = body(HI, model=model, reasoning_effort=effort, max_tokens=20_000)
        assert (given["max_tokens"], given["thinking"]["budget_tokens"]) == (20_000, 15_000)


def test_a_thinking_budget_comes_on_top_of_the_default_and_inside_a_given_limit() -> None:
    assert body(HI, reasoning_effort="high")["max_tokens"] == 16_384 + 12_288
    given = body(HI, reasoning_effort="high", max_tokens=4000)
    assert (given["max_tokens"], given["thinking"]["budget_tokens"]) == (4000, 3000)
    assert "thinking" not in body(HI, reasoning_effort="high", max_tokens=1000)


def test_thinking_pauses_in_a_round_that_began_without_it() -> None:
    foreign = round_of(CALL, blocks=replay(THINKING, USE, origin=Origin("x", "y", "z")))
    assert "thinking" not in body(HI, *foreign, reasoning_effort="low", tools=(SPEC,))
    own = round_of(CALL, blocks=replay(THINKING, USE))
    assert "thinking" in body(HI, *own, reasoning_effort="low", tools=(SPEC,))
    assert "thinking" in body(HI, *foreign, reasoning_effort="low", tools=(SPEC,), model="claude-opus-5")


def test_a_forced_tool_and_a_budget_do_not_meet() -> None:
    sent = body(HI, tools=(SPEC,), tool_choice="required", reasoning_effort="low")
    assert "thinking" not in sent
    assert sent["tool_choice"] == {"type": "any"}


def test_temperature_is_left_out_where_it_would_be_refused() -> None:
    assert body(HI, temperature=0.5)["temperature"] == 0.5
    assert "temperature" not in body(HI, temperature=0.5, reasoning_effort="low")
    assert "temperature" not in body(HI, temperature=0.5, model="claude-opus-4-8")


def test_a_schema_goes_in_the_dialect_of_the_host() -> None:
    schema = Raw(
        b'{"type":"object","properties":{"a":{"type":"array","maxItems":3,"minItems":1,"items":'
        b'{"$ref":"#/$defs/b"}},"minimum":{"type":"string","maxLength":5,"description":"M"}},'
        b'"$defs":{"b":{"type":"object","properties":{}}}}'
    )
    sent = body(HI, response_schema=schema)["output_config"]["format"]
    assert sent["type"] == "json_schema"
    assert sent["schema"] == {
        "type": "object",
        "properties": {
            "a": {
                "type": "array",
                "minItems": 1,
                "items": {"$ref": "#/$defs/b"},
                "description": "(maxItems: 3)",
            },
            "minimum": {"type": "string", "description": "M (maxLength: 5)"},
        },
        "$defs": {"b": {"type": "object", "properties": {}, "additionalProperties": False}},
        "additionalProperties": False,
    }


def test_schema_and_tools_together_leave_the_calls_free() -> None:
    by_tool = body(HI, response_schema=SCHEMA, tools=(SPEC,), model="claude-sonnet-4-0")
    assert [tool["name"] for tool in by_tool["tools"]] == ["read_file", "submit_structured_answer"]
    assert "tool_choice" not in by_tool
    native = body(HI, response_schema=SCHEMA, tools=(SPEC,))
    assert [tool["name"] for tool in native["tools"]] == ["read_file"]
    assert "output_config" in native


def test_extra_body_is_merged_last_and_what_is_ours_is_refused() -> None:
    made = builder(extra_body=Raw(b'{"service_tier":"auto","top_k":5}'))
    sent = json.loads(made.build(ask(HI, extra_body=Raw(b'{"top_k":6}'))))
    assert (sent["service_tier"], sent["top_k"]) == ("auto", 6)
    with pytest.raises(ConfigurationError, match="messages"):
        builder(extra_body=Raw(b'{"messages":[]}'))


def test_unknown_keys_and_names_stay_at_home() -> None:
    sent = wired(UserMessage("hi", name="eve", extra=Raw(b'{"foo":1}')))
    assert sent == [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]


def test_count_asks_with_the_same_prompt() -> None:
    counter = wire().counter
    assert counter is not None
    question = counter.first(ask(SystemMessage("S"), HI, tools=(SPEC,), max_tokens=5, temperature=1.0))
    assert question.url == "https://api.anthropic.com/v1/messages/count_tokens"
    assert sorted(json.loads(question.body)) == ["messages", "model", "system", "tools"]
    assert counter.read(b'{"input_tokens":12}') == 12
    assert counter.read(b'{"error":1}') is None


def test_addresses_and_headers() -> None:
    made = wire(AnthropicQuirks(beta=("a-1", "b-2"), block_binding="none"))
    assert made.headers == {"anthropic-version": "2023-06-01", "anthropic-beta": "a-1,b-2"}
    assert made.builder.url(ask(HI)) == "https://api.anthropic.com/v1/messages"
