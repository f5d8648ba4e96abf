"""What a callback that can only append is shown when an attempt is made again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermes_loop.stream_text import ShownText


def play(*attempts: list[str], ends_well: bool = True) -> str:
    shown = ShownText()
    out = ""
    for attempt in attempts:
        shown.begin_attempt()
        out += "".join(shown.feed(delta) for delta in attempt)
    return out + shown.finish() if ends_well else out


def test_a_second_attempt_that_begins_the_same_is_shown_once() -> None:
    assert play(["Hel"], ["He", "llo"]) == "Hello"


def test_a_second_attempt_that_differs_is_shown_whole_after_a_newline() -> None:
    assert play(["Hel"], ["Good", " day"]) == "Hel\nGood day"
    assert play(["Hel"], ["H", "i"]) == "Hel\nHi"


def test_a_shorter_second_attempt_is_shown_whole_when_it_ends() -> None:
    assert play(["Hello"], ["Hel"]) == "Hello\nHel"


def test_an_attempt_that_died_while_it_was_held_back_changes_nothing() -> None:
    assert play(["Hello"], ["He"], ["Hello", "!"]) == "Hello!"


def test_the_same_text_again_is_not_shown_again() -> None:
    assert play(["Hello"], ["Hello"]) == "Hello"


def test_without_a_failure_text_passes_as_it_comes() -> None:
    shown = ShownText()
    shown.begin_attempt()
    assert [shown.feed(delta) for delta in ("a", "", "b")] == ["a", "", "b"]


_deltas = st.lists(st.text(alphabet="ab", max_size=3), max_size=5)


@given(st.lists(_deltas, min_size=1, max_size=4))
def test_what_is_shown_always_ends_with_the_last_attempt_whole(attempts: list[list[str]]) -> None:
    last = "".join(attempts[-1])
    assert play(*attempts).endswith(last)


@given(st.lists(_deltas, min_size=1, max_size=4))
def test_what_is_shown_holds_no_more_than_the_attempts_apart(attempts: list[list[str]]) -> None:
    whole = ["".join(attempt) for attempt in attempts]
    assert len(play(*attempts)) <= sum(len(text) + 1 for text in whole)
