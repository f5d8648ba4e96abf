from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from example_counts import fewer_examples
from hermes_messages import (
    AssistantMessage,
    AudioPart,
    Content,
    FilePart,
    ImagePart,
    JsonObject,
    JsonValue,
    Message,
    MessageFormatError,
    OpaquePart,
    Origin,
    QuirkKind,
    Replay,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    content_text,
    decode_messages,
    encode_messages,
    estimate_tokens,
    messages_from_dicts,
    read_dicts,
    to_dicts,
    to_openai_row,
    to_trajectory,
)
from hermes_messages.transcript_rules import is_blank
from message_strategies import any_messages, conversations


def read_one(item: Mapping[str, JsonValue]) -> tuple[Message, list[tuple[QuirkKind, str]]]:
    result = read_dicts([item])
    (message,) = result.messages
    assert all(quirk.index == 0 for quirk in result.quirks)
    return message, [(quirk.kind, quirk.path) for quirk in result.quirks]


def call(**function: JsonValue) -> JsonObject:
    return {"id": "a", "type": "function", "function": function}


def assistant(*calls: JsonValue, **others: JsonValue) -> JsonObject:
    return {"role": "assistant", "content": None, "tool_calls": list(calls), **others}


@given(st.lists(any_messages, max_size=2))
def test_full_round_trip_is_lossless(messages: list[Message]) -> None:
    assert messages_from_dicts(to_dicts(messages, full=True)) == messages


@fewer_examples
@given(st.lists(any_messages, max_size=4))
def test_plain_round_trip_settles_at_once(messages: list[Message]) -> None:
    dicts = to_dicts(messages)
    again = to_dicts(messages_from_dicts(dicts))
    assert again == dicts


@fewer_examples
@given(conversations(plain=True))
def test_plain_conversations_have_no_quirks(messages: list[Message]) -> None:
    result = read_dicts(to_dicts(messages))
    assert list(result.messages) == messages
    assert result.quirks == ()


def test_ordinary_messages() -> None:
    dicts: list[JsonObject] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi", "name": "ann"},
        assistant(call(name="f", arguments='{"a": 1}')),
        {"role": "tool", "tool_call_id": "a", "content": "done", "name": "f"},
        {"role": "assistant", "content": "Done.", "reasoning": "easy"},
    ]
    messages = messages_from_dicts(dicts)
    assert messages == [
        SystemMessage("Be brief."),
        UserMessage("Hi", name="ann"),
        AssistantMessage(tool_calls=(ToolCall("a", "f", '{"a": 1}'),)),
        ToolMessage("a", "done", name="f"),
        AssistantMessage("Done.", reasoning="easy"),
    ]
    assert to_dicts(messages) == dicts


def test_empty_tool_calls_are_never_written() -> None:
    message, quirks = read_one({"role": "assistant", "content": "ok", "tool_calls": []})
    assert message == AssistantMessage("ok")
    assert quirks == [(QuirkKind.EMPTY_CALL_LIST, "$.tool_calls")]
    for full in (False, True):
        assert "tool_calls" not in to_dicts([message], full=full)[0]


def test_arguments_as_an_object_become_json_text() -> None:
    message, quirks = read_one(assistant(call(name="f", arguments={"foo": "bär", "n": [1, 2.5, None]})))
    assert message == AssistantMessage(tool_calls=(ToolCall("a", "f", '{"foo":"bär","n":[1,2.5,null]}'),))
    assert quirks == [(QuirkKind.ARGUMENTS_AS_DATA, "$.tool_calls[0].function.arguments")]


def test_argument_text_is_kept_byte_for_byte() -> None:
    text = '{ "a" :1.50,\n"a":2} trailing'
    message, quirks = read_one(assistant(call(name="f", arguments=text)))
    assert message == AssistantMessage(tool_calls=(ToolCall("a", "f", text),))
    assert quirks == []


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_arguments_that_json_does_not_have_are_refused(number: float) -> None:
    with pytest.raises(MessageFormatError) as caught:
        messages_from_dicts([assistant(call(name="f", arguments={"x": [number]}))])
    assert (caught.value.index, caught.value.path) == (0, "$.tool_calls[0].function.arguments")


def test_numeric_ids_become_text_on_both_sides() -> None:
    result = read_dicts(
        [
            assistant({"id": 7, "type": "function", "function": {"name": "f", "arguments": "{}"}}),
            {"role": "tool", "tool_call_id": 7, "content": "x"},
        ]
    )
    assert [quirk.kind for quirk in result.quirks] == [QuirkKind.NUMERIC_ID] * 2
    assert result.messages[0] == AssistantMessage(tool_calls=(ToolCall("7", "f", "{}"),))
    assert result.messages[1] == ToolMessage("7", "x")


def test_missing_ids_names_and_arguments_are_read_as_empty() -> None:
    message, quirks = read_one(assistant({"type": "function", "function": {}}))
    assert message == AssistantMessage(tool_calls=(ToolCall("", "", ""),))
    assert [kind for kind, _ in quirks] == [
        QuirkKind.MISSING_NAME,
        QuirkKind.MISSING_ID,
        QuirkKind.MISSING_ARGUMENTS,
    ]


def test_flat_calls_are_read() -> None:
    message, quirks = read_one(assistant({"id": "a", "name": "f", "arguments": {"x": 1}}))
    assert message == AssistantMessage(tool_calls=(ToolCall("a", "f", '{"x":1}'),))
    assert QuirkKind.FLAT_CALL in [kind for kind, _ in quirks]


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
def test_empty_reasoning_is_not_absence(key: str) -> None:
    empty, _ = read_one({"role": "assistant", "content": "x", key: ""})
    absent, _ = read_one({"role": "assistant", "content": "x", key: None})
    assert empty == AssistantMessage("x", reasoning="")
    assert absent == AssistantMessage("x")
    assert to_dicts([empty])[0]["reasoning"] == ""
    assert "reasoning" not in to_dicts([absent])[0]


def test_two_reasonings_are_both_kept() -> None:
    same, quirks = read_one({"role": "assistant", "content": "x", "reasoning": "r", "reasoning_content": "r"})
    assert same == AssistantMessage("x", reasoning="r")
    assert [kind for kind, _ in quirks] == [QuirkKind.TWO_REASONINGS]
    differing: JsonObject = {"role": "assistant", "content": "x", "reasoning": "r", "reasoning_content": "s"}
    message, _ = read_one(differing)
    assert isinstance(message, AssistantMessage)
    assert message.reasoning == "r"
    assert to_dicts([message]) == [differing]
    assert messages_from_dicts(to_dicts([message])) == [message]
    one_empty, _ = read_one({"role": "assistant", "content": "x", "reasoning": "", "reasoning_content": "s"})
    assert one_empty == AssistantMessage("x", reasoning="s")


def test_developer_is_read_as_system() -> None:
    message, quirks = read_one({"role": "developer", "content": "x"})
    assert message == SystemMessage("x")
    assert quirks == [(QuirkKind.DEVELOPER_ROLE, "$.role")]


def test_nulls_of_chat_keys_are_absence() -> None:
    message, quirks = read_one(
        {"role": "user", "content": "x", "name": None, "tool_calls": None, "tool_call_id": None}
    )
    assert message == UserMessage("x")
    assert {kind for kind, _ in quirks} == {QuirkKind.NULL_KEY}
    message, _ = read_one({"role": "assistant", "content": "x", "refusal": None, "function_call": None})
    assert message == AssistantMessage("x")


@pytest.mark.parametrize("role", ["system", "user", "tool"])
@pytest.mark.parametrize("given_key", [True, False])
def test_null_and_missing_content_are_empty_text(role: str, given_key: bool) -> None:
    item: JsonObject = {"role": role, "tool_call_id": "a"} if role == "tool" else {"role": role}
    if given_key:
        item["content"] = None
    message, quirks = read_one(item)
    assert message.content == ""
    kind = QuirkKind.NULL_CONTENT if given_key else QuirkKind.MISSING_CONTENT
    assert (kind, "$.content") in quirks


def test_null_content_beside_calls_is_no_quirk_and_differs_from_empty() -> None:
    null, quirks = read_one(assistant(call(name="f", arguments="{}")))
    empty, _ = read_one(assistant(call(name="f", arguments="{}"), content=""))
    assert quirks == []
    assert null.content is None
    assert empty.content == ""
    assert to_dicts([null])[0]["content"] is None
    assert to_dicts([empty])[0]["content"] == ""


def test_parts_of_every_kind_with_their_unknown_keys() -> None:
    content: list[JsonValue] = [
        {"type": "text", "text": "look", "cache_control": {"type": "ephemeral"}},
        {
            "type": "image_url",
            "image_url": {"url": "https://e.org/a.png", "detail": "low", "tile": 3},
            "alt": "a",
        },
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        {"type": "file", "file": {"file_id": "f1", "filename": "a.pdf"}},
        {"type": "video_url", "video_url": {"url": "https://e.org/a.mp4"}},
    ]
    message, quirks = read_one({"role": "user", "content": content})
    assert message.content == (
        TextPart("look", Raw(b'{"cache_control":{"type":"ephemeral"}}')),
        ImagePart("https://e.org/a.png", "low", Raw(b'{"alt":"a","image_url":{"tile":3}}')),
        AudioPart("AAAA", "wav"),
        FilePart("f1", "a.pdf"),
        OpaquePart(Raw(b'{"type":"video_url","video_url":{"url":"https://e.org/a.mp4"}}')),
    )
    assert quirks == [(QuirkKind.UNKNOWN_PART, "$.content[4]")]
    assert to_dicts([message]) == [{"role": "user", "content": content}]


def test_text_only_parts_are_sent_as_plain_text() -> None:
    message, quirks = read_one(
        {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    )
    assert message.content == (TextPart("a"), TextPart("b"))
    assert quirks == [(QuirkKind.LIST_CONTENT, "$.content")]
    assert to_dicts([message])[0]["content"] == "ab"
    assert messages_from_dicts(to_dicts([message], full=True)) == [message]


def test_blank_text_blocks_are_not_written_for_a_request() -> None:
    image = ImagePart("https://e.org/a.png")
    mixed = UserMessage((TextPart(" \n"), image, TextPart("")))
    (written,) = to_dicts([mixed])
    assert written["content"] == [{"type": "image_url", "image_url": {"url": "https://e.org/a.png"}}]
    assert messages_from_dicts(to_dicts([mixed], full=True)) == [mixed]
    assert to_dicts([UserMessage((TextPart(" \n"),))])[0]["content"] == " \n"
    marked = TextPart("", Raw(b'{"cache_control":{"type":"ephemeral"}}'))
    assert to_dicts([UserMessage((marked, image))])[0]["content"] != written["content"]


def test_output_only_fields_are_not_written_for_a_request() -> None:
    message = AssistantMessage(
        "x",
        replay=Replay(Origin("p", "h", "m"), "w", ()),
        finish_reason="stop",
        usage=Usage(input_tokens=3),
    )
    assert to_dicts([message, ToolMessage("a", "x", status="error")]) == [
        {"role": "assistant", "content": "x"},
        {"role": "tool", "tool_call_id": "a", "content": "x"},
    ]


def test_ids_of_any_length_and_characters_stay_as_they_came() -> None:
    call_id = "call_abc|fc_HIR/d_iG+" + "0123456789" * 8
    dicts: list[JsonObject] = [
        assistant({"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}"}}),
        {"role": "tool", "tool_call_id": call_id, "content": "x"},
    ]
    messages = messages_from_dicts(dicts)
    assert to_dicts(messages) == dicts
    assert decode_messages(encode_messages(messages)) == messages


def test_every_text_helper_takes_text_parts_and_nothing() -> None:
    contents: list[Content | None] = ["x", (), (ImagePart("https://e.org/a.png"),), (TextPart("x"),)]
    for content in [*contents, None]:
        message = AssistantMessage(content)
        assert isinstance(content_text(content), str)
        assert estimate_tokens([message]) > 0
        assert to_trajectory([message])[0]["from"] == "gpt"
        assert to_openai_row([message])["messages"][0]["role"] == "assistant"
        assert is_blank(message) == (content in (None, ()))


def test_image_only_tool_result_is_kept() -> None:
    message, _ = read_one(
        {
            "role": "tool",
            "tool_call_id": "a",
            "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}],
        }
    )
    assert message.content == (ImagePart("data:image/png;base64,AA"),)


@pytest.mark.parametrize(
    ("content", "expected"),
    [({"rows": [1, 2]}, '{"rows":[1,2]}'), (42, "42"), (True, "true"), ({"type": "text"}, '{"type":"text"}')],
)
def test_data_as_a_tool_result_is_kept_as_its_json(content: JsonValue, expected: str) -> None:
    message, quirks = read_one({"role": "tool", "tool_call_id": "a", "content": content})
    assert message.content == expected
    assert quirks == [(QuirkKind.DATA_CONTENT, "$.content")]


def test_bare_parts_are_read() -> None:
    message, quirks = read_one({"role": "user", "content": {"type": "text", "text": "x"}})
    assert message.content == (TextPart("x"),)
    assert quirks == [(QuirkKind.BARE_PART, "$.content")]
    message, quirks = read_one(
        {"role": "user", "content": ["x", None, {"type": "image_url", "image_url": "https://e.org/a.png"}]}
    )
    assert message.content == (TextPart("x"), ImagePart("https://e.org/a.png"))
    assert [kind for kind, _ in quirks] == [QuirkKind.BARE_PART, QuirkKind.NULL_KEY, QuirkKind.BARE_PART]


def test_unknown_keys_survive_in_their_order() -> None:
    item = assistant(
        {
            **call(name="f", arguments="{}", strict=True),
            "extra_content": {"google": {"thought": "x"}},
            "index": 0,
        },
        zeta=1,
        alpha={"b": [None]},
        reasoning_details=[{"type": "reasoning.text", "index": 0}],
    )
    message, quirks = read_one(item)
    assert quirks == []
    (written,) = to_dicts([message])
    assert written == item
    assert list(written)[-3:] == ["zeta", "alpha", "reasoning_details"]


def test_extra_never_replaces_a_known_key() -> None:
    message = UserMessage("real", extra=Raw(b'{"role":"system","content":"false","x":1}'))
    assert to_dicts([message]) == [{"role": "user", "content": "real", "x": 1}]


def test_known_keys_of_a_foreign_type_are_kept_aside() -> None:
    item: JsonObject = {
        "role": "assistant",
        "content": "x",
        "usage": {"prompt_tokens": 3},
        "finish_reason": 5,
        "replay": {"origin": "me"},
        "refusal": ["no"],
    }
    message, quirks = read_one(item)
    assert {kind for kind, _ in quirks} == {QuirkKind.UNEXPECTED_TYPE}
    assert len(quirks) == 4
    assert to_dicts([message], full=True) == [item]
    assert messages_from_dicts(to_dicts([message], full=True)) == [message]


def test_full_keeps_what_the_plain_shape_has_no_place_for() -> None:
    replay = Replay(Origin("p", "h", "m"), "w", (Raw(b'{ "signature" : "s", "n": 1.50 }'),))
    message = AssistantMessage("x", replay=replay, finish_reason="stop", usage=Usage(input_tokens=3))
    plain, full = to_dicts([message])[0], to_dicts([message], full=True)[0]
    assert plain == {"role": "assistant", "content": "x"}
    assert full["usage"] == {"input_tokens": 3}
    assert full["finish_reason"] == "stop"
    assert messages_from_dicts([full]) == [message]
    denied = ToolMessage("a", "no", status="denied")
    assert to_dicts([denied], full=True)[0]["status"] == "denied"
    assert "status" not in to_dicts([denied])[0]


def test_replay_that_would_break_json_is_kept_aside() -> None:
    item: JsonObject = {
        "role": "assistant",
        "content": "x",
        "replay": {"origin": {"provider": "", "host": "", "model": ""}, "wire": "w", "blocks": ["{", "1}"]},
    }
    message, quirks = read_one(item)
    assert isinstance(message, AssistantMessage)
    assert message.replay is None
    assert quirks == [(QuirkKind.UNEXPECTED_TYPE, "$.replay")]


def test_lone_surrogates_are_replaced_everywhere() -> None:
    bad = "\ud83d"
    message, quirks = read_one(
        {
            "role": "assistant",
            "content": bad,
            "reasoning": bad,
            "x": {bad: [bad]},
            "tool_calls": [{"id": bad, "function": {"name": bad, "arguments": bad}}],
        }
    )
    assert {kind for kind, _ in quirks} == {QuirkKind.LONE_SURROGATE}
    assert bad not in repr(to_dicts([message], full=True))
    assert message.content == "\ufffd"


def test_reading_changes_nothing_in_the_dicts_and_shares_nothing_with_them() -> None:
    arguments: JsonObject = {"text": "x" * 10}
    item = assistant(call(name="f", arguments=arguments), x={"y": [1]})
    before = repr(item)
    (message,) = messages_from_dicts([item])
    to_dicts([message])[0].clear()
    assert repr(item) == before
    arguments["text"] = "changed"
    assert message == AssistantMessage(
        tool_calls=(ToolCall("a", "f", '{"text":"xxxxxxxxxx"}'),), extra=Raw(b'{"x":{"y":[1]}}')
    )


def test_what_a_sender_does_to_the_dicts_never_reaches_the_messages() -> None:
    messages = messages_from_dicts(
        [
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u", "x": {"y": 1}}}]},
            assistant(call(name="write_file", arguments={"text": "x" * 1000}), x={"y": [1]}),
        ]
    )
    before = encode_messages(messages)
    sent: list[Any] = to_dicts(messages, full=True)
    sent[0]["content"][0]["image_url"]["x"]["y"] = 2
    sent[1]["tool_calls"][0]["function"]["arguments"] = "{}"
    sent[1]["x"]["y"].clear()
    assert encode_messages(messages) == before
    assert to_dicts(messages, full=True) != sent
