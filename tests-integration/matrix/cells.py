"""The cells of the tables: what one attempt came to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from child_processes import CommandError
from earlier_releases import ReleaseError

__all__ = ["Cell", "Ended", "Filled", "fill"]

Status = Literal["ok", "refused", "FAILED"]


@dataclass(frozen=True)
class Ended:
    """How an attempt ended: a short text for the table, and what to read if it failed."""

    text: str
    failure: str = ""
    status: Status = "ok"


@dataclass(frozen=True)
class Cell:
    """One place of a table, and the work that fills it."""

    row: str
    column: str
    work: Callable[[], Awaitable[Ended]]


@dataclass(frozen=True)
class Filled:
    """A cell after its work."""

    row: str
    column: str
    ended: Ended
    seconds: float


async def fill(cells: Sequence[Cell], jobs: int, tell: Callable[[Filled], None]) -> list[Filled]:
    """Do the work of all cells, `jobs` at once, and keep their order; `tell` hears of each as it ends."""
    room = asyncio.Semaphore(jobs)

    async def one(cell: Cell) -> Filled:
        async with room:
            started = time.monotonic()
            try:
                ended = await cell.work()
            except (CommandError, ReleaseError) as error:
                ended = Ended("failed", str(error), "FAILED")
            filled = Filled(cell.row, cell.column, ended, time.monotonic() - started)
            tell(filled)
            return filled

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(cell)) for cell in cells]
    return [task.result() for task in tasks]
