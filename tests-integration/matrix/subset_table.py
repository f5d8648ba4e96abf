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
from suites import QUICK, Campaign, Copy, Suite, run_suites
from wheels import House, Pinned

__all__ = ["check_cells", "pinned_here", "test_cells"]

CHECKS = Path(__file__).with_name("checks_inside.py")
RESOLUTIONS: tuple[Resolution, ...] = ("highest", "lowest")


def pinned_here(names: Sequence[str], head: House) -> tuple[Pinned, ...]:
    """These wheels as this tree has them."""
    return tuple(Pinned(name, version_of(name), head) for name in names)


def check_cells(head: House, pythons: Sequence[Python], *, full: bool) -> Iterator[Cell]:
    """Every subset, installed with what it declares and nothing more, does what checks_inside.py asks.

    `full`: on all Pythons with both. Else on the oldest with both, on the newest with the newest.
    """
    every = [(python, resolution) for python in pythons for resolution in RESOLUTIONS]
    part: list[tuple[Python, Resolution]]
    part = [(pythons[0], "highest"), (pythons[0], "lowest"), (pythons[-1], "highest")]
    for python, resolution in every if full else dict.fromkeys(part):
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


def test_cells(head: House, pythons: Sequence[Python], campaign: Campaign) -> Iterator[Cell]:
    """Own tests of the packages that are there, and the cross-package tests that fit.

    Nightly every subset with the newest dependencies on the oldest Python, and the covering ones (each wheel
    with hermes-messages alone, and the whole) on all Pythons with both. Else the covering ones with the
    oldest dependencies on the oldest Python, and the whole with the newest on the newest; without what takes
    long.
    """
    oldest, newest = pythons[0], pythons[-1]
    covering = [names for names in subsets() if len(names) == 2 or names == WHEELS]
    if campaign.full:
        rows = [(names, oldest, RESOLUTIONS[0]) for names in subsets()]
        rows += [
            (n, p, r) for n in covering for p in pythons for r in RESOLUTIONS if (p, r) != (oldest, "highest")
        ]
    else:
        rows = [(names, oldest, RESOLUTIONS[1]) for names in covering]
        rows.append((WHEELS, newest, RESOLUTIONS[0]))
    for names, python, resolution in rows:
        wanted = Wanted(pinned_here(names, head), python, resolution, frozenset(names), cross_tests=True)
        tree = campaign.trees.copy_of(head.tree)
        suites = suites_for(names, tree, full=campaign.full, newest=python is newest)
        work = partial(run_tests, wanted, suites, campaign)
        yield Cell(short(names), f"{python.name} {resolution}", work)


def suites_for(names: Sequence[str], tree: Copy, *, full: bool, newest: bool) -> list[Suite]:
    """The own tests of these packages, then the cross-package tests.

    Unless `full`, what another cell of the covering ones has run already is left out.
    """
    options = () if full else QUICK
    packages = names if full or newest else [name for name in names if len(names) == 2 and name != BASE]
    own = [Suite(name, tree, [f"packages/{name}/tests"], options) for name in packages]
    return [*own, Suite("cross-package", tree, ["tests-integration"], options, may_be_empty=True)]


async def run_tests(wanted: Wanted, suites: Sequence[Suite], campaign: Campaign) -> Ended:
    """Make the environment and run the suites in it."""
    async with environment(wanted) as made:
        return await run_suites(made, suites, campaign.greens)
