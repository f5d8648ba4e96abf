"""Text, reasoning, usage and the end of an answer, out of what a stream said of them."""

import msgspec
import pytest

from assembler_help import ORIGIN, assemble
from hermes_messages import (
    ConfigurationError,
    FinishReason,
    InvariantError,
    ReasoningDelta,
    Replay,
    TextDelta,
    ToolMessage,
    Transcript,
    TranscriptState,
    Usage,
    UserMessage,
)
from hermes_messages.assembler import StreamAssembler
from hermes_messages.deltas import (
    FinishChunk,
    MetaChunk,
    ReasoningChunk,
    RefusalChunk,
    ReplayChunk,
    TextChunk,
    ToolCallChunk,
    UsageChunk,
)


def test_stream_without_its_end_mark() -> None:
    head = ToolCallChunk(index=0, id="a", name="f", arguments='{"a":1}')
    _, response = assemble([TextChunk("x"), head], complete=False)
    assert response.message.tool_calls == ()
    assert response.finish is FinishReason.LENGTH
    assert response.message.finish_reason is None
    _, response = assemble([head, FinishChunk("tool_calls")], complete=False)
    assert len(response.message.tool_calls) == 1
    assert response.finish is FinishReason.TOOL_CALLS
    _, response = assemble(
        [ToolCallChunk(id="a", name="f", arguments='{"a'), FinishChunk("stop")], complete=False
    )
    assert response.message.tool_calls == ()
    assert response.finish is FinishReason.LENGTH


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("stop", FinishReason.STOP),
        ("end", FinishReason.STOP),
        ("end_turn", FinishReason.STOP),
        ("stop_sequence", FinishReason.STOP),
        ("something_new", FinishReason.STOP),
        ("", FinishReason.STOP),
        (None, FinishReason.STOP),
        ("tool_calls", FinishReason.STOP),
        ("length", FinishReason.LENGTH),
        ("max_tokens", FinishReason.LENGTH),
        ("MAX_TOKENS", FinishReason.LENGTH),
        ("content_filter", FinishReason.CONTENT_FILTER),
        ("refusal", FinishReason.CONTENT_FILTER),
        ("SAFETY", FinishReason.CONTENT_FILTER),
        ("MALFORMED_FUNCTION_CALL", FinishReason.MALFORMED_CALL),
    ],
)
def test_finish_words_of_a_text_answer(word: str | None, finish: FinishReason) -> None:
    _, response = assemble([TextChunk("x"), FinishChunk(word)])
    assert response.finish is finish
    assert response.message.finish_reason == (word or None)


@pytest.mark.parametrize("word", ["stop", "tool_use", "function_call", "", None, "end", "something_new"])
def test_calls_that_came_win_over_the_word(word: str | None) -> None:
    _, response = assemble([ToolCallChunk(id="a", name="f", arguments="{}"), FinishChunk(word)])
    assert response.finish is FinishReason.TOOL_CALLS


def test_empty_finish_words_neither_end_nor_replace() -> None:
    _, response = assemble(
        [FinishChunk(""), TextChunk("a"), FinishChunk("length"), FinishChunk(""), FinishChunk(None)]
    )
    assert response.finish is FinishReason.LENGTH
    assert response.message.finish_reason == "length"


def test_no_text_and_empty_text_are_different() -> None:
    call = ToolCallChunk(id="a", name="f", arguments="{}")
    assert assemble([call])[1].message.content is None
    assert assemble([TextChunk(""), call])[1].message.content == ""
    assert assemble([TextChunk("<think>x</think>"), call])[1].message.content == ""


def test_a_blank_answer_is_not_replaced_by_text_of_an_earlier_round() -> None:
    call = ToolCallChunk(id="a", name="f", arguments="{}")
    _, first = assemble([TextChunk("foo"), call, FinishChunk("tool_calls")])
    transcript = Transcript([UserMessage("hi"), first.message, ToolMessage("a", "ok")])
    _, second = assemble([TextChunk(""), FinishChunk("stop")])
    assert second.message.content == ""
    with pytest.raises(InvariantError):
        transcript.append(second.message)
    assert transcript.state is TranscriptState.RESULTS_GIVEN


def test_no_reasoning_and_empty_reasoning_are_different() -> None:
    assert assemble([TextChunk("a")])[1].message.reasoning is None
    events, response = assemble([ReasoningChunk(""), TextChunk("a")])
    assert response.message.reasoning == ""
    assert events == [TextDelta("a")]


def test_think_tags_become_reasoning() -> None:
    events, response = assemble([TextChunk(part) for part in ("<", "think>plan", "</thi", "nk>Done")])
    assert events == [ReasoningDelta("plan"), TextDelta("Done")]
    assert (response.message.content, response.message.reasoning) == ("Done", "plan")


def test_think_tags_are_text_when_switched_off() -> None:
    _, response = assemble([TextChunk("<think>a</think>b")], think_tags=False)
    assert response.message.content == "<think>a</think>b"


def test_text_that_begins_inside_the_tag_of_the_template() -> None:
    events, response = assemble([TextChunk("plan</thi"), TextChunk("nk>\nDone")], starts_inside=True)
    assert events == [ReasoningDelta("plan"), TextDelta("Done")]
    assert (response.message.content, response.message.reasoning) == ("Done", "plan")


def test_a_host_that_takes_the_reasoning_out_itself_does_not_lose_the_answer() -> None:
    events, response = assemble([ReasoningChunk("plan"), TextChunk("Done")], starts_inside=True)
    assert events == [ReasoningDelta("plan"), TextDelta("Done")]
    assert (response.message.content, response.message.reasoning) == ("Done", "plan")


def test_calls_without_text_are_no_reasoning_though_the_template_opened_the_tag() -> None:
    _, response = assemble([ToolCallChunk(id="a", name="f", arguments="{}")], starts_inside=True)
    assert (response.message.content, response.message.reasoning) == (None, None)
    assert len(response.message.tool_calls) == 1


def test_held_back_text_comes_out_with_the_finish_word() -> None:
    assembler = StreamAssembler(ORIGIN, "w")
    assert assembler.feed(TextChunk("<th")) == []
    assert assembler.feed(FinishChunk("stop")) == [TextDelta("<th")]
    assert assembler.finish().message.content == "<th"


def test_held_back_text_is_in_the_message_without_a_finish_word() -> None:
    assembler = StreamAssembler(ORIGIN, "w")
    assembler.feed(TextChunk("a\n<"))
    assert assembler.finish().message.content == "a\n<"


def test_answer_behind_mentioned_tags_is_text() -> None:
    events, response = assemble(
        [TextChunk("<think>the <think> tag</think>\nYes"), FinishChunk("stop"), FinishChunk("stop")]
    )
    assert response.message.content == "Yes"
    assert response.message.reasoning == "the <think> tag</think>"
    assert events[-1] == TextDelta("Yes")


def test_replay_blocks_keep_order_bytes_and_origin() -> None:
    blocks = [msgspec.Raw(b'{"type": "thinking","signature":"A"}'), msgspec.Raw(b'{"type":"tool_use"}')]
    _, response = assemble([ReplayChunk(block) for block in blocks])
    assert response.message.replay == Replay(ORIGIN, "openai_chat", tuple(blocks))
    assert assemble([TextChunk("x")])[1].message.replay is None


def test_usage_meta_and_refusal() -> None:
    _, response = assemble(
        [
            MetaChunk(model="m-1"),
            RefusalChunk("I "),
            RefusalChunk("won't"),
            UsageChunk(Usage(input_tokens=1)),
            FinishChunk("stop"),
            UsageChunk(Usage(input_tokens=2)),
            MetaChunk(response_id="r"),
        ]
    )
    assert (response.model, response.response_id) == ("m-1", "r")
    assert response.usage == response.message.usage == Usage(input_tokens=2)
    assert response.message.refusal == "I won't"
    assert response.message.content is None


def test_usage_stays_unknown() -> None:
    assert assemble([TextChunk("x")])[1].usage is None


def test_feeding_a_finished_assembler_is_refused() -> None:
    assembler = StreamAssembler(ORIGIN, "w")
    assert assembler.finish() == assembler.finish()
    with pytest.raises(ConfigurationError, match="finished"):
        assembler.feed(TextChunk("x"))
