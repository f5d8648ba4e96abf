from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

import hermes_messages
from hermes_messages import (
    AssistantMessage,
    ImagePart,
    Message,
    MessageFormatError,
    OpaquePart,
    TextPart,
    ToolCall,
    ToolSpec,
    Usage,
    UserMessage,
    add_usage,
    approvals,
    content_text,
    decode_message,
    decode_messages,
    encode_message,
    encode_messages,
    protocols,
)
from hermes_messages.protocols import ExecutorOptions, ProviderOptions, SessionInfo
from message_strategies import any_messages


@given(st.lists(any_messages, max_size=2))
def test_json_round_trip_is_exact(messages: list[Message]) -> None:
    assert decode_messages(encode_messages(messages)) == messages
    assert decode_messages(encode_messages(tuple(messages)).decode()) == messages
    assert [decode_message(encode_message(message)) for message in messages] == messages


STRUCTS = {
    thing.__name__: thing
    for module in (hermes_messages, protocols, approvals)
    for thing in vars(module).values()
    if isinstance(thing, type) and issubclass(thing, msgspec.Struct)
}


@pytest.mark.parametrize("struct", STRUCTS.values(), ids=STRUCTS)
def test_every_public_struct_is_a_type_that_msgspec_decodes(struct: type[msgspec.Struct]) -> None:
    msgspec.json.Decoder(struct)


def test_what_is_known_of_a_session_goes_through_json() -> None:
    known = SessionInfo(source="here", metadata={"a": [1, {"b": None}]})
    assert msgspec.json.decode(msgspec.json.encode(known), type=SessionInfo) == known


def test_none_and_empty_stay_apart_in_json() -> None:
    absent, empty = AssistantMessage(), AssistantMessage(content="", reasoning="", refusal="")
    assert absent != empty
    assert decode_message(encode_message(absent)) == absent
    assert decode_message(encode_message(empty)) == empty
    assert encode_message(absent) == b'{"role":"assistant"}'


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b'{"role":"nobody"}', b'{"role":"user"}', b'{"role":"user","content":5}', b"[]", b"\xff"],
)
def test_foreign_json_is_a_format_error(data: bytes) -> None:
    with pytest.raises(MessageFormatError):
        decode_message(data)
    with pytest.raises(MessageFormatError):
        decode_messages(b"[" + data + b",1]")


def test_lone_surrogate_is_refused_before_it_reaches_a_file() -> None:
    with pytest.raises(MessageFormatError, match="surrogates"):
        encode_message(UserMessage("half a \ud83d character"))


def test_a_message_can_not_be_changed_after_it_was_sent() -> None:
    call = ToolCall("a", "write_file", '{"text": "' + "x" * 1000 + '"}')
    message = AssistantMessage(tool_calls=(call,))
    with pytest.raises(AttributeError):
        call.arguments = "{}"  # type: ignore[misc]
    before = encode_message(message)
    message.tool_calls[0].parse_arguments().clear()
    assert encode_message(message) == before


def test_content_text_takes_every_form_of_content() -> None:
    assert content_text(None) == ""
    assert content_text("x") == "x"
    assert content_text((TextPart("a"), ImagePart("https://e.org/i.png"), TextPart("b"))) == "ab"
    assert content_text((OpaquePart(Raw(b"{}")),)) == ""


def test_usage_adds_up_and_unknown_is_not_zero() -> None:
    left, right = Usage(input_tokens=3, cost_usd=0.5), Usage(input_tokens=4, output_tokens=2)
    assert add_usage(left, right) == Usage(input_tokens=7, output_tokens=2, cost_usd=0.5)
    assert add_usage(left, None) is left
    assert add_usage(None, None) is None
    assert add_usage(Usage(), Usage()) == Usage()


def test_tool_schema_bytes_are_the_same_in_each_request() -> None:
    spec = ToolSpec.from_schema("f", "does f", {"type": "object", "properties": {}})
    assert bytes(spec.parameters) == b'{"type":"object","properties":{}}'
    assert msgspec.json.encode(spec) == msgspec.json.encode(spec)


def test_provider_options_hide_the_key() -> None:
    options = ProviderOptions(
        base_url="http://u:sk-secret@h/v1", api_key="sk-secret", settings={"header": "sk-secret"}
    )
    assert "sk-secret" not in repr(options)
    assert "sk-secret" not in repr(dict(options.__rich_repr__()))


def test_what_holds_credentials_for_the_tools_hides_them_from_pretty_printers() -> None:
    options = ExecutorOptions(cwd="/w", secrets=("sk-secret",))
    assert "sk-secret" not in repr(options)
    assert dict(options.__rich_repr__())["cwd"] == "/w"
    assert "sk-secret" not in repr(dict(options.__rich_repr__()))


@pytest.mark.parametrize("extra", [b"[" * 100_000, b'{"a":' * 100_000, b'{"a":"\xff"}'])
def test_json_that_nests_without_end_or_is_no_utf8_is_a_format_error(extra: bytes) -> None:
    message = b'{"role":"user","content":"x","extra":' + extra + b"}"
    with pytest.raises(MessageFormatError):
        decode_message(message)
    with pytest.raises(MessageFormatError):
        decode_messages(b"[" + message + b"]")


def test_a_buffer_that_changes_later_changes_no_message() -> None:
    data = bytearray(encode_messages([UserMessage("x", extra=Raw(b'{"kept":1}'))]))
    [message] = decode_messages(data)  # type: ignore[arg-type]
    data[:] = data.replace(b"kept", b"lost")
    assert message.extra == Raw(b'{"kept":1}')
