"""What is opened for a caller who went away must be closed once, whoever is later."""

from __future__ import annotations

from hermes_messages.arrivals import Arrival


def test_what_is_taken_is_left_open() -> None:
    closed: list[str] = []
    arrival = Arrival(closed.append)
    arrival.come("file")
    assert arrival.take() == "file"
    arrival.give_up()
    assert closed == []


def test_what_comes_after_the_caller_went_away_is_closed() -> None:
    closed: list[str] = []
    arrival = Arrival(closed.append)
    arrival.give_up()
    assert closed == []
    arrival.come("file")
    assert closed == ["file"]


def test_what_came_before_the_caller_went_away_is_closed_once() -> None:
    closed: list[str] = []
    arrival = Arrival(closed.append)
    arrival.come("file")
    arrival.give_up()
    arrival.give_up()
    assert closed == ["file"]
