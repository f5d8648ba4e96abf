from __future__ import annotations

import copy
import gc
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from example_counts import fewer_examples
from hermes_messages import (
    AssistantMessage,
    History,
    HistoryEncoder,
    Message,
    MessageLog,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    encode_messages,
    segments,
)
from message_strategies import conversations


def encode(messages: Sequence[Message]) -> bytes:
    return encode_messages(messages)[1:-1]


def a_round(number: int) -> list[Message]:
    return [
        AssistantMessage(tool_calls=(ToolCall("a", "f", "{}"), ToolCall("b", "f", "{}"))),
        ToolMessage("a", f"result {number}"),
        ToolMessage("b", f"result {number}"),
    ]


def test_segments_are_what_some_wires_merge() -> None:
    messages = [
        SystemMessage("s"),
        UserMessage("1"),
        UserMessage("2"),
        *a_round(1),
        *a_round(2),
        AssistantMessage("x"),
        UserMessage("3"),
    ]
    assert list(segments(messages)) == [(0, 1), (1, 3), (3, 6), (6, 9), (9, 10), (10, 11)]
    assert list(segments(messages, 6)) == [(6, 9), (9, 10), (10, 11)]
    assert list(segments([])) == []


_short = st.lists(st.integers(0, 9).map(lambda number: UserMessage(str(number))), max_size=5)


def test_a_tail_costs_its_own_encoding_and_leaves_nothing_behind() -> None:
    """A note of one request after a user message, after results, and between two of a log that grows."""
    log = MessageLog([SystemMessage("s"), UserMessage("hi")])
    stable = HistoryEncoder(encode)
    sent: list[list[Message]] = []
    for number in range(30):
        for note in (f"note {number}", None):
            view = log.view() if note is None else log.view().with_tail([UserMessage(note)])
            before = stable.encode_calls
            assert stable.encode(view).joined() == encode(list(view))
            assert stable.encode_calls - before <= 4
            sent.append(list(view))
        log.extend(
            a_round(number) if number % 3 else [AssistantMessage("x"), UserMessage("y"), UserMessage("z")]
        )
    for one, other in zip(sent[::2], sent[2::2], strict=False):
        assert other[: len(one) - 1] == one[:-1]


@fewer_examples
@given(_short, _short, st.data())
def test_a_view_with_a_tail_is_the_sequence_that_it_says(
    logged: list[Message], tail: list[Message], data: st.DataObject
) -> None:
    history = History.of(logged).with_tail(tail)
    assert history.logged == len(logged)
    skipped = data.draw(st.none() | st.integers(0, len(history)))
    view = history if skipped is None else history.after(skipped)
    whole = [*logged, *tail][skipped or 0 :]
    assert (list(view), len(view)) == (whole, len(whole))
    assert view == whole
    index = data.draw(st.slices(len(whole)))
    assert list(view[index]) == whole[index]
    for position in range(-len(whole), len(whole)):
        assert view[position] == whole[position]
    for outside in (len(whole), -len(whole) - 1):
        with pytest.raises(IndexError):
            view[outside]


def test_only_the_open_segment_is_encoded_again() -> None:
    log = MessageLog([SystemMessage("s"), UserMessage("hi")])
    stable = HistoryEncoder(encode)
    stable.encode(log.view())
    assert stable.encode_calls == 2
    for number in range(50):
        log.extend(a_round(number))
        before = stable.encode_calls
        stable.encode(log.view())
        assert stable.encode_calls - before == 1  # the new open one; the one before is closed as it stands
    before = stable.encode_calls
    stable.encode(log.view())
    assert stable.encode_calls == before
    log.append(ToolMessage("late", "one more result of the last round"))
    stable.encode(log.view())
    assert stable.encode_calls - before == 1  # it grew


def test_the_bytes_of_an_open_segment_are_not_taken_for_those_of_a_longer_one() -> None:
    log = MessageLog([UserMessage("one")])
    stable = HistoryEncoder(encode)
    stable.encode(log.view())
    with_note = log.view().with_tail([UserMessage("a note of this request only")])
    assert stable.encode(with_note).joined() == encode(list(with_note))
    log.append(UserMessage("two"))
    assert stable.encode(log.view()).joined() == encode(list(log.view()))
    log.append(AssistantMessage("three"))
    assert stable.encode(log.view()).closed == (encode([UserMessage("one"), UserMessage("two")]),)


@fewer_examples
@given(conversations(), st.lists(st.integers(0, 30), max_size=8))
def test_closed_bytes_never_change_whatever_views_are_encoded(
    messages: list[Message], cuts: list[int]
) -> None:
    log = MessageLog()
    stable = HistoryEncoder(encode)
    closed: tuple[bytes, ...] = ()
    for message in messages:
        log.append(message)
        encoded = stable.encode(log.view())
        assert encoded.closed[: len(closed)] == closed
        closed = encoded.closed
        assert encoded.joined() == encode(list(log.view()))
        for cut in cuts:
            if cut <= len(log):
                older = stable.encode(History(log, cut))
                assert older.joined() == encode(messages[:cut])
                assert older.closed == closed[: len(older.closed)]


def test_segments_that_encode_to_nothing_leave_no_comma() -> None:
    def without_system(messages: Sequence[Message]) -> bytes:
        return encode([message for message in messages if not isinstance(message, SystemMessage)])

    history = History.of([SystemMessage("s"), UserMessage("hi"), AssistantMessage("x")])
    encoded = HistoryEncoder(without_system).encode(history)
    assert encoded.joined() == encode(history[1:])
    assert encoded.closed == (b"", encode(history[1:2]))


def test_bytes_go_with_their_log() -> None:
    stable = HistoryEncoder(encode)
    history = History.of([UserMessage("hi"), AssistantMessage("x")])
    stable.encode(history)
    assert len(stable._logs) == 1
    del history
    gc.collect()
    assert len(stable._logs) == 0


def test_a_failing_encoder_leaves_the_kept_bytes_right() -> None:
    fail = True

    def fragile(messages: Sequence[Message]) -> bytes:
        if fail and isinstance(messages[0], AssistantMessage):
            raise RuntimeError("no")
        return encode(messages)

    history = History.of([UserMessage("hi"), AssistantMessage("x"), UserMessage("more")])
    stable = HistoryEncoder(fragile)
    with pytest.raises(RuntimeError):
        stable.encode(history)
    fail = False
    assert stable.encode(history).joined() == encode(history)


def test_history_is_a_sequence() -> None:
    messages = [UserMessage(str(number)) for number in range(5)]
    log = MessageLog(messages)
    view = log.view()
    log.append(UserMessage("later"))
    assert len(view) == 5
    assert list(view) == messages
    assert view[-1] == messages[-1]
    assert view[1:3] == tuple(messages[1:3])
    assert view[::-2] == tuple(messages[::-2])
    assert view[:100] == tuple(messages)
    assert view == messages
    assert view != messages[:4]
    assert view == History.of(messages)
    assert view != "text"
    assert UserMessage("later") not in view
    for index in (5, -6):
        with pytest.raises(IndexError):
            view[index]
    assert repr(view) == "History(5 messages)"


def test_a_view_can_not_be_longer_than_its_log() -> None:
    log = MessageLog([UserMessage("hi")])
    for length in (-1, 2):
        with pytest.raises(ValueError, match="view of"):
            History(log, length)
        with pytest.raises(ValueError, match="behind"):
            log.view().after(length)


def test_a_copy_of_a_log_is_a_log_of_its_own() -> None:
    log = MessageLog([UserMessage("a")])
    view = log.view()
    copy.copy(log).append(UserMessage("b"))
    log.append(UserMessage("c"))
    assert list(view) == [UserMessage("a")]
    assert list(log.view()) == [UserMessage("a"), UserMessage("c")]


@pytest.mark.parametrize("name", ["log", "logged"])
def test_a_view_can_not_be_pointed_elsewhere(name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(History.of([UserMessage("a")]), name, 0)
