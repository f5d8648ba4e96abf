"""What compression leaves as it is: the round in work, whole rounds, the user's words."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_loop import CompressionPlan, CompressionSettings
from hermes_loop.compression.plan import joined, kept_rounds, plan_compression, shortened_tail
from hermes_loop.compression.render import Summary, quotes_of, read_summary, render_parts, summary_message
from hermes_messages import (
    AssistantMessage,
    ConfigurationError,
    ImagePart,
    Message,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
    estimate_tokens,
    validate,
)
from hermes_messages.shrinking import last_boundary

SETTINGS = CompressionSettings(result_characters=200)


def a_round(names: Sequence[str], start: int, size: int) -> list[Message]:
    calls = tuple(ToolCall(f"c{start}-{place}", name, "{}") for place, name in enumerate(names))
    results = [ToolMessage(call.id, f"{call.name} {'x' * size}", call.name) for call in calls]
    return [AssistantMessage(tool_calls=calls), *results]


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Valid ones, ending anywhere where a request may be sent."""
    messages: list[Message] = []
    for turn in range(draw(st.integers(1, 6))):
        messages.append(UserMessage(f"user {turn} {'u' * draw(st.integers(0, 300))}"))
        for _ in range(draw(st.integers(0, 4))):
            names = draw(st.lists(st.sampled_from(["ls", "todo", "read"]), min_size=1, max_size=3))
            messages += a_round(names, len(messages), draw(st.integers(0, 1500)))
        messages.append(AssistantMessage(f"answer {turn}"))
    return messages[: draw(st.sampled_from(_ends(messages)))]


def _ends(messages: Sequence[Message]) -> list[int]:
    """Where a request may stand: after the user's words, or after all results of a round."""
    return [
        place
        for place in range(1, len(messages) + 1)
        if isinstance(messages[place - 1], UserMessage | ToolMessage)
        and not (place < len(messages) and isinstance(messages[place], ToolMessage))
    ]


def compressed(messages: Sequence[Message], window: int, keep_images: int = 3) -> list[Message]:
    plan = plan_compression(messages, window, SETTINGS)
    summary = summary_message(Summary("what was done", quotes_of(messages[: plan.end])))
    new = joined(
        [summary],
        kept_rounds(messages, plan, SETTINGS.keep_tools, SETTINGS.result_characters),
        shortened_tail(messages, plan.end, SETTINGS.result_characters),
        messages,
        keep_images,
    )
    return [message for message, _ in new]


@given(conversations(), st.integers(10, 5000))
def test_every_compressed_conversation_is_valid_and_keeps_what_is_in_work(
    messages: list[Message], window: int
) -> None:
    new = compressed(messages, window)
    assert validate(new) == []
    in_work = messages[last_boundary(messages) :]
    assert new[-len(in_work) :] == in_work
    assert any(isinstance(message, UserMessage) for message in new)


@given(conversations(), st.integers(10, 5000), st.integers(10, 5000))
def test_no_word_of_the_user_is_lost_also_not_by_the_second_compression(
    messages: list[Message], first: int, second: int
) -> None:
    said = [message.content for message in messages if isinstance(message, UserMessage)]
    twice = compressed([*compressed(messages, first)], second)
    assert list(quotes_of(twice)) == said


@given(conversations(), st.integers(10, 5000))
def test_the_last_todo_list_stays(messages: list[Message], window: int) -> None:
    def last_list(of: Sequence[Message]) -> str | None:
        lists = [message for message in of if isinstance(message, ToolMessage) and message.name == "todo"]
        return lists[-1].tool_call_id if lists else None

    assert last_list(compressed(messages, window)) == last_list(messages)


@given(conversations(), st.integers(10, 5000))
def test_places_tell_where_each_message_that_stays_was(messages: list[Message], window: int) -> None:
    plan = plan_compression(messages, window, SETTINGS)
    new = joined(
        [],
        kept_rounds(messages, plan, ["todo"], 10**6),
        shortened_tail(messages, plan.end, 10**6),
        messages,
        9,
    )
    places = [place for _, place in new if place is not None]
    assert places == sorted(set(places))
    assert all(message == messages[place] for message, place in new if place is not None)


def test_long_results_of_older_rounds_are_cut_to_their_ends_and_say_where_the_rest_is() -> None:
    old, fresh = a_round(["ls"], 0, 5000), a_round(["read"], 9, 5000)
    tail = [message for message, _ in shortened_tail([*old, *fresh], 0, 300)]
    short = tail[1]
    assert isinstance(short, ToolMessage)
    assert isinstance(short.content, str)
    assert len(short.content) < 600
    assert "result of call c0-0 are left out" in short.content
    assert short.content.startswith("ls xxx")
    assert tail[2:] == fresh


def test_images_beyond_the_newest_become_a_line_of_text() -> None:
    image = ImagePart("data:image/png;base64,AAAA")
    messages: list[Message] = []
    for number in range(4):
        messages += [UserMessage((TextPart(f"see {number}"), image)), AssistantMessage("ok")]
    messages.append(UserMessage("and now?"))
    new = compressed(messages, 100_000, keep_images=2)
    shown = [
        part
        for message in new
        if isinstance(message.content, tuple)
        for part in message.content
        if isinstance(part, ImagePart)
    ]
    assert len(shown) == 2


def test_there_is_a_user_message_whatever_the_compressor_gave() -> None:
    round_ = a_round(["ls"], 0, 1)
    new = joined([], [], shortened_tail(round_, 0, 300), round_, 1)
    assert isinstance(new[0][0], UserMessage)
    assert validate([message for message, _ in new]) == []


@given(st.text(), st.lists(st.text(min_size=1)))
def test_a_summary_reads_back_as_it_was_written(text: str, quotes: list[str]) -> None:
    summary = Summary(text.strip() or "x", tuple(quotes))
    assert read_summary(summary_message(summary)) == summary


def test_other_messages_are_no_summaries() -> None:
    assert read_summary(UserMessage("[Summary]")) is None
    assert read_summary(AssistantMessage("x")) is None


@given(conversations(), st.integers(100, 3000), st.integers(1, 4))
def test_what_a_summariser_reads_comes_in_a_bounded_number_of_parts(
    messages: list[Message], part_tokens: int, most: int
) -> None:
    parts = render_parts(messages, part_tokens, most)
    assert 1 <= len(parts) <= most
    newest = messages[-1].content
    assert str(newest)[:20] in parts[-1]


def test_the_plan_takes_whole_rounds_and_leaves_the_newest_that_fit() -> None:
    messages: list[Message] = [UserMessage("go")]
    for number in range(10):
        messages += a_round(["ls", "read"], number, 400)
    plan = plan_compression(messages, 2000, SETTINGS)
    assert 0 < plan.end < last_boundary(messages)
    assert isinstance(messages[plan.end], AssistantMessage)
    in_work = estimate_tokens(messages[last_boundary(messages) :])
    assert estimate_tokens(messages[plan.end :]) <= max(500, in_work)


def test_with_nothing_older_than_the_work_the_plan_is_empty() -> None:
    messages = [UserMessage("go"), *a_round(["ls"], 0, 4000)]
    assert plan_compression(messages, 100, SETTINGS) == CompressionPlan(
        begin=0, end=1, target_tokens=256, words_tokens=256
    )
    assert plan_compression([UserMessage("go")], 100, SETTINGS).end == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"threshold": 1.5},
        {"threshold": 0.2, "keep_recent": 0.3},
        {"keep_recent": 0.0},
        {"per_turn": 0},
        {"timeout_s": 0},
        {"cooldown_s": -1},
        {"least_saving": 1},
        {"result_characters": 10},
        {"keep_images": -1},
    ],
)
def test_settings_that_can_not_work_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match="compression"):
        CompressionSettings(**wrong)  # type: ignore[arg-type]
