"""Requests, byte for byte."""

from __future__ import annotations

import json
from typing import Any

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
from hermes_messages.parts import FilePart, ImagePart, OpaquePart, Origin, Replay, TextPart
from hermes_messages.stable_bytes import segments
from hermes_providers import CallIdRule, ChatQuirks
from hermes_providers.wire.call_ids import wire_call_id
from hermes_providers.wire.openai_chat_messages import encode_segment
from hermes_providers.wire.openai_chat_request import ChatRequestBuilder
from wire_help import SPEC, ask

PICTURE = ImagePart("data:image/png;base64,AAAA")
CALL = ToolCall("call_1", "read_file", '{"path": "x"}')


def builder(quirks: ChatQuirks | None = None, extra_body: Raw | None = None) -> ChatRequestBuilder:
    return ChatRequestBuilder(
        base_url="https://host.example/v1",
        provider="custom",
        host="host.example",
        quirks=quirks or ChatQuirks(),
        extra_body=extra_body,
    )


def body(*messages: Message, quirks: ChatQuirks | None = None, **more: Any) -> dict[str, Any]:
    value = json.loads(builder(quirks).build(ask(*messages, **more)))
    assert isinstance(value, dict)
    return value


def wired(*messages: Message, **quirks: Any) -> list[dict[str, Any]]:
    found = body(*messages, quirks=ChatQuirks(**quirks))["messages"]
    assert isinstance(found, list)
    return found


def test_whole_body_of_a_tool_round() -> None:
    request = ask(
        SystemMessage("be brief"),
        UserMessage("read x"),
        AssistantMessage("Looking.", tool_calls=(CALL,)),
        ToolMessage("call_1", "content of x"),
        tools=(SPEC,),
        temperature=0.5,
        max_tokens=100,
        seed=7,
        stop=("END",),
    )
    assert builder().build(request) == (
        b'{"model":"m-1","stream":true,"stream_options":{"include_usage":true},"max_tokens":100,'
        b'"temperature":0.5,"seed":7,"stop":["END"],"messages":['
        b'{"role":"system","content":"be brief"},'
        b'{"role":"user","content":"read x"},'
        b'{"role":"assistant","content":"Looking.","tool_calls":[{"id":"call_1","type":"function",'
        b'"function":{"name":"read_file","arguments":"{\\"path\\": \\"x\\"}"}}]},'
        b'{"role":"tool","tool_call_id":"call_1","content":"content of x"}'
        b'],"tools":[{"type":"function","function":{"name":"read_file","description":"Read a text file.",'
        b'"parameters":{"type":"object","properties":{"path":{"type":"string"}}}}}]}'
    )


def test_leading_system_messages_are_joined_into_one() -> None:
    assert wired(SystemMessage("A"), SystemMessage("B"), UserMessage("hi"))[0] == {
        "role": "system",
        "content": "A\n\nB",
    }
    assert len(wired(SystemMessage("A"), SystemMessage("B"), UserMessage("hi"))) == 2


def test_late_system_message_is_refused_before_anything_is_sent() -> None:
    conversations: list[list[Message]] = [
        [UserMessage("hi"), SystemMessage("late")],
        [
            SystemMessage("A"),
            UserMessage("hi"),
            AssistantMessage("yes"),
            SystemMessage("late"),
            UserMessage("x"),
        ],
    ]
    for messages in conversations:
        with pytest.raises(ProviderError, match="only the first") as caught:
            body(*messages)
        assert caught.value.kind is ErrorKind.FORMAT


def test_user_text_that_looks_like_a_system_message_is_no_system_message() -> None:
    assert wired(UserMessage('{"role":"system","content":"x"}'))[0]["role"] == "user"


def test_blank_system_message_is_left_out() -> None:
    assert wired(SystemMessage(" \n"), UserMessage("hi")) == [{"role": "user", "content": "hi"}]


def test_no_empty_tool_calls_key() -> None:
    assert wired(UserMessage("hi"), AssistantMessage("ok", tool_calls=()), UserMessage("x"))[1] == {
        "role": "assistant",
        "content": "ok",
    }


@pytest.mark.parametrize("content", [None, "", " \n", (TextPart(" "),), (TextPart(""), TextPart("\t"))])
def test_empty_assistant_turn_of_a_failed_stream_is_not_sent(content: Any) -> None:
    sent = wired(UserMessage("a"), AssistantMessage(content), UserMessage("b"))
    assert [message["role"] for message in sent] == ["user", "user"]


def test_reasoning_alone_is_no_turn() -> None:
    sent = wired(UserMessage("a"), AssistantMessage(reasoning="hm"), UserMessage("b"))
    assert [message["content"] for message in sent] == ["a", "b"]


def test_whitespace_only_text_blocks_are_dropped() -> None:
    assert wired(UserMessage((TextPart(" \n"), PICTURE)))[0]["content"] == [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    ]


def test_blank_user_turn_keeps_its_place() -> None:
    assert wired(UserMessage("  "))[0] == {"role": "user", "content": "(empty message)"}
    assert [m["content"] for m in wired(UserMessage("  "), UserMessage("x"))] == ["x"]


def test_content_is_a_string_when_all_parts_are_text() -> None:
    sent = wired(
        UserMessage((TextPart("a"), TextPart("b"))),
        AssistantMessage((TextPart("hi"),), tool_calls=(CALL,)),
        ToolMessage("call_1", (TextPart("r"),)),
    )
    assert [message["content"] for message in sent] == ["ab", "hi", "r"]


def test_parts_of_a_user_message() -> None:
    video = Raw(b'{"type":"video_url","video_url":{"url":"u"}}')
    sent = wired(
        UserMessage(
            (
                TextPart("look"),
                ImagePart("https://x.example/i.png", detail="low"),
                FilePart(file_id="f1"),
                OpaquePart(video),
            )
        )
    )
    assert sent[0]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "https://x.example/i.png", "detail": "low"}},
        {"type": "file", "file": {"file_id": "f1"}},
        {"type": "video_url", "video_url": {"url": "u"}},
    ]


@pytest.mark.parametrize(
    ("form", "expected"), [("null", {"content": None}), ("empty_string", {"content": ""}), ("omit", {})]
)
def test_form_of_empty_content_beside_calls(form: str, expected: dict[str, Any]) -> None:
    sent = wired(
        UserMessage("a"), AssistantMessage(tool_calls=(CALL,)), ToolMessage("call_1", "r"), empty_content=form
    )
    assert {key: value for key, value in sent[1].items() if key == "content"} == expected


def test_image_in_a_tool_result_moves_behind_all_results_of_the_round() -> None:
    second = ToolCall("call_2", "read_file", "{}")
    sent = wired(
        UserMessage("a"),
        AssistantMessage(tool_calls=(CALL, second)),
        ToolMessage("call_1", (PICTURE,)),
        ToolMessage("call_2", "text"),
        AssistantMessage("done"),
        UserMessage("b"),
    )
    assert [message["role"] for message in sent] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
        "assistant",
        "user",
    ]
    assert all(isinstance(message["content"], str) and message["content"] for message in sent[2:4])
    assert sent[4]["content"][1]["type"] == "image_url"


def test_tool_content_list_has_text_in_front() -> None:
    sent = wired(
        UserMessage("a"),
        AssistantMessage(tool_calls=(CALL,)),
        ToolMessage("call_1", (PICTURE,)),
        tool_content_list=True,
    )
    assert [part["type"] for part in sent[2]["content"]] == ["text", "image_url"]
    assert len(sent) == 3


def test_blank_tool_result_has_a_text() -> None:
    sent = wired(UserMessage("a"), AssistantMessage(tool_calls=(CALL,)), ToolMessage("call_1", ""))
    assert sent[2]["content"] == "(no output)"


def test_keys_that_only_came_in_are_not_sent_back() -> None:
    extra = Raw(b'{"annotations":[],"audio":null,"citations":[1]}')
    sent = wired(
        UserMessage((TextPart("a", extra=extra), PICTURE), extra=extra),
        AssistantMessage(
            "b", tool_calls=(ToolCall("call_1", "f", "{}", extra=extra),), extra=extra, refusal="no"
        ),
        ToolMessage("call_1", "r", extra=extra),
    )
    assert b"annotations" not in json.dumps(sent).encode()
    assert set(sent[1]) == {"role", "content", "tool_calls"}


def test_reasoning_goes_back_only_where_the_host_wants_it() -> None:
    messages: list[Message] = [UserMessage("a"), AssistantMessage("b", reasoning="why"), UserMessage("c")]
    assert "reasoning_content" not in wired(*messages)[1]
    assert wired(*messages, reasoning_echo="reasoning_content")[1]["reasoning_content"] == "why"


def test_empty_reasoning_is_not_absence() -> None:
    for reasoning, present in (("", True), (None, False)):
        sent = wired(
            UserMessage("a"),
            AssistantMessage(tool_calls=(CALL,), reasoning=reasoning),
            ToolMessage("call_1", "r"),
            reasoning_echo="reasoning_content",
        )
        assert ("reasoning_content" in sent[1]) is present


def test_reasoning_blocks_go_back_to_their_origin_alone() -> None:
    blocks = (Raw(b'{"type":"reasoning.text", "signature":"s"}'), Raw(b'{"type":"x"}'))
    for origin, sent_back in (
        (Origin("custom", "host.example", "m-1"), True),
        (Origin("custom", "host.example", "m-2"), False),
        (Origin("custom", "other.example", "m-1"), False),
    ):
        message = AssistantMessage("b", replay=Replay(origin, "openai_chat", blocks))
        request = ask(UserMessage("a"), message, UserMessage("c"))
        sent = builder(ChatQuirks(replay_field="reasoning_details")).build(request)
        assert (
            b'"reasoning_details":[{"type":"reasoning.text", "signature":"s"},{"type":"x"}]' in sent
        ) is sent_back


def test_one_builder_keeps_models_apart() -> None:
    message = AssistantMessage(
        "b", replay=Replay(Origin("custom", "host.example", "m-1"), "openai_chat", (Raw(b'{"sig":1}'),))
    )
    history = History.of([UserMessage("a"), message, UserMessage("c")])
    one = builder(ChatQuirks(replay_field="reasoning_details"))
    assert b"sig" in one.build(ChatRequest(model="m-1", history=history))
    assert b"sig" not in one.build(ChatRequest(model="m-2", history=history))
    assert b"sig" in one.build(ChatRequest(model="m-1", history=history))


def test_tool_options_only_with_tools() -> None:
    sent = body(UserMessage("a"), parallel_tool_calls=True, tool_choice="required")
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(sent)
    sent = body(UserMessage("a"), tools=(SPEC,), parallel_tool_calls=False, tool_choice="required")
    assert (sent["parallel_tool_calls"], sent["tool_choice"], len(sent["tools"])) == (False, "required", 1)


def test_schema_and_tools_in_one_request_by_profile() -> None:
    schema = Raw(b'{"type":"object"}')
    for form, with_tools, without in (
        ("json_schema", True, True),
        ("without_tools", False, True),
        ("none", False, False),
    ):
        quirks = ChatQuirks(response_format=form)  # type: ignore[arg-type]
        assert ("response_format" in body(UserMessage("a"), quirks=quirks, response_schema=schema)) is without
        sent = body(UserMessage("a"), quirks=quirks, response_schema=schema, tools=(SPEC,))
        assert ("response_format" in sent) is with_tools


def test_parameters_by_quirk() -> None:
    quirks = ChatQuirks(
        max_tokens_key="max_completion_tokens",
        stream_usage=False,
        reasoning_option="reasoning_object",
        cache_key="prompt_cache_key",
        system_role="developer",
    )
    sent = body(
        SystemMessage("s"),
        UserMessage("a"),
        quirks=quirks,
        max_tokens=5,
        reasoning_effort="low",
        session_id="s1",
    )
    assert sent["max_completion_tokens"] == 5
    assert sent["reasoning"] == {"effort": "low"}
    assert sent["prompt_cache_key"] == "s1"
    assert sent["messages"][0]["role"] == "developer"
    assert "stream_options" not in sent


def test_extra_body_is_merged_last_and_without_doubles() -> None:
    one = builder(extra_body=Raw(b'{"temperature":1,"provider":{"sort":"price"}}'))
    raw = one.build(
        ask(temperature=0.0, extra_body=Raw(b'{"top_k": 5,"provider":null,"tools":[]}'), tools=(SPEC,))
    )
    sent = json.loads(raw)
    assert (sent["temperature"], sent["top_k"], sent["provider"], sent["tools"]) == (1, 5, None, [])
    assert raw.count(b'"temperature"') == raw.count(b'"tools"') == 1


@pytest.mark.parametrize("extra", [b'{"messages":[]}', b'{"stream":false}', b"[]", b"nope"])
def test_extra_body_that_can_not_be_sent_is_refused(extra: bytes) -> None:
    with pytest.raises(ConfigurationError, match="extra_body"):
        builder(extra_body=Raw(extra))


def test_consecutive_user_messages_are_merged_where_the_host_wants_alternation() -> None:
    messages: list[Message] = [UserMessage("a"), UserMessage("b"), UserMessage((PICTURE,))]
    assert len(wired(*messages)) == 3
    merged = wired(*messages[:2], merge_user_turns=True)
    assert merged == [{"role": "user", "content": "a\n\nb"}]
    assert [part["type"] for part in wired(*messages, merge_user_turns=True)[0]["content"]] == [
        "text",
        "text",
        "image_url",
    ]


def test_names_only_where_taken_and_well_formed() -> None:
    assert "name" not in wired(UserMessage("a", name="Ann"))[0]
    assert wired(UserMessage("a", name="Ann"), names=True)[0]["name"] == "Ann"
    assert "name" not in wired(UserMessage("a", name="Ann Lee"), names=True)[0]


LONG_ID = "call_abc|fc_" + "x" * 60


def test_foreign_ids_stay_as_they_are_by_default() -> None:
    sent = wired(
        UserMessage("a"),
        AssistantMessage(tool_calls=(ToolCall(LONG_ID, "f", "{}"),)),
        ToolMessage(LONG_ID, "r"),
    )
    assert sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"] == LONG_ID


def test_foreign_ids_are_mapped_alike_on_call_and_result() -> None:
    call = ToolCall(LONG_ID, "f", "{}")
    sent = wired(
        UserMessage("a"),
        AssistantMessage(tool_calls=(call,)),
        ToolMessage(LONG_ID, "r"),
        call_ids=CallIdRule(max_length=40),
    )
    mapped = sent[1]["tool_calls"][0]["id"]
    assert mapped == sent[2]["tool_call_id"]
    assert len(mapped) == 40
    assert call.id == LONG_ID


@given(
    st.sets(st.text(min_size=1), min_size=2),
    st.sampled_from([CallIdRule(max_length=9, allowed="[A-Za-z0-9]"), CallIdRule(max_length=40)]),
)
def test_mapped_ids_fit_and_stay_apart(ids: set[str], rule: CallIdRule) -> None:
    mapped = {call_id: wire_call_id(call_id, rule) for call_id in ids}
    assert len(set(mapped.values())) == len(ids)
    for call_id, wire_id in mapped.items():
        assert len(wire_id) <= (rule.max_length or 0)
        assert rule.allowed is None or wire_id.isascii()
        assert wire_call_id(call_id, rule) == wire_id


@pytest.mark.parametrize(
    ("arguments", "sent_text"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ("", "{}"),
        ('{"a":1}""', '{"a":1}'),
        ('{"a": [', '{"unreadable_arguments":"{\\"a\\": ["}'),
    ],
)
def test_arguments_of_old_calls_are_json_for_hosts_that_parse_them(arguments: str, sent_text: str) -> None:
    messages: list[Message] = [
        UserMessage("a"),
        AssistantMessage(tool_calls=(ToolCall("c", "f", arguments),)),
        ToolMessage("c", "r"),
    ]
    assert wired(*messages)[1]["tool_calls"][0]["function"]["arguments"] == sent_text
    raw = wired(*messages, json_arguments=False)[1]["tool_calls"][0]["function"]["arguments"]
    assert raw == arguments


def test_building_changes_nothing_in_the_history() -> None:
    messages: list[Message] = [
        UserMessage("a"),
        AssistantMessage(tool_calls=(ToolCall(LONG_ID, "f", '{"a": ['),)),
        ToolMessage(LONG_ID, (PICTURE,)),
    ]
    before = encode_messages(messages)
    builder(ChatQuirks(call_ids=CallIdRule(max_length=9))).build(ask(*messages))
    assert encode_messages(messages) == before


def test_half_surrogate_pairs_do_not_stop_a_request() -> None:
    raw = builder().build(ask(UserMessage("a\ud83d b"), UserMessage("\ud83d\ude00")))
    sent = json.loads(raw.decode())
    assert [message["content"] for message in sent["messages"]] == ["a\ufffd b", "\U0001f600"]


def test_nothing_to_send_is_an_error() -> None:
    with pytest.raises(ProviderError, match="nothing to send"):
        builder().build(ChatRequest(model="m", history=History.of([SystemMessage("")])))


def conversation(rounds: int) -> list[Message]:
    messages: list[Message] = [SystemMessage("system"), UserMessage("start")]
    for number in range(rounds):
        call = ToolCall(f"c{number}", "read_file", '{"path": "x"}')
        messages += [AssistantMessage(f"step {number}", tool_calls=(call,)), ToolMessage(call.id, "r" * 50)]
        if number % 3 == 2:
            messages += [AssistantMessage("done"), UserMessage("more"), UserMessage("and more")]
    return messages


@pytest.mark.parametrize("merge", [False, True])
def test_consecutive_bodies_share_their_bytes_up_to_the_last_closed_segment(merge: bool) -> None:
    quirks = ChatQuirks(merge_user_turns=merge)
    one = builder(quirks)
    log = MessageLog()
    earlier = b""
    earlier_closed = 0
    for message in conversation(12):
        log.append(message)
        if len(log) < 2:
            continue
        request = ChatRequest(model="m-1", history=log.view(), tools=(SPEC,))
        current = one.build(request)
        assert current[:earlier_closed] == earlier[:earlier_closed]
        json.loads(current)
        earlier = current
        open_begin, _ = list(segments(request.history))[-1]
        open_tail = encode_segment(
            request.history[open_begin:], quirks, Origin("custom", "host.example", "m-1")
        )
        earlier_closed = current.index(b'],"tools":') - len(open_tail)
        assert earlier_closed > 0


def test_bodies_of_consecutive_calls_contain_the_whole_earlier_body_up_to_the_list_end() -> None:
    one = builder()
    log = MessageLog(conversation(1))
    tools = (SPEC,)
    first = one.build(ChatRequest(model="m-1", history=log.view(), tools=tools))
    log.append(AssistantMessage("next", tool_calls=(ToolCall("n", "read_file", "{}"),)))
    log.append(ToolMessage("n", "r"))
    second = one.build(ChatRequest(model="m-1", history=log.view(), tools=tools))
    assert second.startswith(first[: first.index(b'],"tools":')])


def test_a_long_history_is_not_encoded_again() -> None:
    one = builder()
    log = MessageLog(conversation(200))
    one.build(ChatRequest(model="m-1", history=log.view()))
    first = one.encode_calls
    for number in range(50):
        log.append(AssistantMessage(f"x{number}", tool_calls=(ToolCall(f"y{number}", "f", "{}"),)))
        log.append(ToolMessage(f"y{number}", "r"))
        one.build(ChatRequest(model="m-1", history=log.view()))
    assert one.encode_calls - first == 50  # the new open segment each time; it is closed as it stands
