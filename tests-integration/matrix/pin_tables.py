"""The tables of pins: layers at earlier releases beside layers of this tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from cells import Cell, Ended
from environments import Wanted, ask_resolver, environment
from interpreters import Python
from layers import BASE, WHEELS, extras_of, short, version_of
from pins import Mixture, mixtures, nearest, pairs, refusals
from shared import Release
from suites import QUICK, Campaign, Suite, contract_files, run_suites
from wheels import House, Pinned, build_release, requirements_in

__all__ = ["Stock", "mixture_cells", "pair_cells", "stock_up"]

LEFT_OUT = {
    # Two records are equal if they were made in one millisecond.
    ("hermes-batch", "0.1.0"): ("test_shards.py::test_a_record_is_one_line_and_reads_back_as_it_was",),
    # Asks with each effort that hermes-messages has; those above "high" came later, and the loop asks for
    # them only where a provider knows them (`ModelInfo.strong_efforts`). Counts encoded segments: fewer now.
    ("hermes-providers", "0.1.0"): (
        "test_gemini_request.py::test_thinking_is_a_level_or_a_budget_never_both[xhigh]",
        "test_gemini_request.py::test_thinking_is_a_level_or_a_budget_never_both[max]",
        "test_request.py::test_a_long_history_is_not_encoded_again",
    ),
}
"""Tests of releases that fail by no fault of what they test; later versions of them do not."""


class Stock:
    """Every version that can be installed, and what it declares."""

    def __init__(self, pinned: Sequence[Pinned]) -> None:
        self._pinned = {(one.wheel, one.version): one for one in pinned}
        self.declared = {
            key: requirements_in(one.file, extras_of(one.wheel, one.house.tree))
            for key, one in self._pinned.items()
        }

    def choose(self, versions: dict[str, str]) -> tuple[Pinned, ...]:
        """These versions of these wheels."""
        return tuple(self._pinned[wheel, versions[wheel]] for wheel in WHEELS if wheel in versions)


async def stock_up(head: House, releases: Sequence[Release]) -> Stock:
    """The wheels of this tree and of all earlier releases. Raises `ReleaseError`."""
    pinned = [Pinned(wheel, version_of(wheel), head) for wheel in WHEELS]
    earlier = [release for release in releases if release.version != version_of(release.wheel)]
    built = [Pinned(release.wheel, release.version, await build_release(release)) for release in earlier]
    return Stock([*pinned, *built])


def mixture_cells(
    stock: Stock, releases: Sequence[Release], python: Python, campaign: Campaign
) -> Iterator[Cell]:
    """Each mixture of versions runs the cross-package tests that its releases had, or its ranges say no."""
    for mixture in mixtures(releases):
        work = partial(try_mixture, stock, mixture, python, campaign)
        yield Cell(mixture.layer, mixture.column, work)


async def try_mixture(stock: Stock, mixture: Mixture, python: Python, campaign: Campaign) -> Ended:
    """If the ranges refuse the mixture uv must do so too, and what they do allow is tried in its place."""
    said_no = refusals(mixture.versions, stock.declared)
    wanted = Wanted(stock.choose(dict(mixture.versions)), python, cross_tests=True)
    answer = await ask_resolver(wanted)
    if said_no and "unsatisfiable" not in answer.output:
        return Ended("not refused", f"{said_no[0]}, yet uv said:\n{answer.tail}", "FAILED")
    if not said_no and answer.code:
        return Ended("refused by uv", f"the ranges allow it, yet uv said:\n{answer.tail}", "FAILED")
    versions = nearest(mixture, stock.declared)
    chosen = stock.choose(versions)
    released = [
        one.house.tree / "tests-integration" for one in chosen if one.version != version_of(one.wheel)
    ]
    tree = campaign.trees.cross_tests(stock.choose({BASE: version_of(BASE)})[0].house.tree)
    suite = Suite(
        "cross-package", tree, ["tests-integration"], () if campaign.full else QUICK, sorted(set(released))
    )
    async with environment(Wanted(chosen, python, cross_tests=True)) as made:
        ended = await run_suites(made, [suite], campaign.greens)
    if not said_no:
        return ended
    status = "refused" if ended.status == "ok" else ended.status
    return Ended(f"refused ({said_no[0]}); {change(mixture, versions)}: {ended.text}", ended.failure, status)


def change(mixture: Mixture, versions: dict[str, str]) -> str:
    """What was done to a mixture that the ranges refuse."""
    changed = [wheel for wheel in versions if versions[wheel] != mixture.versions[wheel]]
    gone = [wheel for wheel in mixture.versions if wheel not in versions]
    told = [f"{wheel.removeprefix('hermes-')} {versions[wheel]}" for wheel in changed]
    return " ".join(["with", *told, *(["without", short(gone)] if gone else [])])


def pair_cells(
    stock: Stock, releases: Sequence[Release], python: Python, campaign: Campaign
) -> Iterator[Cell]:
    """Each layer beside hermes-messages of another age: its own tests of the contract, or all of its own."""
    for wheel, version, base in pairs(releases):
        versions = {BASE: base, wheel: version}
        work = partial(try_pair, stock, versions, wheel, python, campaign)
        yield Cell(f"{wheel} {version}", f"with {BASE} {base}", work)


async def try_pair(
    stock: Stock, versions: dict[str, str], wheel: str, python: Python, campaign: Campaign
) -> Ended:
    """The layer's own tests are those of its own sources, also where these are old."""
    chosen = stock.choose(versions)
    wanted = Wanted(chosen, python, own_tests=frozenset({wheel}))
    said_no = refusals(versions, stock.declared)
    if said_no:
        answer = await ask_resolver(wanted)
        if "unsatisfiable" in answer.output:
            return Ended(f"refused ({said_no[0]})", status="refused")
        return Ended("not refused", f"{said_no[0]}, yet uv said:\n{answer.tail}", "FAILED")
    tree = campaign.trees.own_tests(chosen[-1].house.tree, wheel)
    # A layer that implements no Protocol of the kit meets hermes-messages in all of its tests.
    contract = [] if campaign.full else contract_files(tree.folder, wheel)
    left_out = LEFT_OUT.get((wheel, versions[wheel]), ())
    options = [
        *(() if campaign.full else QUICK),
        *(f"--deselect=packages/{wheel}/tests/{t}" for t in left_out),
    ]
    suite = Suite(wheel, tree, contract or [f"packages/{wheel}/tests"], options)
    async with environment(wanted) as made:
        return await run_suites(made, [suite], campaign.greens)
