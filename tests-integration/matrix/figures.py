"""The table of figures: what each subset takes on the disk, and how long its import takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from cells import Ended, Filled
from child_processes import must
from environments import Environment, Wanted, environment
from interpreters import Python
from layers import BASE, WHEELS, short, subsets
from subset_table import pinned_here
from tables import grid
from wheels import House

__all__ = ["BARRED", "figures", "judge"]

PROGRAM = Path(__file__).with_name("measure_inside.py")
MEGABYTE = 1_000_000
MOST_BYTES: Mapping[tuple[str, ...], float] = {(BASE,): 1.5 * MEGABYTE, WHEELS: 25.0 * MEGABYTE}
MOST_SECONDS: Mapping[tuple[str, ...], float] = {(BASE,): 0.060}
BARRED = tuple(names for names in subsets() if names in MOST_BYTES or names in MOST_SECONDS)
"""The subsets of which a figure can be too high."""


@dataclass(frozen=True)
class Measured:
    """One import in a process of its own, and what is installed."""

    seconds: float
    bytes: int


async def measure(made: Environment, names: tuple[str, ...]) -> Measured:
    """One measurement; Python has compiled the modules before, as after any first use."""
    modules = [name.replace("-", "_") for name in names]
    return Measured(**json.loads(await must([made.python, "-I", PROGRAM, *modules], cwd=made.folder)))


async def figures(head: House, python: Python, *, rounds: int, all_subsets: bool) -> list[Filled]:
    """Measure the subsets in turn, several times, so that a busy moment falls on all; print the table."""
    found: dict[tuple[str, ...], list[Measured]] = {}
    async with AsyncExitStack() as stack:
        made = {
            names: await stack.enter_async_context(environment(Wanted(pinned_here(names, head), python)))
            for names in (tuple(subsets()) if all_subsets else BARRED)
        }
        for names, one in made.items():
            await measure(one, names)
            found[names] = []
        for _ in range(rounds):
            for names, one in made.items():
                found[names].append(await measure(one, names))
    filled = [cell for names, measured in found.items() for cell in judge(names, measured)]
    print(f"\nFigures of Python {python.name}, {rounds} imports each\n\n{grid(filled)}\n", flush=True)
    return filled


def judge(names: tuple[str, ...], measured: list[Measured]) -> list[Filled]:
    """The cells of one subset. Of the times the median is shown; the smallest is held against the bar, since
    only that one tells little of what else the machine does. Pure."""
    size, times = measured[0].bytes, [one.seconds for one in measured]
    cells: Mapping[str, tuple[str, bool]] = {
        "MB installed": (f"{size / MEGABYTE:.2f}", size <= MOST_BYTES.get(names, float("inf"))),
        "ms import": (f"{median(times) * 1000:.0f}", min(times) <= MOST_SECONDS.get(names, float("inf"))),
        "ms at best": (f"{min(times) * 1000:.0f}", True),
    }
    return [
        Filled(
            short(names), column, Ended(text, "" if good else "above its bar", "ok" if good else "FAILED"), 0
        )
        for column, (text, good) in cells.items()
    ]
