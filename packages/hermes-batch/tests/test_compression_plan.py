"""What compression takes out of a trajectory, and what it must leave as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_batch.compression_plan import (
    CompressionSettings,
    Span,
    find_span,
    step_tokens,
    summary_prompt,
    with_summary_step,
)
from hermes_batch.compression_step import compressed, look_at
from hermes_batch.records import Turn
from hermes_messages import ConfigurationError, ToolCall, validate
from hermes_messages.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from hermes_messages.trajectory import from_trajectory, to_trajectory

Part = tuple[str, int]
"""A part of a conversation: `say` and the length of the answer, or `call` and the length of the result."""

parts = st.lists(st.tuples(st.sampled_from(["call", "calls", "say"]), st.integers(0, 4_000)), max_size=14)
keep_first = st.lists(st.sampled_from(["human", "gpt", "tool"]), unique=True).map(tuple)


def trajectory(given: list[Part]) -> tuple[Turn, ...]:
    messages: list[Message] = [SystemMessage("be brief"), UserMessage("go")]
    for number, (kind, size) in enumerate(given):
        if kind == "say":
            messages += [AssistantMessage(f"answer {number}"), UserMessage(f"and {number} " + "y" * size)]
        else:
            calls = tuple(
                ToolCall(f"c{number}.{place}", "read", "{}") for place in range(1 + (kind == "calls"))
            )
            messages.append(AssistantMessage(tool_calls=calls))
            messages += [ToolMessage(call.id, "x" * size) for call in calls]
    messages.append(AssistantMessage("done"))
    return tuple(Turn(step["from"], step["value"]) for step in to_trajectory(messages))


def read(steps: tuple[Turn, ...]) -> list[Message]:
    return from_trajectory([{"from": step.from_, "value": step.value} for step in steps])


@given(parts, keep_first, st.integers(1, 6), st.integers(60, 6_000))
def test_what_is_kept_stays_whole_and_the_transcript_valid_with_its_speakers_apart(
    given: list[Part], first: tuple[str, ...], last: int, target: int
) -> None:
    steps = trajectory(given)
    settings = CompressionSettings(
        target_tokens=target,
        summary_tokens=50,
        keep_first=first,  # type: ignore[arg-type]
        keep_last=last,
    )
    looked = look_at(steps, settings, step_tokens)
    made = compressed(looked, "They looked.", settings, step_tokens)
    assert made.steps is not None
    assert validate(read(made.steps)) == []
    metrics = made.metrics
    assert metrics.original_tokens == sum(step_tokens(step.value) for step in steps)
    assert metrics.compressed_tokens == sum(step_tokens(step.value) for step in made.steps)
    assert metrics.still_over_limit == (metrics.compressed_tokens > target)
    if looked.span is None:
        assert made.steps == steps
        return
    begin, end = looked.span.begin, looked.span.end
    assert (made.steps[:begin], made.steps[begin + 1 :]) == (steps[:begin], steps[end:])
    assert made.steps[begin] == Turn("human", "[CONTEXT SUMMARY]: They looked.")
    assert steps[-last:] == made.steps[-last:]
    for speaker in ("system", *first):
        place = next((place for place, step in enumerate(steps) if step.from_ == speaker), None)
        assert place is None or not begin <= place < end
    assert made.steps[begin - 1].from_ != "human"
    assert made.steps[begin + 1].from_ == "gpt"
    assert metrics.turns_removed == end - begin - 1


def test_no_more_steps_go_than_the_target_needs() -> None:
    steps = trajectory([("call", 4_000)] * 8)
    whole = sum(step_tokens(step.value) for step in steps)
    settings = CompressionSettings(target_tokens=whole - 1_500, summary_tokens=100)
    span = look_at(steps, settings, step_tokens).span
    assert span == Span(4, 8)
    made = compressed(look_at(steps, settings, step_tokens), "s" * 400, settings, step_tokens)
    assert made.metrics.outcome == "summarised"
    assert not made.metrics.still_over_limit


def test_where_the_middle_is_too_short_for_the_target_all_of_it_goes() -> None:
    steps = trajectory([("call", 2_000)] * 5)
    settings = CompressionSettings(target_tokens=700, summary_tokens=50)
    made = compressed(look_at(steps, settings, step_tokens), "short", settings, step_tokens)
    assert made.metrics.still_over_limit
    assert (made.metrics.span_begin, made.metrics.span_end) == (4, 8)
    assert made.metrics.ratio < 0.7


def test_a_middle_no_longer_than_a_summary_is_not_summed_up() -> None:
    sizes = [10, 10, 10, 10, 30, 30, 10, 10, 500, 10]
    speakers = ["system", "human", "gpt", "tool", "gpt", "tool", "gpt", "tool", "gpt", "tool"]
    assert find_span(speakers, sizes, CompressionSettings(target_tokens=200, summary_tokens=60)) is None
    assert find_span(speakers, sizes, CompressionSettings(target_tokens=200, summary_tokens=59)) == Span(4, 6)


def test_a_summary_longer_than_what_it_stands_for_is_as_good_as_none() -> None:
    steps = trajectory([("call", 1_000)] * 6)
    settings = CompressionSettings(target_tokens=900, summary_tokens=50)
    made = compressed(look_at(steps, settings, step_tokens), "x" * 90_000, settings, step_tokens)
    assert made.steps == steps
    assert made.metrics.summary_failed
    assert made.metrics.outcome == "kept"


@pytest.mark.parametrize(
    ("on_failed_summary", "over_limit", "outcome"),
    [
        ("keep", "keep", "kept"),
        ("keep", "shorten", "shortened"),
        ("keep", "drop", None),
        ("notice", "keep", "notice"),
        ("drop", "keep", None),
    ],
)
def test_a_failed_summary_falls_back_as_it_was_asked(
    on_failed_summary: str, over_limit: str, outcome: str | None
) -> None:
    steps = trajectory([("call", 3_000)] * 6)
    settings = CompressionSettings(
        target_tokens=3_000,
        summary_tokens=50,
        on_failed_summary=on_failed_summary,  # type: ignore[arg-type]
        over_limit=over_limit,  # type: ignore[arg-type]
    )
    made = compressed(look_at(steps, settings, step_tokens), None, settings, step_tokens)
    assert made.metrics.summary_failed
    assert (made.steps is None) == (outcome is None)
    if made.steps is not None:
        assert made.metrics.outcome == outcome
        assert validate(read(made.steps)) == []
        assert made.metrics.still_over_limit == (outcome == "kept")
    if outcome == "notice":
        assert made.steps is not None
        assert "there is no summary" in made.steps[made.metrics.span_begin].value


@given(parts.filter(len), st.integers(200, 3_000))
def test_the_summariser_is_shown_every_step_within_its_bound(given: list[Part], most: int) -> None:
    steps = trajectory(given)
    settings = CompressionSettings(input_tokens=most, summary_tokens=70, request="In {tokens}, please.")
    shown, _, request = summary_prompt(steps, Span(2, len(steps)), settings, step_tokens).rpartition("\n")
    assert request == "In 70, please."
    assert step_tokens(shown) <= most + 50
    if step_tokens(shown) < most - 100:
        for place in range(2, len(steps)):
            assert f"[Step {place}, {steps[place].from_}]" in shown


def test_a_counter_of_the_caller_takes_the_place_of_the_estimate() -> None:
    steps = trajectory([("call", 10)] * 8)
    settings = CompressionSettings(target_tokens=12, summary_tokens=1)
    looked = look_at(steps, settings, lambda text: 1)
    assert looked.tokens == len(steps) == 19
    made = compressed(looked, "all of it", settings, lambda text: 1)
    assert made.metrics.compressed_tokens <= 12


def test_the_notice_is_appended_to_the_system_step_only_where_steps_were_replaced() -> None:
    steps = trajectory([("call", 10)] * 8)
    settings = CompressionSettings(system_notice=" (shortened)")
    new = with_summary_step(steps, Span(4, 8), "[CONTEXT SUMMARY]: twice?", settings)
    assert new[0].value.endswith(" (shortened)")
    assert new[4].value == "[CONTEXT SUMMARY]: twice?"
    assert look_at(steps, settings, step_tokens).span is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"target_tokens": 0},
        {"keep_last": 0},
        {"summary_tokens": 20_000},
        {"keep_first": ("robot",)},
        {"over_limit": "burn"},
        {"on_failed_summary": "shorten"},
        {"input_tokens": 10},
    ],
)
def test_settings_that_can_not_work_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        CompressionSettings(**wrong)  # type: ignore[arg-type]
