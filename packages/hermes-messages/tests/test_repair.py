from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import event, given
from msgspec import Raw

from hermes_messages import (
    AssistantMessage,
    ImagePart,
    Message,
    Origin,
    RepairChange,
    RepairKind,
    Replay,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    Transcript,
    Usage,
    UserMessage,
    content_text,
    encode_messages,
    validate,
)
from hermes_messages.repair import MISSING_START, NAMELESS_TOOL, UNKNOWN_OUTCOME, repair
from message_strategies import broken_conversations, conversations

DROPPED_RESULTS = {RepairKind.ORPHAN_DROPPED, RepairKind.DUPLICATE_DROPPED}


def asks(*ids: str, name: str = "f", text: str | None = None) -> AssistantMessage:
    return AssistantMessage(text, tuple(ToolCall(call_id, name, "{}") for call_id in ids))


def gives(call_id: str, content: str = "ok", name: str | None = None) -> ToolMessage:
    return ToolMessage(call_id, content, name)


def unknown(call_id: str) -> ToolMessage:
    return ToolMessage(call_id, UNKNOWN_OUTCOME, "f", "unknown")


HI = UserMessage("hi")


def check(
    given_: list[Message], expected: list[Message], *changes: tuple[RepairKind, int, str | None]
) -> None:
    before = encode_messages(given_)
    repaired = repair(given_)
    assert list(repaired.messages) == expected
    assert repaired.changes == tuple(RepairChange(*change) for change in changes)
    assert validate(repaired.messages) == []
    assert encode_messages(given_) == before


# Properties


def becomes_valid_and_needs_no_second_repair(messages: list[Message]) -> None:
    repaired = repair(messages)
    for change in repaired.changes:
        event(change.kind.value)
    assert validate(repaired.messages) == []
    assert list(Transcript(repaired.messages)) == list(repaired.messages)
    again = repair(repaired.messages)
    assert again.changes == ()
    assert all(new is old for new, old in zip(again.messages, repaired.messages, strict=True))


def closed_it_owes_nothing(messages: list[Message]) -> None:
    repaired = repair(messages, close_round=True)
    transcript = Transcript(repaired.messages)
    assert transcript.open_calls == ()
    assert repair(repaired.messages, close_round=True).changes == ()
    transcript.append(UserMessage("go on"))


@given(conversations())
def test_nothing_valid_is_changed(messages: list[Message]) -> None:
    repaired = repair(messages)
    assert repaired.changes == ()
    assert all(new is old for new, old in zip(repaired.messages, messages, strict=True))


def loses_no_user_message_and_moves_none_past_another(messages: list[Message]) -> None:
    asked = [message for message in messages if isinstance(message, UserMessage)]
    kept = iter(repair(messages).messages)
    assert all(any(message is other for other in kept) for message in asked)


def keeps_every_result_of_an_open_call(messages: list[Message]) -> None:
    repaired = repair(messages)
    dropped = {change.index for change in repaired.changes if change.kind in DROPPED_RESULTS}
    given_results = [message.content for message in messages if isinstance(message, ToolMessage)]
    kept = [
        message.content
        for index, message in enumerate(messages)
        if isinstance(message, ToolMessage) and index not in dropped
    ]
    added = [change for change in repaired.changes if change.kind is RepairKind.RESULT_ADDED]
    out = [message.content for message in repaired.messages if isinstance(message, ToolMessage)]
    assert Counter(map(repr, out)) == Counter(map(repr, kept + [UNKNOWN_OUTCOME] * len(added)))
    assert len(kept) + len(dropped) == len(given_results)
    for index in dropped:
        _assert_rightly_dropped(messages, dropped, index)


def _assert_rightly_dropped(messages: list[Message], dropped: set[int], index: int) -> None:
    """A result with an id may go only when no call of its id is open, or when it is there already."""
    result = messages[index]
    assert isinstance(result, ToolMessage)
    if not result.tool_call_id:
        return
    owed = sum(
        call.id == result.tool_call_id
        for message in messages[:index]
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
    )
    others = [
        message
        for place, message in enumerate(messages[:index])
        if isinstance(message, ToolMessage)
        and message.tool_call_id == result.tool_call_id
        and place not in dropped
    ]
    assert owed <= len(others) or any(other.content == result.content for other in others)


def keeps_answers(messages: list[Message]) -> None:
    said = "".join(
        content_text(message.content).strip()
        for message in messages
        if isinstance(message, AssistantMessage)
        and (message.tool_calls or content_text(message.content).strip())
    )
    out = "".join(
        content_text(message.content)
        for message in repair(messages).messages
        if isinstance(message, AssistantMessage)
    )
    assert Counter(said) - Counter(out) == Counter()


@given(broken_conversations)
def test_the_repair_of_any_list_keeps_all_its_promises(messages: list[Message]) -> None:
    """Of one list, since to draw it takes far longer than to try them all."""
    becomes_valid_and_needs_no_second_repair(messages)
    closed_it_owes_nothing(messages)
    loses_no_user_message_and_moves_none_past_another(messages)
    keeps_every_result_of_an_open_call(messages)
    keeps_answers(messages)


# Each defect


def test_second_leading_system_message_is_joined() -> None:
    check(
        [SystemMessage("A"), SystemMessage("B"), HI],
        [SystemMessage("A\n\nB"), HI],
        (RepairKind.SYSTEM_JOINED, 1, None),
    )


def test_joined_system_parts_stay_parts() -> None:
    parts = (TextPart("B"), ImagePart("https://e.org/a.png"))
    repaired = repair([SystemMessage("A"), SystemMessage(parts), SystemMessage(""), HI])
    assert repaired.messages[0] == SystemMessage((TextPart("A"), TextPart("\n\n"), *parts))


def test_late_system_message_becomes_a_user_note() -> None:
    check(
        [SystemMessage("A"), HI, SystemMessage("B"), SystemMessage(" "), AssistantMessage("x")],
        [SystemMessage("A"), HI, UserMessage("[System note] B"), AssistantMessage("x")],
        (RepairKind.SYSTEM_TO_NOTE, 2, None),
        (RepairKind.SYSTEM_DROPPED, 3, None),
    )


def test_orphan_result_is_dropped() -> None:
    check([HI, gives("a")], [HI], (RepairKind.ORPHAN_DROPPED, 1, "a"))


def test_result_before_its_call_is_an_orphan() -> None:
    check(
        [HI, gives("a"), asks("a"), HI],
        [HI, asks("a"), unknown("a"), HI],
        (RepairKind.ORPHAN_DROPPED, 1, "a"),
        (RepairKind.RESULT_ADDED, 2, "a"),
    )


def test_duplicate_result_is_dropped() -> None:
    check(
        [HI, asks("a"), gives("a", "first"), gives("a", "second"), AssistantMessage("x")],
        [HI, asks("a"), gives("a", "first"), AssistantMessage("x")],
        (RepairKind.DUPLICATE_DROPPED, 3, "a"),
    )


def test_late_result_is_moved_to_its_round() -> None:
    check(
        [HI, asks("a", "b"), gives("a"), UserMessage("steer"), gives("b"), AssistantMessage("x")],
        [HI, asks("a", "b"), gives("a"), gives("b"), UserMessage("steer"), AssistantMessage("x")],
        (RepairKind.RESULT_MOVED, 4, "b"),
    )


def test_missing_result_is_of_unknown_outcome() -> None:
    check(
        [HI, asks("a", "b"), gives("b"), UserMessage("and?")],
        [HI, asks("a", "b"), gives("b"), unknown("a"), UserMessage("and?")],
        (RepairKind.RESULT_ADDED, 1, "a"),
    )
    assert "unknown" in UNKNOWN_OUTCOME


def test_last_round_stays_open_unless_asked() -> None:
    messages: list[Message] = [HI, asks("a", "b"), gives("a")]
    assert repair(messages).changes == ()
    closed = repair(messages, close_round=True)
    assert closed.messages == (*messages, unknown("b"))
    assert closed.changes == (RepairChange(RepairKind.RESULT_ADDED, 1, "b"),)
    blank_behind: list[Message] = [HI, asks("a"), AssistantMessage(""), gives("a")]
    assert repair(blank_behind).messages == (HI, asks("a"), gives("a"))


def test_ids_pair_inside_a_round_only() -> None:
    check(
        [HI, asks("a"), HI, asks("a"), gives("a", "second")],
        [HI, asks("a"), unknown("a"), HI, asks("a"), gives("a", "second")],
        (RepairKind.RESULT_ADDED, 1, "a"),
    )
    valid: list[Message] = [HI, asks("a"), gives("a", "1"), asks("a"), gives("a", "2"), AssistantMessage("x")]
    assert repair(valid).changes == ()


def test_result_stored_twice_does_not_answer_an_older_round() -> None:
    check(
        [HI, asks("a"), HI, asks("a"), gives("a", "same"), gives("a", "same"), AssistantMessage("x")],
        [HI, asks("a"), unknown("a"), HI, asks("a"), gives("a", "same"), AssistantMessage("x")],
        (RepairKind.RESULT_ADDED, 1, "a"),
        (RepairKind.DUPLICATE_DROPPED, 5, "a"),
    )


def test_two_rounds_whose_results_follow_both() -> None:
    check(
        [HI, asks("a"), asks("b"), gives("a"), gives("b")],
        [HI, asks("a"), gives("a"), asks("b"), gives("b")],
        (RepairKind.RESULT_MOVED, 3, "a"),
    )


def test_duplicate_ids_in_a_round_are_made_unique_and_results_follow() -> None:
    twins = AssistantMessage(tool_calls=(ToolCall("a", "f", '{"n":1}'), ToolCall("a", "f", '{"n":2}')))
    check(
        [HI, twins, gives("a", "one"), gives("a", "two"), AssistantMessage("x")],
        [
            HI,
            AssistantMessage(tool_calls=(ToolCall("a", "f", '{"n":1}'), ToolCall("a_2", "f", '{"n":2}'))),
            gives("a", "one"),
            gives("a_2", "two"),
            AssistantMessage("x"),
        ],
        (RepairKind.CALL_ID_CHANGED, 1, "a"),
        (RepairKind.RESULT_ID_CHANGED, 3, "a"),
    )


def test_new_ids_do_not_collide_with_given_ones() -> None:
    repaired = repair([HI, asks("a", "a", "a_2", "", ""), HI])
    message = repaired.messages[1]
    assert isinstance(message, AssistantMessage)
    assert [call.id for call in message.tool_calls] == ["a", "a_3", "a_2", "call_1", "call_2"]


def test_results_and_calls_without_ids_pair_by_order_and_tool() -> None:
    calls = AssistantMessage(tool_calls=(ToolCall("", "f", "{}"), ToolCall("", "g", "{}")))
    repaired = repair([HI, calls, gives("", "of g", "g"), gives("", "of f", "f"), AssistantMessage("x")])
    assert [message.content for message in repaired.messages if isinstance(message, ToolMessage)] == [
        "of g",
        "of f",
    ]
    assert [message.tool_call_id for message in repaired.messages if isinstance(message, ToolMessage)] == [
        "call_2",
        "call_1",
    ]
    repaired = repair([HI, asks("a", "b"), gives("", "first"), gives("a", "second"), AssistantMessage("x")])
    assert repaired.messages[2:4] == (gives("b", "first"), gives("a", "second"))


def test_calls_without_a_name_get_one() -> None:
    check(
        [HI, asks("a", "b", name=""), gives("a", name="g"), gives("b"), AssistantMessage("x")],
        [
            HI,
            AssistantMessage(tool_calls=(ToolCall("a", "g", "{}"), ToolCall("b", NAMELESS_TOOL, "{}"))),
            gives("a", name="g"),
            gives("b"),
            AssistantMessage("x"),
        ],
        (RepairKind.CALL_NAMED, 1, "a"),
        (RepairKind.CALL_NAMED, 1, "b"),
    )


@pytest.mark.parametrize(
    "blank",
    [
        AssistantMessage(),
        AssistantMessage(""),
        AssistantMessage(" \n"),
        AssistantMessage((TextPart(" \n"),)),
        AssistantMessage(()),
        AssistantMessage(reasoning="only thought"),
    ],
)
def test_blank_answer_left_by_a_failed_stream_is_dropped(blank: AssistantMessage) -> None:
    check(
        [HI, blank, AssistantMessage("x"), HI, blank],
        [HI, AssistantMessage("x"), HI],
        (RepairKind.BLANK_DROPPED, 1, None),
        (RepairKind.BLANK_DROPPED, 4, None),
    )


def test_consecutive_answers_are_merged() -> None:
    check(
        [HI, AssistantMessage("A"), AssistantMessage("B"), asks("a", text="C"), gives("a")],
        [HI, asks("a", text="A\n\nB\n\nC"), gives("a")],
        (RepairKind.ANSWERS_MERGED, 2, None),
        (RepairKind.ANSWERS_MERGED, 3, None),
    )


def test_merging_keeps_everything_that_both_say() -> None:
    origin = Origin("p", "h", "m")
    first = AssistantMessage(
        "A",
        reasoning="r1",
        replay=Replay(origin, "w", (Raw(b"1"),)),
        usage=Usage(input_tokens=1),
        finish_reason="length",
        extra=Raw(b'{"x":1,"y":1}'),
    )
    second = AssistantMessage(
        "B",
        reasoning="r2",
        replay=Replay(origin, "w", (Raw(b"2"),)),
        usage=Usage(input_tokens=2),
        extra=Raw(b'{"y":2}'),
    )
    (_, merged) = repair([HI, first, second]).messages
    assert merged == AssistantMessage(
        "A\n\nB",
        reasoning="r1\n\nr2",
        replay=Replay(origin, "w", (Raw(b"1"), Raw(b"2"))),
        usage=Usage(input_tokens=3),
        finish_reason="length",
        extra=Raw(b'{"x":1,"y":2}'),
    )


def test_merging_answers_of_two_origins_drops_replay_data() -> None:
    first = AssistantMessage("A", replay=Replay(Origin("p", "h", "m"), "w", (Raw(b"1"),)))
    for second in (
        AssistantMessage("B"),
        AssistantMessage("B", replay=Replay(Origin("p", "h", "other"), "w", (Raw(b"2"),))),
    ):
        (_, merged) = repair([HI, first, second]).messages
        assert merged == AssistantMessage("A\n\nB")


def test_answer_before_any_user_message_gets_one() -> None:
    check(
        [SystemMessage("S"), asks("a"), gives("a"), AssistantMessage("x")],
        [SystemMessage("S"), UserMessage(MISSING_START), asks("a"), gives("a"), AssistantMessage("x")],
        (RepairKind.USER_ADDED, 1, None),
    )


def test_every_kind_of_change_is_met_above() -> None:
    broken: list[list[Message]] = [
        [SystemMessage("A"), SystemMessage("B"), HI, SystemMessage("C"), SystemMessage("")],
        [asks("a", "a", name=""), HI, gives("a"), gives("a"), gives("a"), gives("z")],
        [HI, asks("a"), AssistantMessage(""), AssistantMessage("x"), AssistantMessage("y")],
    ]
    assert {change.kind for messages in broken for change in repair(messages).changes} == set(RepairKind)


@pytest.mark.parametrize("call_id", ["", "a"])
def test_thousands_of_calls_with_one_id_do_not_take_the_square_of_their_number(call_id: str) -> None:
    calls = tuple(ToolCall(call_id, "f", "{}") for _ in range(20_000))
    repaired = repair([UserMessage("x"), AssistantMessage(tool_calls=calls)]).messages[1]
    assert isinstance(repaired, AssistantMessage)
    assert len({call.id for call in repaired.tool_calls}) == len(calls)
