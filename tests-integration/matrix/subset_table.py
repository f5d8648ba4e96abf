"""The tables of subsets: each of the 32, on each Python, with the newest and the oldest dependencies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from cells import Cell, Ended
from child_processes import run
from environments import Resolution, Wanted, environment
from interpreters import Python
from layers import BASE, WHEELS, short, subsets, version_of
from suites import BRIEF, NEWEST, QUICK, Campaign, Suite, run_suites
from wheels import House, Pinned

__all__ = ["brief_cells", "check_cells", "covering_cells", "pinned_here"]

CHECKS = Path(__file__).with_name("checks_inside.py")
RESOLUTIONS: tuple[Resolution, ...] = ("highest", "lowest")


def pinned_here(names: Sequence[str], head: House) -> tuple[Pinned, ...]:
    """These wheels as this tree has them."""
    return tuple(Pinned(name, version_of(name), head) for name in names)


def check_cells(head: House, pythons: Sequence[Python], *, full: bool) -> Iterator[Cell]:
    """Every subset, installed with what it declares and nothing more, does what checks_inside.py asks.

    `full`: on all Pythons with both. Else on the oldest with the oldest, on the newest with the newest.
    """
    every = [(python, resolution) for python in pythons for resolution in RESOLUTIONS]
    part: list[tuple[Python, Resolution]]
    part = [(pythons[0], "lowest"), (pythons[-1], "highest")]
    for python, resolution in every if full else part:
        for names in subsets():
            wanted = Wanted(pinned_here(names, head), python, resolution)
            yield Cell(short(names), f"{python.name} {resolution}", partial(check_inside, wanted))


async def check_inside(wanted: Wanted) -> Ended:
    """Run checks_inside.py. The text is the number of checks that passed."""
    async with environment(wanted) as made:
        with TemporaryDirectory(prefix="matrix-") as elsewhere:
            names = ",".join(sorted(wanted.names))
            command: list[str | Path] = [made.python, "-I", "-W", "error", CHECKS, names]
            done = await run(command, cwd=Path(elsewhere), errors_too=False, limit_s=300)
    if done.code:
        return Ended("failed", done.tail, "FAILED")
    result = json.loads(done.output)
    failure = "\n".join(f"-- {name}\n{words}" for name, words in result["failed"].items())
    return Ended(str(len(result["passed"])), failure, "FAILED" if failure else "ok")


def brief_cells(campaign: Campaign, pythons: Sequence[Python]) -> Iterator[Cell]:
    """Own tests of the packages that are there, and the cross-package tests that fit, in all 32 subsets.

    On every Python with the newest dependencies, on the oldest also with the oldest. Left out is what takes
    long, or seconds and would be the same whatever is beside it: `covering_cells` has that.
    """
    columns = [(python, RESOLUTIONS[0]) for python in pythons]
    for python, resolution in [*columns, (pythons[0], RESOLUTIONS[1])]:
        for names in subsets():
            yield tests_of(campaign, names, names, python, resolution, BRIEF)


def covering_cells(campaign: Campaign, pythons: Sequence[Python]) -> Iterator[Cell]:
    """The same for each wheel alone (which is: with hermes-messages) and for the whole.

    Nightly all tests, on all Pythons with both. Else, without what takes long, each alone with the oldest
    dependencies on the oldest Python, and the whole with the newest on the newest; there without what takes
    seconds too, but with all that hangs on the version of Python. That one is the longest, so it comes first.
    """
    alone: list[tuple[str, ...]] = [names for names in subsets() if len(names) == 2]
    if not campaign.full:
        yield tests_of(campaign, WHEELS, WHEELS, pythons[-1], "highest", NEWEST)
        for names in alone:
            yield tests_of(campaign, names, names[1:], pythons[0], "lowest", QUICK)
        yield tests_of(campaign, WHEELS, (), pythons[0], "lowest", QUICK)
        return
    for python in pythons:
        for resolution in RESOLUTIONS:
            for names in [(BASE,), *alone, WHEELS]:
                tested = WHEELS if names == WHEELS else names[-1:]
                yield tests_of(campaign, names, tested, python, resolution, ())


def tests_of(
    campaign: Campaign,
    names: Sequence[str],
    tested: Sequence[str],
    python: Python,
    resolution: Resolution,
    options: Sequence[str],
) -> Cell:
    """A cell: beside the wheels `names` the own tests of those in `tested`, and cross-package tests."""
    trees, head = campaign.trees, campaign.head
    suites = [
        Suite(wheel, trees.own_tests(head.tree, wheel), [f"packages/{wheel}/tests"], options)
        for wheel in tested
    ]
    cross = trees.cross_tests(head.tree)
    suites.append(Suite("cross-package", cross, ["tests-integration"], options, may_be_empty=True))
    wanted = Wanted(pinned_here(names, head), python, resolution, frozenset(names), cross_tests=True)
    work = partial(run_tests, wanted, suites, campaign)
    return Cell(short(names), f"{python.name} {resolution}", work)


async def run_tests(wanted: Wanted, suites: Sequence[Suite], campaign: Campaign) -> Ended:
    """Make the environment and run the suites in it."""
    async with environment(wanted) as made:
        return await run_suites(made, suites, campaign.greens)
