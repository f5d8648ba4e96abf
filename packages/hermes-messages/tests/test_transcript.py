from __future__ import annotations

import copy
import gc
import math
import time

import pytest
from hypothesis import given

from hermes_messages import (
    AssistantMessage,
    AudioPart,
    InvariantError,
    Message,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    Transcript,
    TranscriptRule,
    TranscriptState,
    UserMessage,
    validate,
)
from hermes_messages.transcript_rules import TRANSITIONS, TranscriptEvent, event_of, is_blank
from message_strategies import broken_conversations, conversations

HI = UserMessage("hi")
SYSTEM = SystemMessage("s")
ANSWER = AssistantMessage("x")


def asks(*ids: str, name: str = "f") -> AssistantMessage:
    return AssistantMessage(tool_calls=tuple(ToolCall(call_id, name, "{}") for call_id in ids))


def gives(call_id: str) -> ToolMessage:
    return ToolMessage(call_id, "ok")


REACHING: dict[TranscriptState, list[Message]] = {
    TranscriptState.EMPTY: [],
    TranscriptState.PRIMED: [SYSTEM],
    TranscriptState.ASKED: [HI],
    TranscriptState.RESULTS_OWED: [HI, asks("a", "b")],
    TranscriptState.RESULTS_GIVEN: [HI, asks("a"), gives("a")],
    TranscriptState.ANSWERED: [HI, ANSWER],
}
SAYING: dict[TranscriptEvent, Message] = {
    TranscriptEvent.SYSTEM: SYSTEM,
    TranscriptEvent.USER: HI,
    TranscriptEvent.TEXT: ANSWER,
    TranscriptEvent.CALLS: asks("c"),
    TranscriptEvent.RESULT: gives("a"),
}


def test_the_table_has_every_state_and_leads_nowhere_else() -> None:
    assert set(TRANSITIONS) == set(TranscriptState) == set(REACHING)
    assert {event for row in TRANSITIONS.values() for event in row} == set(TranscriptEvent)
    assert {state for row in TRANSITIONS.values() for state in row.values()} == set(TranscriptState) - {
        TranscriptState.EMPTY
    }


@pytest.mark.parametrize("state", TranscriptState)
@pytest.mark.parametrize("event", SAYING)
def test_append_does_what_the_table_says(state: TranscriptState, event: TranscriptEvent) -> None:
    transcript = Transcript(REACHING[state])
    assert transcript.state is state
    message = SAYING[event]
    expected = TRANSITIONS[state].get(event_of(message, len(transcript.open_calls)))
    if expected is not None:
        transcript.append(message)
        assert transcript.state is expected
        return
    before = list(transcript), transcript.open_calls
    with pytest.raises(InvariantError) as caught:
        transcript.append(message)
    assert caught.value.index == len(transcript)
    assert (list(transcript), transcript.open_calls, transcript.state) == (*before, state)


@pytest.mark.parametrize(
    ("messages", "rule", "index", "call_id"),
    [
        ([HI, SYSTEM], TranscriptRule.ONE_SYSTEM_FIRST, 1, None),
        ([SYSTEM, SYSTEM], TranscriptRule.ONE_SYSTEM_FIRST, 1, None),
        ([HI, asks("a"), SYSTEM], TranscriptRule.ONE_SYSTEM_FIRST, 2, None),
        ([ANSWER], TranscriptRule.USER_BEFORE_ANSWER, 0, None),
        ([SYSTEM, asks("a")], TranscriptRule.USER_BEFORE_ANSWER, 1, None),
        ([HI, asks("a"), HI], TranscriptRule.RESULTS_OWED, 2, "a"),
        ([HI, asks("a", "b"), gives("a"), ANSWER], TranscriptRule.RESULTS_OWED, 3, "b"),
        ([HI, asks("a"), asks("b")], TranscriptRule.RESULTS_OWED, 2, "a"),
        ([HI, ANSWER, ANSWER], TranscriptRule.ANSWER_ONCE, 2, None),
        ([HI, ANSWER, asks("a")], TranscriptRule.ANSWER_ONCE, 2, None),
        ([HI, AssistantMessage("")], TranscriptRule.NO_EMPTY_ANSWER, 1, None),
        ([HI, AssistantMessage((TextPart(" \n"),))], TranscriptRule.NO_EMPTY_ANSWER, 1, None),
        ([HI, gives("a")], TranscriptRule.RESULT_NEEDS_CALL, 1, "a"),
        ([HI, asks("a"), gives("b")], TranscriptRule.RESULT_NEEDS_CALL, 2, "b"),
        ([HI, asks("a"), gives("a"), gives("a")], TranscriptRule.RESULT_NEEDS_CALL, 3, "a"),
        ([HI, asks("a"), gives("a"), asks("b"), gives("a")], TranscriptRule.RESULT_NEEDS_CALL, 4, "a"),
        ([HI, asks("a", "a")], TranscriptRule.UNIQUE_CALL_IDS, 1, "a"),
        ([HI, asks("a", name="")], TranscriptRule.CALL_NEEDS_NAME, 1, "a"),
        ([HI, asks("")], TranscriptRule.CALL_NEEDS_ID, 1, ""),
    ],
)
def test_every_rule_is_named_with_index_and_id(
    messages: list[Message], rule: TranscriptRule, index: int, call_id: str | None
) -> None:
    with pytest.raises(InvariantError) as caught:
        Transcript(messages)
    error = caught.value
    assert (error.rule, error.index, error.call_id) == (rule, index, call_id)
    assert rule in str(error)
    (same,) = validate(messages)
    assert (same.rule, same.index, same.call_id) == (rule, index, call_id)


def test_every_rule_has_an_example_above() -> None:
    (mark,) = test_every_rule_is_named_with_index_and_id.pytestmark  # type: ignore[attr-defined]
    assert {case[1] for case in mark.args[1]} == set(TranscriptRule)


def test_validate_lists_all_violations_and_each_mistake_once() -> None:
    messages: list[Message] = [
        AssistantMessage(""),
        HI,
        asks("a", "a", name=""),
        gives("a"),
        gives("a"),
        SYSTEM,
        AssistantMessage(" "),
        ANSWER,
        gives("z"),
    ]
    assert [(error.rule, error.index) for error in validate(messages)] == [
        (TranscriptRule.NO_EMPTY_ANSWER, 0),
        (TranscriptRule.CALL_NEEDS_NAME, 2),
        (TranscriptRule.UNIQUE_CALL_IDS, 2),
        (TranscriptRule.CALL_NEEDS_NAME, 2),
        (TranscriptRule.ONE_SYSTEM_FIRST, 5),
        (TranscriptRule.NO_EMPTY_ANSWER, 6),
        (TranscriptRule.RESULT_NEEDS_CALL, 8),
    ]


@given(broken_conversations)
def test_transcript_and_validate_agree(messages: list[Message]) -> None:
    found = validate(messages)
    if not found:
        assert list(Transcript(messages)) == messages
        return
    with pytest.raises(InvariantError) as caught:
        Transcript(messages)
    error, first = caught.value, found[0]
    assert (error.rule, error.index, error.call_id) == (first.rule, first.index, first.call_id)


@given(conversations())
def test_every_prefix_is_valid_and_closed_at_round_borders(messages: list[Message]) -> None:
    for length in range(len(messages) + 1):
        prefix = Transcript(messages[:length])
        assert validate(messages[:length]) == []
        at_border = length == len(messages) or not isinstance(messages[length], ToolMessage)
        if at_border and length < len(messages):
            assert prefix.open_calls == ()


def test_open_calls_keep_the_models_order() -> None:
    transcript = Transcript([HI, asks("c", "a", "b"), gives("a")])
    assert [call.id for call in transcript.open_calls] == ["c", "b"]


def test_a_server_may_use_one_id_for_ever() -> None:
    transcript = Transcript([HI])
    for _ in range(3):
        transcript.extend([asks("call_0"), gives("call_0")])
    assert transcript.state is TranscriptState.RESULTS_GIVEN


def test_extend_keeps_what_came_before_the_bad_message() -> None:
    transcript = Transcript()
    with pytest.raises(InvariantError):
        transcript.extend([HI, ANSWER, ANSWER, HI])
    assert list(transcript) == [HI, ANSWER]


def test_history_is_a_view_that_later_appends_do_not_change() -> None:
    transcript = Transcript([HI])
    view = transcript.history()
    transcript.append(ANSWER)
    assert list(view) == [HI]
    assert list(transcript.history()) == [HI, ANSWER]
    assert view.log is transcript.history().log


def test_refusals_and_sounds_are_no_blank_answers() -> None:
    assert not is_blank(AssistantMessage(refusal="no"))
    assert not is_blank(AssistantMessage((AudioPart("AA", "wav"),)))
    assert is_blank(AssistantMessage(refusal=""))


def test_append_costs_the_same_at_any_length() -> None:
    def seconds(transcript: Transcript, rounds: int) -> float:
        started = time.process_time()
        for _ in range(rounds):
            transcript.append(HI)
            transcript.append(asks("a"))
            transcript.append(gives("a"))
            transcript.history()
        return time.process_time() - started

    gc.collect()
    gc.disable()
    try:
        long = Transcript()
        seconds(long, 20_000)
        short_s = long_s = math.inf
        for _ in range(200):  # what else the machine does may last a while
            short_s = min(short_s, seconds(Transcript(), 300))
            long_s = min(long_s, seconds(long, 300))
            if long_s < 4 * short_s:
                return
        raise AssertionError(f"{long_s} s for what costs {short_s} s at the beginning")
    finally:
        gc.enable()


def test_a_copy_of_a_transcript_can_not_spoil_it() -> None:
    transcript = Transcript([HI])
    other = copy.copy(transcript)
    other.append(ANSWER)
    assert list(transcript) == [HI]
    assert list(other) == [HI, ANSWER]
    transcript.append(ANSWER)
    assert (transcript.state, len(transcript)) == (other.state, len(other))
