from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from example_counts import fewer_examples
from hermes_messages import (
    AssistantMessage,
    ConfigurationError,
    ImagePart,
    InvariantError,
    Message,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    Transcript,
    UserMessage,
    encode_messages,
    to_dicts,
    validate,
)
from hermes_messages.shrinking import (
    SMALLEST_ARGUMENT_LIMIT,
    boundary_near,
    keep_ends,
    last_boundary,
    retire_images,
    shorten_arguments,
    with_summary,
)
from message_strategies import conversations, texts

HI = UserMessage("hi")
SYSTEM = SystemMessage("s")
SEVEN = [f"call_{number}" for number in range(7)]


def asks(*ids: str) -> AssistantMessage:
    return AssistantMessage(tool_calls=tuple(ToolCall(call_id, "f", "{}") for call_id in ids))


def gives(*ids: str) -> list[Message]:
    return [ToolMessage(call_id, "ok", "f") for call_id in ids]


# Cuts


def test_boundary_inside_a_parallel_group_moves_to_its_end() -> None:
    messages: list[Message] = [SYSTEM, HI, asks(*SEVEN), *gives(*SEVEN), AssistantMessage("x"), HI]
    assert [boundary_near(messages, cut) for cut in range(3, 11)] == [10] * 8
    assert [boundary_near(messages, cut) for cut in (0, 1, 2, 11)] == [0, 1, 2, 11]


def test_chain_in_flight_is_never_cut_off() -> None:
    done: list[Message] = [HI, asks("a"), *gives("a")]
    for tail in ([], [asks("b"), *gives("b")], [asks("b", "c"), *gives("b")], [asks("b", "c")]):
        messages = [*done, *tail]
        assert last_boundary(messages) == (3 if tail else 1)
        for cut in range(len(messages) + 3):
            assert boundary_near(messages, cut) <= last_boundary(messages)


def test_what_the_user_said_last_is_never_cut_off() -> None:
    answered: list[Message] = [HI, AssistantMessage("x")]
    assert last_boundary(answered) == 2
    assert last_boundary([*answered, HI, HI]) == 2
    assert last_boundary([SYSTEM, HI]) == 1
    assert last_boundary([]) == 0


@given(conversations(), st.integers(-2, 40))
def test_every_cut_gives_two_valid_parts_with_nothing_lost(messages: list[Message], cut: int) -> None:
    place = boundary_near(messages, cut)
    head, tail = messages[:place], messages[place:]
    assert Transcript(head).open_calls == ()
    assert head + tail == messages
    assert not (tail and isinstance(tail[0], ToolMessage))
    assert boundary_near(messages, place) == place
    owed = Transcript(messages).open_calls
    shrunk = Transcript(with_summary(messages, place, "so far"))
    assert shrunk.open_calls == owed
    system = [message for message in messages[:1] if isinstance(message, SystemMessage)]
    rest = tail[1:] if tail and tail[0] in system and not place else tail
    assert list(shrunk) == [*system, UserMessage("so far"), *rest]


@pytest.mark.parametrize("with_system", [False, True])
def test_a_user_message_is_left_when_the_only_one_is_compressed(with_system: bool) -> None:
    messages: list[Message] = [*([SYSTEM] if with_system else []), HI]
    for number in range(5):
        messages += [asks(f"c{number}"), *gives(f"c{number}")]
    shrunk = with_summary(messages, boundary_near(messages, 8), "You did much.")
    assert validate(shrunk) == []
    assert shrunk[0 if not with_system else 1] == UserMessage("You did much.")
    assert shrunk[-2:] == messages[-2:]


def test_a_summary_in_the_middle_of_a_round_is_refused() -> None:
    messages: list[Message] = [HI, asks("a", "b"), *gives("a", "b"), AssistantMessage("x")]
    before = encode_messages(messages)
    for cut in (2, 3, 6, -1):
        with pytest.raises(InvariantError) as caught:
            with_summary(messages, cut, "s")
        assert caught.value.index == cut
    with pytest.raises(ConfigurationError):
        with_summary(messages, 1, " \n")
    assert encode_messages(messages) == before


# Images


def shots(*names: str) -> ToolMessage:
    parts = [ImagePart(f"data:image/png;base64,{name}") for name in names]
    return ToolMessage("a", (TextPart("shot"), *parts), "screenshot")


def test_old_images_are_not_sent_again() -> None:
    messages: list[Message] = [HI, asks("a"), shots("one", "two"), asks("a"), shots("three")]
    before = encode_messages(messages)
    retired = retire_images(messages, 2)
    stub = TextPart("[an image that is no longer shown]")
    assert retired[2] == ToolMessage(
        "a", (TextPart("shot"), stub, ImagePart("data:image/png;base64,two")), "screenshot"
    )
    assert retired[4] is messages[4]
    assert [retired[place] is messages[place] for place in (0, 1, 3)] == [True] * 3
    assert b"base64" not in encode_messages(retire_images(messages, 0))
    assert encode_messages(messages) == before
    assert retire_images(messages, 3) == messages


def test_a_retired_image_with_an_address_keeps_it() -> None:
    (message,) = retire_images([UserMessage((ImagePart("https://e.org/a.png"),))], 0)
    assert to_dicts([message]) == [
        {"role": "user", "content": "[an image that is no longer shown: https://e.org/a.png]"}
    ]
    with pytest.raises(ConfigurationError):
        retire_images([HI], -1)


@fewer_examples
@given(conversations(), st.integers(0, 3))
def test_retiring_images_keeps_order_validity_and_the_newest(messages: list[Message], keep: int) -> None:
    def images(given_messages: list[Message]) -> list[ImagePart]:
        return [
            part
            for message in given_messages
            if isinstance(message.content, tuple)
            for part in message.content
            if isinstance(part, ImagePart)
        ]

    retired = retire_images(messages, keep)
    assert images(retired) == (images(messages)[-keep:] if keep else [])
    assert validate(retired) == []
    assert retire_images(retired, keep) == retired


# Arguments


def test_oversized_arguments_become_a_valid_marker_with_an_error_result() -> None:
    long = '{"text": "' + "x" * 5_000 + '"}'
    message = AssistantMessage(
        "I write.", (ToolCall("a", "write", long), ToolCall("b", "ls", "{}")), reasoning="r"
    )
    shortened = shorten_arguments(message, 1_000)
    marked, untouched = shortened.message.tool_calls
    assert len(marked.arguments) <= 1_000
    assert marked.parse_arguments()["_characters"] == len(long)
    assert (marked.id, marked.name) == ("a", "write")
    assert untouched is message.tool_calls[1]
    assert shortened.originals == (message.tool_calls[0],)
    (result,) = shortened.results
    assert (result.tool_call_id, result.name, result.status) == ("a", "write", "not_started")
    assert str(len(long)) in str(result.content)
    transcript = Transcript([HI, shortened.message, *shortened.results])
    assert [call.id for call in transcript.open_calls] == ["b"]
    assert (shortened.message.content, shortened.message.reasoning) == ("I write.", "r")


def test_arguments_that_fit_are_left_alone() -> None:
    message = asks("a", "b")
    shortened = shorten_arguments(message, SMALLEST_ARGUMENT_LIMIT)
    assert shortened.message is message
    assert not shortened.results
    assert not shortened.originals
    with pytest.raises(ConfigurationError):
        shorten_arguments(message, SMALLEST_ARGUMENT_LIMIT - 1)


@fewer_examples
@given(texts, st.integers(SMALLEST_ARGUMENT_LIMIT, 600))
def test_a_marker_is_never_longer_than_the_limit(text: str, limit: int) -> None:
    long = (text or "\x00") * 700
    message = AssistantMessage(tool_calls=(ToolCall("a", "f", long),))
    (call,) = shorten_arguments(message, limit).message.tool_calls
    assert len(call.arguments) <= limit
    assert isinstance(json.loads(call.arguments), dict)


@fewer_examples
@given(texts, st.integers(0, 40), st.integers(0, 40), st.booleans())
def test_the_note_counts_what_is_not_shown_and_the_ends_are_those_of_the_text(
    text: str, head: int, tail: int, whole_lines: bool
) -> None:
    long = f"{text}\n" * 3 + "x" * 100
    counted: list[int] = []

    def note(left_out: int) -> str:
        counted.append(left_out)
        return "<cut>"

    first, _, last = keep_ends(long, head, tail, note, whole_lines=whole_lines).partition("\n<cut>")
    last = last.removeprefix("\n")
    assert long.startswith(first)
    assert long.endswith(last)
    assert len(last) <= tail
    [left_out] = counted
    if whole_lines:
        assert len(first) + len(last) + left_out <= len(long)
        assert not long[len(first) : len(long) - len(last) - left_out].strip()
    else:
        assert len(first) + len(last) + left_out == len(long)


def test_ends_of_whole_lines_begin_and_end_with_a_line() -> None:
    lines = "".join(f"line {number}\n" for number in range(100))
    short = keep_ends(lines, 60, 60, "[{} more]".format, whole_lines=True)
    head, _, tail = short.partition("\n[")
    assert head.endswith(("line 5", "line 6", "line 7"))
    assert tail.partition("\n")[2].startswith("line 9")
