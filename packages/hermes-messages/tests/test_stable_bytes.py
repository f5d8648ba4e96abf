from __future__ import annotations

import copy
import gc
from collections.abc import Sequence
from itertools import pairwise

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
from hermes_messages.stable_bytes import HistoryJoiner, JoinedHistory
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


class Fragile:
    """Encodes, but no assistant message while it `fails`."""

    def __init__(self) -> None:
        self.fails = True

    def __call__(self, messages: Sequence[Message]) -> bytes:
        if self.fails and isinstance(messages[0], AssistantMessage):
            raise RuntimeError("no")
        return encode(messages)


def test_a_failing_encoder_leaves_the_kept_bytes_right() -> None:
    history = History.of([UserMessage("hi"), AssistantMessage("x"), UserMessage("more")])
    fragile = Fragile()
    stable = HistoryEncoder(fragile)
    with pytest.raises(RuntimeError):
        stable.encode(history)
    fragile.fails = False
    assert stable.encode(history).joined() == encode(history)


def letters_and_commas(before: bytes, segment: bytes) -> tuple[bytes, bytes]:
    letter = b"r" if b'"tool"' in segment else b"t"
    return (b"," + before + segment if before else segment), letter


def run_of(history: Sequence[Message]) -> tuple[bytes, list[int], bytes]:
    """The run of a history, where its segments end, and their letters: made from nothing."""
    messages = list(history)
    systems = 0
    while systems < len(messages) and isinstance(messages[systems], SystemMessage):
        systems += 1
    run, ends, letters, before = b"", [], b"", b""
    for begin, end in segments(messages, systems):
        encoded = some(messages[begin:end])
        if encoded and not isinstance(messages[begin], SystemMessage):
            added, before = letters_and_commas(before, encoded)
            run += added
            letters += before
        else:
            letters += b"-"
        ends.append(len(run))
    return run, ends, letters


def some(messages: Sequence[Message]) -> bytes:
    """Nothing for some segments, as wires do that leave blank messages out."""
    return b"" if isinstance(messages[0], UserMessage) and messages[0].content == "" else encode(messages)


def check_joined(joined: JoinedHistory, history: Sequence[Message]) -> None:
    run, ends, letters = run_of(history)
    assert joined.within([b"<"], [b">"]) == b"<" + run + b">"
    assert joined.size == len(run)
    assert [joined.stop(place) for place in range(len(joined))] == ends
    for letter in (b"r", b"t", b"-"):
        for before in (None, *range(len(letters) + 1)):
            assert joined.find_last(letter, before) == letters.rfind(letter, 0, before)
    systems = [place for place, message in enumerate(history) if isinstance(message, SystemMessage)]
    leading = [place for number, place in enumerate(systems) if number == place]
    assert list(joined.leading) == [encode([history[place]]) for place in leading]
    assert joined.misplaced == (len(systems) > len(leading))
    cuts = sorted({0, *ends})
    for start, stop in pairwise(cuts):
        assert joined.read(start, stop) == run[start:stop]
        assert joined.within([], [], [(start, stop, b"!")]) == run[:start] + b"!" + run[stop:]
        between = [(start, start, b"("), (stop, stop, b")")]
        assert joined.within([], [], between) == run[:start] + b"(" + run[start:stop] + b")" + run[stop:]


def in_segments(messages: Sequence[Message]) -> list[Message]:
    """Without the results that stand in front or behind a system message, which no call can have."""
    kept: list[Message] = []
    for message in messages:
        if not isinstance(message, ToolMessage) or (kept and not isinstance(kept[-1], SystemMessage)):
            kept.append(message)
    return kept


_any_message: st.SearchStrategy[Message] = st.one_of(
    st.sampled_from([SystemMessage("s"), UserMessage(""), UserMessage("u"), AssistantMessage("a")]),
    st.integers(0, 3).map(lambda number: ToolMessage(f"c{number}", "r")),
)


@fewer_examples
@given(
    st.lists(_any_message, max_size=12).map(in_segments),
    st.lists(st.integers(0, 12), max_size=4),
)
def test_a_run_is_that_of_a_fresh_start_whatever_views_are_joined(
    messages: list[Message], cuts: list[int]
) -> None:
    log = MessageLog()
    joiner = HistoryJoiner(some, letters_and_commas)
    for message in messages:
        log.append(message)
        for length in (len(log), *(cut for cut in cuts if cut <= len(log))):
            for tail in ((), (UserMessage("note"),), (SystemMessage("late"), AssistantMessage("x"))):
                view = History(log, length).with_tail(tail)
                check_joined(joiner.join(view), view)


def test_a_joined_history_stays_what_it_is_while_its_log_grows() -> None:
    """Also while somebody still looks at the bytes, as the traceback of an error does."""
    log = MessageLog([UserMessage("one"), *a_round(1)])
    joiner = HistoryJoiner(encode, letters_and_commas)
    joined, before = joiner.join(log.view()), joiner.join(log.view()).within([], [])
    looks = list(joined._views(0, joined.size))
    for number in range(200):
        log.extend(a_round(number))
        joiner.join(log.view())
    assert joined.within([], []) == before == b"".join(looks)
    check_joined(joiner.join(log.view()), log.view())


def test_only_the_open_segment_is_encoded_for_a_run() -> None:
    log = MessageLog([SystemMessage("s"), UserMessage("hi")])
    joiner = HistoryJoiner(encode, letters_and_commas)
    joiner.join(log.view())
    for number in range(50):
        log.extend(a_round(number))
        before = joiner.encode_calls
        joiner.join(log.view())
        assert joiner.encode_calls - before == 1
    del log
    gc.collect()
    assert len(joiner._logs) == 0


def test_a_failing_encoder_leaves_the_run_right() -> None:
    history = History.of([UserMessage("hi"), AssistantMessage("x"), UserMessage("more")])
    fragile = Fragile()
    joiner = HistoryJoiner(fragile, letters_and_commas)
    with pytest.raises(RuntimeError):
        joiner.join(history)
    fragile.fails = False
    check_joined(joiner.join(history), history)


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
