"""A wait lasts as long as it may, and a process that stood still has the rest of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_messages.patience import MOMENT_S, Patience


class Clock:
    def __init__(self) -> None:
        self.now = 1e6

    def wait(self, patience: Patience, *, woken_s: float | None = None, stands_still_s: float = 0.0) -> None:
        """One wait: for as long as it may take, or until something wakes it."""
        longest = patience.begin(self.now)
        self.now += (longest if woken_s is None else min(longest, woken_s)) + stands_still_s
        patience.end(self.now)


def test_nothing_that_happens_makes_a_wait_longer_than_it_may_be() -> None:
    clock, patience, waits = Clock(), Patience(2.0), 0
    while patience.left_s > 0:
        clock.wait(patience)
        waits += 1
    assert waits == 2.0 / MOMENT_S
    assert clock.now == 1e6 + 2.0


def test_of_an_hour_in_which_the_process_stood_still_one_moment_counts() -> None:
    clock, patience = Clock(), Patience(5.0)
    clock.wait(patience, woken_s=0.0, stands_still_s=3600.0)
    assert patience.left_s == 5.0 - MOMENT_S


def test_the_last_wait_is_no_longer_than_what_is_left() -> None:
    patience = Patience(MOMENT_S / 4)
    assert patience.begin(0.0) == MOMENT_S / 4
    patience.end(7.0)
    assert patience.left_s == 0.0


def test_a_wait_is_made_shorter_and_never_longer() -> None:
    patience = Patience(5.0)
    patience.shorten(60.0)
    assert patience.left_s == 5.0
    patience.shorten(1.0)
    assert patience.left_s == 1.0


@pytest.mark.parametrize("limit_s", [0.0, -1.0])
def test_without_any_time_nothing_is_waited_for(limit_s: float) -> None:
    assert Patience(limit_s).left_s <= 0


TIMES = st.floats(min_value=0.0, max_value=1e5)


@given(
    st.floats(min_value=0.1, max_value=20.0),
    st.lists(st.tuples(st.none() | TIMES, st.just(0.0) | TIMES), max_size=60),
)
def test_what_is_left_is_the_limit_less_what_really_ran(
    limit_s: float, waits: list[tuple[float | None, float]]
) -> None:
    clock, patience, ran_s = Clock(), Patience(limit_s), 0.0
    for woken_s, stands_still_s in waits:
        if patience.left_s <= 0:
            break
        started, left_s = clock.now, patience.left_s
        clock.wait(patience, woken_s=woken_s, stands_still_s=stands_still_s)
        counted = left_s - patience.left_s
        assert 0.0 <= counted <= MOMENT_S + 1e-9
        assert counted <= clock.now - started + 1e-9
        if not stands_still_s:
            assert counted == pytest.approx(clock.now - started, abs=1e-6)
        ran_s += counted
    assert ran_s == pytest.approx(limit_s - patience.left_s, abs=1e-6)
    assert patience.left_s >= -1e-9
