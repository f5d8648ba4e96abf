"""Calls out of fragments, whatever hosts do to indices, ids and names, and any cut of a stream."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assembler_help import ORIGIN, assemble
from hermes_messages import (
    ChatResponse,
    FinishReason,
    StreamEvent,
    TextDelta,
    ToolCall,
    ToolCallArgumentsDelta,
    ToolCallStarted,
)
from hermes_messages.assembler import StreamAssembler
from hermes_messages.deltas import Delta, FinishChunk, ReasoningChunk, RefusalChunk, TextChunk, ToolCallChunk


def calls_of(*chunks: Delta, finish: str | None = "tool_calls") -> list[tuple[str, str, str]]:
    _, response = assemble([*chunks, FinishChunk(finish)])
    return [(call.id, call.name, call.arguments) for call in response.message.tool_calls]


def test_one_call_without_index() -> None:
    assert calls_of(ToolCallChunk(id="a", name="f", arguments="{}")) == [("a", "f", "{}")]


def test_calls_without_index_open_by_id() -> None:
    assert calls_of(
        ToolCallChunk(id="a", name="f", arguments='{"x"'),
        ToolCallChunk(arguments=":1}"),
        ToolCallChunk(id="b", name="g"),
        ToolCallChunk(arguments="{}"),
    ) == [("a", "f", '{"x":1}'), ("b", "g", "{}")]


def test_head_on_an_occupied_index_and_tail_at_an_unknown_one() -> None:
    assert calls_of(
        ToolCallChunk(index=0, id="a", name="f", arguments="{}"),
        ToolCallChunk(index=0, id="b", name="g"),
        ToolCallChunk(index=1, arguments='{"x":'),
        ToolCallChunk(index=1, arguments="1}"),
    ) == [("a", "f", "{}"), ("b", "g", '{"x":1}')]


def test_known_id_wins_over_index() -> None:
    assert calls_of(
        ToolCallChunk(index=0, id="a", name="f", arguments="{"),
        ToolCallChunk(index=1, id="b", name="g", arguments="{"),
        ToolCallChunk(index=1, id="a", arguments="}"),
        ToolCallChunk(index=0, id="b", arguments="}"),
    ) == [("a", "f", "{}"), ("b", "g", "{}")]


def test_interleaved_fragments_and_a_late_name() -> None:
    events, response = assemble(
        [
            ToolCallChunk(index=0, id="a", arguments='{"q"'),
            ToolCallChunk(index=0, name="search"),
            ToolCallChunk(index=1, id="b", name="open", arguments="{"),
            ToolCallChunk(index=0, arguments=":1}"),
            ToolCallChunk(index=1, arguments="}"),
            FinishChunk("tool_calls"),
        ]
    )
    assert events == [
        ToolCallStarted(0, "a", "search"),
        ToolCallArgumentsDelta(0, '{"q"'),
        ToolCallStarted(1, "b", "open"),
        ToolCallArgumentsDelta(1, "{"),
        ToolCallArgumentsDelta(0, ":1}"),
        ToolCallArgumentsDelta(1, "}"),
    ]
    assert response.message.tool_calls == (ToolCall("a", "search", '{"q":1}'), ToolCall("b", "open", "{}"))


def test_late_id_is_adopted() -> None:
    assert calls_of(
        ToolCallChunk(index=0, arguments='{"q"'),
        ToolCallChunk(index=0, id="a", name="f"),
        ToolCallChunk(index=0, arguments=":1}"),
    ) == [("a", "f", '{"q":1}')]


@pytest.mark.parametrize("index", [0, None])
def test_new_id_with_arguments_behind_a_whole_call_is_another_call(index: int | None) -> None:
    """The name of the second comes late: the first must not get its arguments."""
    assert calls_of(
        ToolCallChunk(index=index, name="f", arguments='{"x":1}'),
        ToolCallChunk(index=index, id="b", arguments='{"y":'),
        ToolCallChunk(index=index, id="b", name="g", arguments="2}"),
    ) == [("call_0", "f", '{"x":1}'), ("b", "g", '{"y":2}')]


def test_id_that_comes_after_the_call_was_shown_changes_nothing() -> None:
    events, response = assemble(
        [
            ToolCallChunk(index=0, name="f"),
            ToolCallChunk(index=0, id="late", arguments="{"),
            ToolCallChunk(index=7, id="late", arguments="}"),
        ]
    )
    assert events[0] == ToolCallStarted(0, "call_0", "f")
    assert response.message.tool_calls == (ToolCall("call_0", "f", "{}"),)


def test_whole_calls_without_id_and_index() -> None:
    assert calls_of(
        ToolCallChunk(name="f", arguments="{}"),
        ToolCallChunk(name="f", arguments="{}"),
        ToolCallChunk(name="g"),
        ToolCallChunk(arguments="{}"),
    ) == [("call_0", "f", "{}"), ("call_1", "f", "{}"), ("call_2", "g", "{}")]


def test_whole_calls_without_id_on_one_index() -> None:
    assert calls_of(
        ToolCallChunk(index=0, name="f", arguments='{"a":1}'),
        ToolCallChunk(index=0, name="f", arguments='{"a":2}'),
        ToolCallChunk(index=0, name="g", arguments=""),
        ToolCallChunk(index=0, name="h", arguments=""),
    ) == [("call_0", "f", '{"a":1}'), ("call_1", "f", '{"a":2}'), ("call_2", "g", ""), ("call_3", "h", "")]


def test_whole_arguments_before_their_name_are_not_glued_to_the_neighbour() -> None:
    assert calls_of(
        ToolCallChunk(index=0, id="a", name="f", arguments="{}"),
        ToolCallChunk(index=1, arguments='{"x":1}'),
        ToolCallChunk(index=1, id="b", name="g"),
    ) == [("a", "f", "{}"), ("b", "g", '{"x":1}')]


def test_name_and_id_repeated_on_every_fragment() -> None:
    chunk = [ToolCallChunk(index=0, id="a", name="f", arguments=part) for part in ('{"x"', ":{}", "}", "")]
    assert calls_of(*chunk) == [("a", "f", '{"x":{}}')]


def test_repeated_heads_with_braces_in_strings_are_one_call() -> None:
    parts = ['{"code": "}', "}\\", '"}', '{", "more": {"a": {}', "}", "}"]
    chunks = [ToolCallChunk(index=0, id="a", name="f", arguments=part) for part in parts]
    assert calls_of(*chunks) == [("a", "f", "".join(parts))]
    second = ToolCallChunk(index=0, id="a", name="f", arguments='{"b": 1}')
    assert calls_of(*chunks, second)[1] == ("a_2", "f", '{"b": 1}')


def test_one_id_for_two_calls_is_made_unique() -> None:
    events, response = assemble(
        [
            ToolCallChunk(index=0, id="call_1", name="f", arguments='{"a":1}'),
            ToolCallChunk(index=1, id="call_1", name="f", arguments='{"a":2}'),
        ]
    )
    assert response.message.tool_calls == (
        ToolCall("call_1", "f", '{"a":1}'),
        ToolCall("call_1_2", "f", '{"a":2}'),
    )
    assert [event.id for event in events if isinstance(event, ToolCallStarted)] == ["call_1", "call_1_2"]


def test_one_id_for_two_calls_whose_arguments_come_later() -> None:
    assert calls_of(
        ToolCallChunk(index=0, id="x", name="f", arguments="{}"),
        ToolCallChunk(index=1, id="x", name="f"),
        ToolCallChunk(index=1, arguments='{"a":2}'),
    ) == [("x", "f", "{}"), ("x_2", "f", '{"a":2}')]
    assert calls_of(
        ToolCallChunk(index=0, id="x", name="f", arguments=""),
        ToolCallChunk(index=1, id="x", name="g", arguments=""),
    ) == [("x", "f", ""), ("x_2", "g", "")]


def test_the_same_call_sent_twice_is_one_call() -> None:
    assert calls_of(
        ToolCallChunk(index=0, id="a", name="f", arguments="{}"),
        ToolCallChunk(index=1, id="a", name="f", arguments="{}"),
    ) == [("a", "f", "{}")]


def test_equal_calls_with_different_ids_are_two_calls() -> None:
    assert (
        len(
            calls_of(
                ToolCallChunk(id="a", name="f", arguments="{}"),
                ToolCallChunk(id="b", name="f", arguments="{}"),
            )
        )
        == 2
    )


def test_made_ids_avoid_real_ones() -> None:
    assert calls_of(
        ToolCallChunk(index=0, id="call_1", name="f", arguments="{}"),
        ToolCallChunk(index=1, name="g", arguments="{}"),
    ) == [("call_1", "f", "{}"), ("call_1_2", "g", "{}")]


@pytest.mark.parametrize("name", ["", None, "  "])
def test_a_call_without_a_name_never_becomes_a_call(name: str | None) -> None:
    events, response = assemble(
        [ToolCallChunk(index=0, id="a", name=name, arguments="{}"), FinishChunk("tool_calls")]
    )
    assert events == []
    assert response.message.tool_calls == ()
    [partial] = response.unfinished_calls
    assert (partial.id, partial.name, partial.arguments) == ("a", "", "{}")
    assert "no tool name" in partial.reason
    assert response.finish is FinishReason.MALFORMED_CALL


def test_fragments_that_say_nothing_open_nothing() -> None:
    _, response = assemble([ToolCallChunk(), ToolCallChunk(index=0), ToolCallChunk(index=0, id="", name="")])
    assert response.unfinished_calls == ()
    assert response.finish is FinishReason.STOP


@pytest.mark.parametrize("arguments", ['{}""', '{"a":"x\ny"}', '{"action": listt"}', ""])
def test_near_json_arguments_of_a_finished_response_stay_a_call(arguments: str) -> None:
    assert calls_of(ToolCallChunk(index=0, id="a", name="f", arguments=arguments)) == [("a", "f", arguments)]


def test_cut_off_call_is_partial_and_its_whole_sibling_stays() -> None:
    _, response = assemble(
        [
            ToolCallChunk(index=0, id="a", name="f", arguments='{"a":1}'),
            ToolCallChunk(index=1, id="b", name="g", arguments='{"a":'),
            FinishChunk("length"),
        ]
    )
    assert [call.id for call in response.message.tool_calls] == ["a"]
    assert [(call.id, call.arguments) for call in response.unfinished_calls] == [("b", '{"a":')]
    assert response.finish is FinishReason.LENGTH


def test_truncated_call_that_the_host_closed_is_not_run() -> None:
    chunk = ToolCallChunk(index=0, id="a", name="write", arguments='{"text":"half"}')
    _, response = assemble([chunk, FinishChunk("length")])
    assert response.message.tool_calls == ()
    assert len(response.unfinished_calls) == 1
    _, response = assemble([chunk, TextChunk("And now"), FinishChunk("length")])
    assert len(response.message.tool_calls) == 1


PIECES = st.text(alphabet=st.sampled_from('ab{}":,1\n <>/think\u00e9\U0001f600'), max_size=12)
CALL_ARGUMENTS = st.one_of(PIECES, st.sampled_from(["", "{}", '{"a": {"b": 1}}', '{"a": ', '{}""']))


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Delta], list[Delta]]:
    """A stream as a host with honest indices sends it, whole and cut into chunks."""
    whole: list[Delta] = []
    cut: list[Delta] = []
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(["text", "reasoning", "refusal"]))
        text = draw(PIECES)
        whole.append(make_chunk(kind, text))
        cut.extend(make_chunk(kind, part) for part in cut_text(text, draw))
    for index in range(draw(st.integers(0, 3))):
        head = ToolCallChunk(index=index, id=f"c{index}", name=f"tool{index}")
        text = draw(CALL_ARGUMENTS)
        whole += [head, ToolCallChunk(index=index, arguments=text)]
        cut += [head, *(ToolCallChunk(index=index, arguments=part) for part in cut_text(text, draw))]
    finish = FinishChunk(draw(st.sampled_from(["stop", "tool_calls", "length", "", None])))
    return [*whole, finish], [*cut, finish]


def make_chunk(kind: str, text: str) -> Delta:
    if kind == "text":
        return TextChunk(text)
    return ReasoningChunk(text) if kind == "reasoning" else RefusalChunk(text)


def cut_text(text: str, draw: st.DrawFn) -> list[str]:
    points = draw(st.lists(st.integers(0, len(text)), max_size=4))
    return [text[a:b] for a, b in itertools.pairwise([0, *sorted(points), len(text)])]


@given(streams(), st.booleans())
def test_any_cut_of_a_stream_assembles_to_the_same_response(
    stream: tuple[list[Delta], list[Delta]], complete: bool
) -> None:
    whole, cut = stream
    _, expected = assemble(whole, complete=complete)
    events, response = assemble(cut, complete=complete)
    assert response == expected
    assert_events_tell_the_response(events, response)


def assert_events_tell_the_response(events: list[StreamEvent], response: ChatResponse) -> None:
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert text == (response.message.content or "")
    started = [event for event in events if isinstance(event, ToolCallStarted)]
    assert [event.position for event in started] == list(range(len(started)))
    arguments = dict.fromkeys(range(len(started)), "")
    for event in events:
        if isinstance(event, ToolCallArgumentsDelta):
            arguments[event.position] += event.text
    told = {(event.id, event.name, arguments[event.position]) for event in started}
    known = {(call.id, call.name, call.arguments) for call in response.message.tool_calls}
    known |= {(call.id, call.name, call.arguments) for call in response.unfinished_calls}
    assert told == known


CHUNKS = st.tuples(
    st.one_of(st.none(), st.integers(0, 2)),
    st.sampled_from([None, "", "a", "b"]),
    st.sampled_from([None, "", "f", "g"]),
    st.sampled_from(["", '{{"{0}":1}}', '{{"{0}', "{0}}}"]),
)


@given(st.lists(CHUNKS, max_size=8), st.sampled_from(["tool_calls", "length", None]), st.booleans())
def test_no_argument_text_is_ever_lost(
    chunks: list[tuple[int | None, str | None, str | None, str]], word: str | None, complete: bool
) -> None:
    assembler = StreamAssembler(ORIGIN, "w")
    sent = 0
    for number, (index, call_id, name, template) in enumerate(chunks):
        arguments = template.format(number)
        sent += len(arguments)
        assembler.feed(ToolCallChunk(index, call_id, name, arguments))
    assembler.feed(FinishChunk(word))
    response = assembler.finish(complete=complete)
    calls, partial = response.message.tool_calls, response.unfinished_calls
    ids = [call.id for call in calls] + [call.id for call in partial]
    assert len(set(ids)) == len(ids)
    assert all(call.name and call.id for call in calls)
    assert sent == sum(len(call.arguments) for call in calls) + sum(len(call.arguments) for call in partial)


def test_thousands_of_calls_that_share_an_id_do_not_take_the_square_of_their_number() -> None:
    many = 20_000
    shared = [ToolCallChunk(number, "a", f"f{number}", "{}") for number in range(many)]
    calls = assemble(shared)[1].message.tool_calls
    assert [call.id for call in calls[:3]] == ["a", "a_2", "a_3"]
    assert len({call.id for call in calls}) == many
    nameless = [ToolCallChunk(number, None, "f", "{}") for number in range(many)]
    assert len({call.id for call in assemble(nameless)[1].message.tool_calls}) == many
