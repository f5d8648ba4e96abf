from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from hermes_messages import (
    AssistantMessage,
    ImagePart,
    JsonObject,
    JsonValue,
    Message,
    MessageFormatError,
    OpaquePart,
    QuirkKind,
    ReadResult,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    messages_from_json,
    read_dicts,
    read_json,
    to_dicts,
    to_json,
)
from message_strategies import any_messages, openai_dicts


def respelt(value: object) -> object:
    """`value` with the JSON of every `extra` in one spelling."""
    if isinstance(value, Raw):
        return json.dumps(json.loads(bytes(value)), sort_keys=False)
    if isinstance(value, msgspec.Struct):
        return (type(value), *(respelt(item) for item in msgspec.structs.astuple(value)))
    if isinstance(value, tuple):
        return tuple(respelt(item) for item in value)
    return value


def outcome(read: Callable[[], ReadResult]) -> tuple[object, ...]:
    """What a reader returns or raises, in a form that can be compared."""
    try:
        result = read()
    except MessageFormatError as error:
        return error.index, error.path, str(error)
    return respelt(result.messages), result.quirks


def assert_same_as_the_dict_reader(data: bytes | str) -> None:
    assert outcome(lambda: read_json(data)) == outcome(lambda: read_dicts(json.loads(data)))


@given(st.lists(openai_dicts, max_size=5), st.booleans())
def test_reading_json_is_reading_its_dicts(dicts: list[JsonObject], ascii_only: bool) -> None:
    text = json.dumps(dicts, ensure_ascii=ascii_only)
    assert_same_as_the_dict_reader(text)
    assert_same_as_the_dict_reader(text.encode("utf-8", "surrogatepass"))


@given(st.lists(any_messages, max_size=2))
def test_json_written_is_the_json_of_the_dicts_and_the_full_one_loses_nothing(
    messages: list[Message],
) -> None:
    for full in (False, True):
        data = to_json(messages, full=full)
        assert json.loads(data) == to_dicts(messages, full=full)
        assert_same_as_the_dict_reader(data)
    assert respelt(tuple(messages_from_json(to_json(messages, full=True)))) == respelt(tuple(messages))


CALL: JsonObject = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    "item",
    [
        {"role": "user", "content": "x"},
        {"role": "user", "content": "x", "name": None},
        {"role": "user", "content": "x", "tool_calls": None, "audio": None, "y": None},
        {"role": "user", "content": "x", "extra": {"a": 1}},
        {"role": "user", "content": "x", "name": "n", "extra": None},
        {"role": "user", "content": None},
        {"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {}}]},
        {"role": "user", "content": [{"type": "opaque", "raw": 1}, {"type": "image", "url": "u"}]},
        {"role": "user", "content": "x", "finish_reason": "stop", "usage": {"input_tokens": 1}},
        {"role": "developer", "content": "x"},
        {"role": "system", "content": "x", "x": 1e300, "big": 2**80},
        {"role": "tool", "tool_call_id": 7, "content": "x"},
        {"role": "tool", "tool_call_id": "a", "content": "x", "status": "denied"},
        {"role": "tool", "tool_call_id": "a", "content": "x", "status": "ok", "name": None, "z": [None]},
        {"role": "tool", "tool_call_id": "a", "content": "x", "status": "odd"},
        {"role": "tool", "tool_call_id": "a", "content": {"rows": 1}},
        {"role": "tool", "content": "x"},
        {"role": "assistant"},
        {"role": "assistant", "content": None, "refusal": None},
        {"role": "assistant", "content": "x", "tool_calls": []},
        {"role": "assistant", "content": "x", "tool_calls": None, "function_call": None},
        {"role": "assistant", "content": "x", "reasoning": "", "reasoning_content": "s"},
        {"role": "assistant", "content": "x", "reasoning_content": "s", "reasoning": None},
        {"role": "assistant", "content": "x", "usage": {"prompt_tokens": 3}, "finish_reason": "stop"},
        {"role": "assistant", "content": "x", "usage": None, "replay": None},
        {"role": "assistant", "content": "x", "finish_reason": 5, "refusal": "no", "name": "n", "z": 1},
        {"role": "assistant", "content": "x", "extra": {"role": "user"}},
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "assistant", "content": None, "tool_calls": [CALL, {**CALL, "index": 1, "x": None}]},
        {"role": "assistant", "content": None, "tool_calls": [{**CALL, "type": None}]},
        {"role": "assistant", "content": None, "tool_calls": [{**CALL, "type": "custom"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": 3, "function": {"name": "f"}}]},
        {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "", "arguments": {"x": 1}}}]},
        {"role": "assistant", "tool_calls": [{"id": "a", "name": "f", "arguments": "{}"}]},
        {
            "role": "assistant",
            "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}", "strict": True}}],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "x"}]},
        {"role": "user", "content": "\ud83d", "x": "\udc00"},
        {"role": "user", "content": "x", "\ud83d": 1},
        {"role": "user", "content": "x", "n": float("nan")},
        {"role": "user", "content": "a\u2028b\x00 \U0001f600", "k\u00e9y": "\U0001f600"},
        {},
        {"role": "nobody", "content": "x"},
        {"role": "user", "content": 5},
        {"role": "user", "content": "x", "name": 5},
        {"role": "assistant", "content": "x", "tool_calls": {}},
        {"role": "assistant", "content": "x", "tool_calls": [5]},
        "text",
        None,
    ],
)
@pytest.mark.parametrize("neighbour", [[], [{"role": "user", "content": "clean"}], [CALL]])
def test_every_oddity_is_read_alike_with_and_without_odd_neighbours(
    item: JsonValue, neighbour: list[JsonValue]
) -> None:
    odd: JsonObject = {"role": "tool", "tool_call_id": 1, "content": "x", "name": None}
    for listed in ([*neighbour, item], [odd, item, *neighbour]):
        assert_same_as_the_dict_reader(json.dumps(listed))


def test_unknown_keys_keep_their_spelling() -> None:
    data = b'[{"role":"user","content":"x","price":1.50,"big":12345678901234567890123,"s":"\\u00e9"}]'
    (message,) = messages_from_json(data)
    assert message == UserMessage(
        "x", extra=Raw(b'{"price":1.50,"big":12345678901234567890123,"s":"\\u00e9"}')
    )
    assert to_json([message]) == data


def test_unknown_keys_of_odd_messages_keep_their_spelling_too() -> None:
    data = b'[{"role":"tool","tool_call_id":7,"content":[],"price":1.50,"usage":{"x":2.50}}]'
    (message,) = messages_from_json(data)
    assert message.extra == Raw(b'{"price":1.50,"usage":{"x":2.50}}')
    odd = b'[{"role":"assistant","content":"x","usage":{"x":2.50},"refusal":null}]'
    assert messages_from_json(odd)[0].extra == Raw(b'{"usage":{"x":2.50}}')


def test_a_key_given_twice_counts_once_and_the_last_one_counts() -> None:
    data = b'[{"role":"user","role":"system","content":"a","content":"b","x":1,"x":2}]'
    assert messages_from_json(data) == [SystemMessage("b", extra=Raw(b'{"x":2}'))]
    assert_same_as_the_dict_reader(data)


@pytest.mark.parametrize("data", [b"", b"[", b"{}", b'"x"', b"null", b"[1", b"\xff", b'[{"role":"user"'])
def test_what_is_no_json_list_is_a_format_error(data: bytes) -> None:
    with pytest.raises(MessageFormatError):
        read_json(data)


def test_json_that_is_nested_without_end_is_a_format_error() -> None:
    deep = b'[{"role":"user","content":"x","y":' + b"[" * 200_000 + b"]" * 200_000 + b"}]"
    with pytest.raises(MessageFormatError):
        read_json(deep)


def test_bytes_that_are_no_utf8_never_reach_an_extra() -> None:
    with pytest.raises(MessageFormatError):
        read_json(b'[{"role":"user","content":"x","y":"\xff"}]')


def test_a_list_of_clean_messages_has_no_quirks() -> None:
    messages: list[Message] = [
        SystemMessage("s", name="n"),
        UserMessage("u"),
        AssistantMessage("", (ToolCall("a", "f", "{}"),), reasoning=""),
        ToolMessage("a", "ok", "f"),
        AssistantMessage("x", refusal="r"),
    ]
    result = read_json(to_json(messages))
    assert list(result.messages) == messages
    assert result.quirks == ()


def test_quirks_come_in_the_order_of_the_messages() -> None:
    dicts: list[Mapping[str, JsonValue]] = [
        {"role": "assistant", "content": None, "refusal": None},
        {"role": "tool", "tool_call_id": 1, "content": "x"},
        {"role": "user", "content": "x", "name": None},
    ]
    quirks = read_json(json.dumps(dicts)).quirks
    assert [(quirk.kind, quirk.index) for quirk in quirks] == [
        (QuirkKind.NULL_CONTENT, 0),
        (QuirkKind.NULL_KEY, 0),
        (QuirkKind.NUMERIC_ID, 1),
        (QuirkKind.NULL_KEY, 2),
    ]


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(
    "message",
    [
        UserMessage("x", extra=Raw(b'{"role":"system","content":"y","z":1}')),
        ToolMessage("a", "x", status="denied", extra=Raw(b'{"name":"n"}')),
        ToolMessage("a", (ImagePart("u"),)),
        AssistantMessage(None, (ToolCall("a", "f", "{", Raw(b'{"type":"custom","function":{"x":1}}')),)),
        AssistantMessage(None, (ToolCall("a", "f", "{", Raw(b'{"index":0}')),), extra=Raw(b'{"x":1}')),
        AssistantMessage("x", usage=Usage(input_tokens=1), finish_reason="stop"),
        AssistantMessage("x", extra=Raw(b'{"tool_calls":[],"reasoning":1}'), reasoning="r", refusal="r"),
        UserMessage((TextPart("a"), OpaquePart(Raw(b'{"type":"video"}')))),
    ],
)
def test_what_is_not_of_the_ordinary_form_is_written_alike(message: Message, full: bool) -> None:
    assert json.loads(to_json([message], full=full)) == to_dicts([message], full=full)


@pytest.mark.parametrize("extra", [b"[1]", b"{", b"5", b"", b'{"a":1},{"b":2}', b'{"a":"\xff"}'])
def test_an_extra_that_is_no_object_never_breaks_the_json_around_it(extra: bytes) -> None:
    for message in (
        UserMessage("x", extra=Raw(extra)),
        AssistantMessage("x", extra=Raw(extra)),
        AssistantMessage(tool_calls=(ToolCall("a", "f", "{}", Raw(extra)),)),
    ):
        with pytest.raises(MessageFormatError):
            to_json([message])


def test_half_characters_are_refused_when_written() -> None:
    with pytest.raises(MessageFormatError, match="UTF-8"):
        to_json([UserMessage("\ud83d")])


def test_any_buffer_is_read_and_not_kept() -> None:
    text = b'[{"role":"user","content":"x","kept":1}]'
    data = bytearray(text)
    [message] = messages_from_json(data)  # type: ignore[arg-type]
    data[:] = data.replace(b"kept", b"lost")
    assert to_json([message]) == text
    assert messages_from_json(memoryview(text)) == [message]  # type: ignore[arg-type]


class Noted(UserMessage, frozen=True, tag="user"):
    note: str = ""


def test_a_message_of_a_subclass_is_written_as_the_message_that_it_is() -> None:
    for message in (Noted("x", note="n"), Noted("x", extra=Raw(b'{"a":1}'), note="n")):
        assert json.loads(to_json([message])) == to_dicts([message])
        assert to_dicts([message])[0]["role"] == "user"
