from __future__ import annotations

from msgspec import Raw

from hermes_messages import (
    AssistantMessage,
    AudioPart,
    FilePart,
    ImagePart,
    Message,
    MessageLog,
    OpaquePart,
    Origin,
    Replay,
    TextPart,
    TokenEstimator,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
    estimate_tokens,
)


def test_english_text_is_about_four_characters_a_token() -> None:
    text = (
        "The quick brown fox jumps over the lazy dog. " * 100
    )  # 10 tokens a sentence with common tokenizers
    assert 0.8 * 1000 < estimate_tokens([UserMessage(text)]) < 1.25 * 1000


def test_chinese_text_is_about_one_token_a_character() -> None:
    assert 900 < estimate_tokens([UserMessage("漢" * 1000)]) < 1300


def test_nothing_is_nothing() -> None:
    assert estimate_tokens([]) == 0
    assert TokenEstimator().total == 0


def test_incremental_sum_is_the_whole() -> None:
    messages: list[Message] = [
        UserMessage("hello"),
        AssistantMessage("hi there"),
        UserMessage("how are you?"),
    ]
    estimate = TokenEstimator()
    for message in messages:
        estimate.add([message])
    assert estimate.total == estimate_tokens(messages)


def test_calls_tools_and_media_count() -> None:
    base = estimate_tokens([UserMessage("x")])
    tool = ToolSpec.from_schema("read_file", "Reads a file.", {"type": "object", "properties": {"path": {}}})
    assert estimate_tokens([UserMessage("x")], [tool]) > base + 15
    call = ToolCall("c", "read_file", '{"path": "notes.txt"}')
    assert (
        estimate_tokens([AssistantMessage(tool_calls=(call,))]) > estimate_tokens([AssistantMessage("")]) + 10
    )
    image = "data:image/png;base64," + "A" * 1_000_000
    assert 1_000 < estimate_tokens([UserMessage((ImagePart(image),))]) < 2_000
    assert estimate_tokens([UserMessage((ImagePart(image, detail="low"),))]) < 200
    for part in (
        AudioPart("A" * 100_000, "wav"),
        FilePart("id"),
        OpaquePart(Raw(b"{}")),
        TextPart("a" * 400),
    ):
        assert estimate_tokens([UserMessage((part,))]) > base + 40


def test_reasoning_and_replay_do_not_count() -> None:
    replay = Replay(Origin("p", "h", "m"), "w", (Raw(b'"' + b"x" * 9000 + b'"'),))
    plain = AssistantMessage("answer")
    thoughtful = AssistantMessage("answer", reasoning="hm " * 1000, replay=replay)
    assert estimate_tokens([thoughtful]) == estimate_tokens([plain])


def test_calibration_takes_the_real_figure_and_scales_what_follows() -> None:
    estimate = TokenEstimator()
    first = estimate.add([UserMessage("word " * 400)])
    estimate.calibrate(2 * first)
    assert estimate.total == 2 * first
    second = estimate.add([UserMessage("word " * 400)])
    assert 1.9 * first < second < 2.1 * first
    assert estimate.total == 2 * first + second


def test_absurd_figures_do_not_ruin_the_estimate() -> None:
    estimate = TokenEstimator()
    first = estimate.add([UserMessage("word " * 400)])
    estimate.calibrate(0)
    estimate.calibrate(-5)
    assert abs(estimate.total - first) < 10
    estimate.calibrate(10**9)
    assert estimate.add([UserMessage("word " * 400)]) <= 4 * first


def test_odd_text_can_be_counted() -> None:
    assert estimate_tokens([ToolMessage("c", "\ud800" * 10)]) > 0


def test_a_log_that_grows_is_estimated_as_a_whole_and_from_any_view() -> None:
    log = MessageLog()
    views = [log.view()]
    for number in range(5):
        log.append(UserMessage("word " * number))
        views.append(log.view())
    for view in (*views, *reversed(views)):
        assert estimate_tokens(view) == estimate_tokens(list(view))
    noted = views[3].with_tail([UserMessage("It is noon.")])
    assert estimate_tokens(noted) == estimate_tokens(list(noted)) > estimate_tokens(views[3])
    assert estimate_tokens(views[5]) == estimate_tokens(list(views[5]))


def test_how_a_log_came_to_its_length_changes_no_estimate() -> None:
    log, running = MessageLog(), TokenEstimator()
    for number in range(500):
        message = UserMessage("é漢" * (number % 7) + "a" * (number % 5))
        log.append(message)
        running.add([message])
        whole = estimate_tokens(list(log.view()))
        assert (estimate_tokens(log.view()), running.total) == (whole, whole)
