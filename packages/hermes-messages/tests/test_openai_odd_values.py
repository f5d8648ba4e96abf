"""What no message should hold: it is refused with its place, or read as far as it goes."""

from collections.abc import Mapping

import pytest
from msgspec import Raw

from hermes_messages import (
    AssistantMessage,
    JsonObject,
    JsonValue,
    MessageFormatError,
    QuirkKind,
    UserMessage,
    decode_messages,
    encode_messages,
    messages_from_dicts,
    read_dicts,
    to_dicts,
)


@pytest.mark.parametrize(
    ("item", "path"),
    [
        ("text", "$"),
        ({}, "$.role"),
        ({"role": None}, "$.role"),
        ({"role": "nobody", "content": "x"}, "$.role"),
        ({"role": "user", "content": 5}, "$.content"),
        ({"role": "user", "content": {"a": 1}}, "$.content"),
        ({"role": "user", "content": ["x", 5]}, "$.content[1]"),
        ({"role": "user", "content": "x", "name": 5}, "$.name"),
        ({"role": "assistant", "content": "x", "tool_calls": {}}, "$.tool_calls"),
        ({"role": "assistant", "content": "x", "tool_calls": ["f"]}, "$.tool_calls[0]"),
        ({"role": "tool", "content": "x", "tool_call_id": ["a"]}, "$.tool_call_id"),
        ({"role": "user", "content": "x", "x": object()}, "$"),
    ],
)
def test_what_is_no_message_names_its_index_and_path(item: Mapping[str, JsonValue], path: str) -> None:
    with pytest.raises(MessageFormatError) as caught:
        messages_from_dicts([{"role": "user", "content": "fine"}, item])
    assert (caught.value.index, caught.value.path) == (1, path)


@pytest.mark.parametrize("extra", [b"[1]", b"{", b"5"])
def test_an_extra_that_is_no_object_is_refused_when_written(extra: bytes) -> None:
    with pytest.raises(MessageFormatError):
        to_dicts([UserMessage("x", extra=Raw(extra))])


@pytest.mark.parametrize("kind", [["function"], {"a": 1}, 5])
def test_a_call_whose_type_is_no_text_is_read_and_its_type_kept(kind: JsonValue) -> None:
    call: JsonObject = {"id": "a", "type": kind, "function": {"name": "f", "arguments": "{}"}}
    dicts: list[JsonObject] = [{"role": "assistant", "content": None, "tool_calls": [call]}]
    assert to_dicts(messages_from_dicts(dicts)) == dicts


def test_a_number_that_python_can_not_write_is_a_format_error() -> None:
    huge = 10**5_000
    with pytest.raises(MessageFormatError, match="id"):
        messages_from_dicts([{"role": "tool", "tool_call_id": huge, "content": "x"}])
    with pytest.raises(MessageFormatError):
        messages_from_dicts([{"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": huge}}]}])
    with pytest.raises(MessageFormatError, match="extra"):
        to_dicts([UserMessage("x", extra=Raw(b'{"a":' + b"9" * 5_000 + b"}"))])


def test_a_tool_name_that_is_no_text_becomes_its_json() -> None:
    call: JsonObject = {"id": "a", "function": {"name": {"a": None}, "arguments": "{}"}}
    result = read_dicts([{"role": "assistant", "tool_calls": [call]}])
    assert isinstance(result.messages[0], AssistantMessage)
    assert result.messages[0].tool_calls[0].name == '{"a":null}'
    assert [quirk.kind for quirk in result.quirks] == [QuirkKind.MISSING_NAME]


@pytest.mark.parametrize("cost", [float("nan"), float("inf")])
def test_a_cost_that_no_json_can_hold_is_no_cost(cost: float) -> None:
    result = read_dicts([{"role": "assistant", "content": "x", "usage": {"cost_usd": cost}}])
    assert isinstance(result.messages[0], AssistantMessage)
    assert result.messages[0].usage is None
    assert [quirk.kind for quirk in result.quirks] == [QuirkKind.UNEXPECTED_TYPE]
    assert decode_messages(encode_messages(result.messages)) == list(result.messages)


def test_an_extra_that_nests_without_end_is_a_format_error() -> None:
    with pytest.raises(MessageFormatError, match="extra"):
        to_dicts([UserMessage("x", extra=Raw(b'{"a":' * 50_000 + b"1" + b"}" * 50_000))])
