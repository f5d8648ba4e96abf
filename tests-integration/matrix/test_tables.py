"""What the matrix makes of what it finds: cells, bars, too few interpreters, a sibling where none may be."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from cells import Cell, Ended, Filled, fill
from checks_inside import nothing_else_is_there
from child_processes import CommandError, run
from figures import BARRED, Measured, judge
from interpreters import Python, too_few, wanted_minors
from layers import BASE, WHEELS, subsets
from tables import grid

HERE = Path(__file__).parent
ONE = [Python(11, Path(sys.executable))]


def test_there_are_32_subsets_and_messages_is_in_each() -> None:
    found = list(subsets())
    assert len({frozenset(names) for names in found}) == len(found) == 32
    assert all(names[0] == BASE for names in found)
    assert found[0] == (BASE,)
    assert found[-1] == WHEELS


def test_one_python_is_too_few_in_ci_unless_it_is_said_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HERMES_ONE_PYTHON", raising=False)
    monkeypatch.setenv("CI", "")
    assert too_few(ONE) is None
    monkeypatch.setenv("CI", "true")
    assert "HERMES_ONE_PYTHON=REASON" in str(too_few(ONE))
    assert too_few([*ONE, Python(13, Path(sys.executable))]) is None
    monkeypatch.setenv("HERMES_ONE_PYTHON", "no other is to be had")
    assert too_few(ONE) is None
    assert too_few([]) is not None


def test_the_versions_to_try_are_those_that_the_wheels_promise() -> None:
    assert wanted_minors()[0] == 11
    assert len(wanted_minors()) >= 2


def test_a_cell_that_can_not_be_made_fails_and_the_others_are_filled() -> None:
    async def good() -> Ended:
        return Ended("3")

    async def bad() -> Ended:
        raise CommandError("uv could not")

    told: list[Filled] = []
    cells = [Cell("a", "x", bad), Cell("a", "y", good), Cell("b", "y", good)]
    filled = asyncio.run(fill(cells, 2, told.append))
    assert grid(filled).splitlines() == [
        "   x                y",
        "a  FAILED (failed)  3",
        "b  .                3",
    ]
    assert [cell.ended.failure for cell in filled] == ["uv could not", "", ""]
    assert len(told) == 3


def test_bars_hold_for_messages_alone_and_for_the_whole() -> None:
    quick = [Measured(0.5, 1_400_000), Measured(0.05, 1_400_000)]
    assert {cell.ended.status for cell in judge((BASE,), quick)} == {"ok"}
    slow, large = [Measured(0.061, 1_400_000)], [Measured(0.05, 1_500_001)]
    assert [c.column for c in judge((BASE,), slow) if c.ended.status == "FAILED"] == ["ms import"]
    assert [c.column for c in judge((BASE,), large) if c.ended.status == "FAILED"] == ["MB installed"]
    assert [c.ended.status for c in judge(WHEELS, [Measured(9, 25_000_001)])].count("FAILED") == 1


def test_what_is_measured_for_the_bars_is_all_that_can_fail() -> None:
    enormous = [Measured(1_000, 10**12)]
    can_fail = {names for names in subsets() if any(c.ended.failure for c in judge(names, enormous))}
    assert can_fail == set(BARRED)


def test_sources_in_the_place_of_a_wheel_fail_the_cell() -> None:
    command = [sys.executable, "-I", str(HERE / "checks_inside.py"), ",".join(WHEELS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "AssertionError: hermes_messages comes from " in done.stderr


def test_a_sibling_that_is_no_part_of_the_subset_fails_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    def spec(module: str) -> ModuleSpec:
        return ModuleSpec(module, None, origin=f"site-packages/{module}")

    monkeypatch.setattr("importlib.util.find_spec", spec)
    with pytest.raises(AssertionError, match="hermes_loop is there, and hermes-loop is not of this subset"):
        nothing_else_is_there(frozenset({BASE}))


def test_a_command_past_its_time_is_ended_with_its_children() -> None:
    done = asyncio.run(run(["sh", "-c", "sleep 60 & sleep 60"], cwd=HERE, limit_s=0.2))
    assert done.code != 0
    assert "ended after" in done.output
