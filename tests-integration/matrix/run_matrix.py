"""The integration matrix: builds the wheels, fills the tables, prints them.

    python tests-integration/matrix/run_matrix.py [TABLE ...] [--jobs N] [--report FILE] [--continue]

TABLE is one of checks, brief, covering, mixtures, pairs and figures; `subsets` stands for the first three,
`pins` for the next two, `bars` for those figures that can be too high. With no name all tables.
HERMES_TEST_PROFILE=nightly fills all of each, else a part that covers it, without `brief`. Exits 1 if a cell
failed. FILE is a report in JUnit's form with one test for each cell.

--continue is for a run that was stopped: tests that ended green in the last week, with the same wheels, other
packages, Python and tests, are not run again. The tables tell how many those are.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cells import Cell, Filled, fill
from child_processes import CommandError
from earlier_releases import ReleaseError
from figures import figures
from greens import Greens
from interpreters import Python, excuse, find_pythons, too_few
from layers import ROOT
from pin_tables import mixture_cells, pair_cells, stock_up
from shared import read_releases, run_until_stopped
from subset_table import brief_cells, check_cells, covering_cells
from suites import Campaign, Trees, unmarked_files
from tables import grid
from wheels import CACHE, build_head

GROUPS = {"subsets": ("checks", "brief", "covering"), "pins": ("mixtures", "pairs")}
TITLES = {
    "checks": "Subsets: checks passed in an environment of the wheels and what they declare",
    "brief": "Subsets: tests passed in such an environment, own and cross-package, without what takes long",
    "covering": "Each wheel alone and the whole: own and cross-package tests passed",
    "mixtures": "Pins: cross-package tests passed with a layer and the others of different age",
    "pairs": "Pins: own tests of a layer passed beside hermes-messages of another age",
}
TABLES = (*TITLES, "figures")
BARS = "bars"


@dataclass(frozen=True)
class Asked:
    """What the command line asks for."""

    tables: frozenset[str]
    jobs: int
    report: Path | None
    full: bool
    goes_on: bool


def read_arguments() -> Asked:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = [*TABLES, *GROUPS, BARS]
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"one of {', '.join(known)}")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--report", type=Path)
    parser.add_argument("--continue", dest="goes_on", action="store_true")
    given = parser.parse_args()
    if unknown := set(given.tables) - {*known}:
        parser.error(f"there is no table {', '.join(sorted(unknown))}")
    full = os.environ.get("HERMES_TEST_PROFILE") == "nightly"
    tables = frozenset(table for name in given.tables or TABLES for table in GROUPS.get(name, (name,)))
    return Asked(tables, given.jobs, given.report, full, given.goes_on)


async def fill_table(name: str, cells: Iterable[Cell], asked: Asked) -> list[Filled]:
    """Fill one table and print it, if it was asked for."""
    if name not in asked.tables:
        return []
    started = time.monotonic()
    filled = await fill(list(cells), asked.jobs, tell)
    seconds = time.monotonic() - started
    print(f"\n{TITLES[name]}\n\n{grid(filled)}\n\n{len(filled)} cells in {seconds:.0f} s\n", flush=True)
    return filled


def tell(cell: Filled) -> None:
    """What a cell has to say at once: how it failed, and else a dot."""
    if cell.ended.status != "FAILED":
        print(".", end="", flush=True)
    else:
        print(
            f"\n== FAILED: {cell.row}, {cell.column}: {cell.ended.text}\n{cell.ended.failure}\n", flush=True
        )


async def run_tables(asked: Asked, pythons: Sequence[Python], folder: Path) -> list[Filled]:
    """All tables that were asked for."""
    head = await build_head()
    campaign = Campaign(head, Trees(folder), Greens(CACHE / "green", use=asked.goes_on), asked.full)
    tried = list(pythons) if asked.full else [pythons[0], *pythons[1:][-1:]]
    filled = await fill_table("checks", check_cells(head, tried, full=asked.full), asked)
    if asked.full:
        filled += await fill_table("brief", brief_cells(campaign, tried), asked)
    filled += await fill_table("covering", covering_cells(campaign, tried), asked)
    if asked.tables & {"mixtures", "pairs"}:
        releases = read_releases(ROOT)
        stock = await stock_up(head, releases)
        filled += await fill_table("mixtures", mixture_cells(stock, releases, pythons[0], campaign), asked)
        filled += await fill_table("pairs", pair_cells(stock, releases, pythons[0], campaign), asked)
    if shown := asked.tables & {"figures", BARS}:
        everything = "figures" in shown
        rounds = 3 if everything and not asked.full else 9
        filled += await figures(head, pythons[0], rounds=rounds, all_subsets=everything)
    return filled


def write_report(file: Path, filled: Sequence[Filled]) -> None:
    """The cells as tests in JUnit's form."""
    failed = [cell for cell in filled if cell.ended.status == "FAILED"]
    counts = {"tests": str(len(filled)), "failures": str(len(failed)), "errors": "0", "skipped": "0"}
    suite = ET.Element("testsuite", {"name": "matrix", **counts})
    for cell in filled:
        case = ET.SubElement(
            suite, "testcase", classname=cell.row, name=cell.column, time=f"{cell.seconds:.1f}"
        )
        if cell in failed:
            ET.SubElement(case, "failure", message=cell.ended.text)
    file.parent.mkdir(parents=True, exist_ok=True)
    ET.ElementTree(suite).write(file)


async def main() -> None:
    """Run it."""
    asked = read_arguments()
    pythons = await find_pythons()
    if (why := too_few(pythons)) is not None:
        sys.exit(f"matrix: {why}")
    if unmarked := unmarked_files(ROOT):
        print(f"matrix: not tried, since they do not say what they need: {', '.join(unmarked)}")
    said = f" ({excuse()})" if len(pythons) == 1 else ""
    print(f"matrix: Python {', '.join(python.name for python in pythons)}{said}", flush=True)
    with tempfile.TemporaryDirectory(prefix="matrix-") as folder:
        try:
            filled = await run_tables(asked, pythons, Path(folder))
        except (CommandError, ReleaseError) as error:
            sys.exit(f"matrix: {error}")
    if asked.report is not None:
        write_report(asked.report, filled)
    sys.exit(1 if any(cell.ended.status == "FAILED" for cell in filled) else 0)


if __name__ == "__main__":
    run_until_stopped(main())
