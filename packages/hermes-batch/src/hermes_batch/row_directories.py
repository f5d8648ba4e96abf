"""The directories of rows: made some at a time before they are needed, and removed some at a time.

While the event loop is busy each call to the system through a thread takes milliseconds, for which the row
would have to wait at its begin and at its end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from pathlib import Path

from hermes_batch.files import make_private_directories, remove_trees
from hermes_batch.supervision import finish

__all__ = ["RowDirectories"]

_MOST_AHEAD = 256


class RowDirectories:
    """New empty directories in `place`, for about `at_once` rows at the same time.

    Only this user can read them. Use it in one event loop, and close it there.
    """

    def __init__(self, place: Path, at_once: int) -> None:
        self._place = str(place)
        self._ahead = min(at_once, _MOST_AHEAD)
        self._named = 1
        self._ready: deque[str] = deque()
        self._left: list[str] = []
        self._making: asyncio.Task[None] | None = None
        self._removing: asyncio.Task[None] | None = None

    async def prepare(self) -> None:
        """Make the first ones. Raises `OSError` when none can be made."""
        self._ready.append(await self.take())

    async def take(self) -> str:
        """A directory for one row, to be handed to `give_back`. Raises `OSError` when none can be made."""
        while not self._ready:
            making = self._make_more()
            await asyncio.wait({making})
            if not making.cancelled() and (error := making.exception()) is not None:
                raise error
        taken = self._ready.popleft()
        if 2 * len(self._ready) < self._ahead:
            self._make_more().add_done_callback(_observe)
        return taken

    async def give_back(self, directory: str) -> None:
        """Have a directory removed, and all in it. This waits for that only where many others wait as well,
        so that what rows leave behind does not pile up."""
        self._left.append(directory)
        if self._removing is None or self._removing.done():
            self._removing = asyncio.create_task(self._remove())
        if len(self._left) > self._ahead:
            await asyncio.wait({self._removing})

    async def close(self) -> None:
        """Return when all are removed but those that rows have."""
        await finish(self._end(), what="removing the directories of rows")

    async def _end(self) -> None:
        tasks = {task for task in (self._making, self._removing) if task is not None}
        if tasks:
            await asyncio.wait(tasks)
        self._left += self._ready
        self._ready.clear()
        await self._remove()

    def _make_more(self) -> asyncio.Task[None]:
        if self._making is None or self._making.done():
            self._making = asyncio.create_task(self._make())
        return self._making

    async def _make(self) -> None:
        """Names are never used twice, also those that could not be made."""
        first, self._named = self._named, self._named + self._ahead
        paths = [f"{self._place}/row-{number}" for number in range(first, self._named)]
        self._ready += await make_private_directories(paths)

    async def _remove(self) -> None:
        while self._left:
            left, self._left = self._left, []
            await remove_trees(left)


def _observe(made: asyncio.Task[None]) -> None:
    """A failure is raised for the row that has to have a directory, when it is tried again."""
    if not made.cancelled():
        made.exception()
