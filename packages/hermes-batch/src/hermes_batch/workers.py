"""The workers of a run: so many rows at once, none waiting for another, and a stop that loses nothing."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import aclosing, suppress

from hermes_batch.errors import GO_ON, RunAbortedError
from hermes_batch.records import Record
from hermes_batch.rows import Row
from hermes_batch.supervision import StoppedError, supervised

__all__ = ["DiscardWatch", "FailureStreak", "StopSignal", "file_trouble", "first_cause", "run_workers"]


class StopSignal:
    """Asks a run to stop: `request` lets running rows end within the grace time, `request_now` does not."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._now = asyncio.Event()

    @property
    def asked(self) -> asyncio.Event:
        """Set once a stop was asked for."""
        return self._asked

    @property
    def requested(self) -> bool:
        """Whether no new row is to be started."""
        return self._asked.is_set()

    def request(self) -> None:
        """Start no new row."""
        self._asked.set()

    def request_now(self) -> None:
        """Start no new row and cancel those that run."""
        self._asked.set()
        self._now.set()

    async def wait(self, grace_s: float) -> None:
        """Return when running rows are to be cancelled: at once after `request_now`, else after the grace."""
        await self._asked.wait()
        try:
            async with asyncio.timeout(grace_s):
                await self._now.wait()
        except TimeoutError:
            return


class FailureStreak:
    """Notices that nothing works any more: so many rows in a row whose host could not be reached.

    A row in which the model answered ends the streak; a row that says nothing about the host (a line that is
    no row, a timeout, an agent that could not be made) neither ends nor lengthens it.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._length = 0

    def note(self, record: Record) -> str | None:
        """Count a record; what is wrong when the streak is too long."""
        if not record.run_again:
            if record.status != "error" or record.api_calls:
                self._length = 0
            return None
        self._length += 1
        if self._length < self._limit:
            return None
        return (
            f"the model could not be reached for {self._length} rows in a row; the last error: {record.error}"
        )


class DiscardWatch:
    """Notices early that a run discards all that it pays for: of its first rows, so many and each for want of
    reasoning."""

    def __init__(self, rows: int) -> None:
        self._left = rows
        self._rows = rows

    def note(self, record: Record) -> str | None:
        """Count a record; what a person should know once all of the first rows were discarded."""
        if self._left <= 0:
            return None
        if record.reason != "no_reasoning":
            self._left = 0
            return None
        self._left -= 1
        if self._left:
            return None
        return (
            f"all of the first {self._rows} rows were discarded: the model gave no reasoning. To keep such"
            " rows, stop, set require_reasoning=False, and go on with retry_discarded"
        )


class _Source:
    """Hands the rows that are to be run to the workers, one by one, and reads no further than the last.

    One task does all the reading, also the closing: what a caller's generator holds open across its rows may
    belong to a task (a timeout, a task group).
    """

    def __init__(self, rows: AsyncGenerator[Row, None], todo: Collection[int]) -> None:
        self._rows = rows
        self._todo = todo
        self._asking: deque[asyncio.Future[Row | None]] = deque()
        self._asked = asyncio.Event()
        self._ended = False
        self.met = 0

    async def next(self) -> Row | None:
        """The next row; None when there is none."""
        if self._ended:
            return None
        answer: asyncio.Future[Row | None] = asyncio.get_running_loop().create_future()
        self._asking.append(answer)
        self._asked.set()
        return await answer

    async def read(self, stop: asyncio.Event) -> None:
        """Read rows as workers ask for them, until all were met or `stop` is set. A source that does not
        obey its cancellation is left to itself. Raises what reading raises."""
        try:
            with suppress(StoppedError):
                await supervised(self._read(), what="the source of the rows", until=stop)
        finally:
            self._ended = True
            while self._asking:
                _answer(self._asking.popleft(), None)

    async def _read(self) -> None:
        async with aclosing(self._rows) as rows:
            while self.met < len(self._todo):
                while not self._asking:
                    self._asked.clear()
                    await self._asked.wait()
                row = await self._next_to_run(rows)
                if row is None:
                    return
                self.met += 1
                _answer(self._asking.popleft(), row)
                # One row for each turn of the event loop: begun all at once, rows would go in step, and none
                # would have asked its host before all others had got as far.
                await asyncio.sleep(0)

    async def _next_to_run(self, rows: AsyncGenerator[Row, None]) -> Row | None:
        async for row in rows:
            if row.index in self._todo:
                return row
        return None


def _answer(asked: asyncio.Future[Row | None], row: Row | None) -> None:
    """Hand a row to the worker that asked, unless it was cancelled meanwhile."""
    if not asked.done():
        asked.set_result(row)


async def run_workers(
    rows: AsyncGenerator[Row, None],
    todo: Collection[int],
    handle: Callable[[Row], Awaitable[None]],
    *,
    num_workers: int,
    stop: StopSignal,
    grace_s: float,
) -> int:
    """Call `handle` for each row of `rows` whose index is in `todo`, at most `num_workers` at once; how many
    of them were met.

    Rows are read as they are needed, and closed here. After a stop no new row is begun, and nobody waits for
    one; those running are cancelled when the grace time is over. An exception of `handle` cancels the others
    and is raised.
    """
    source = _Source(rows, todo)

    async def work() -> None:
        while not stop.requested and (row := await source.next()) is not None:
            if not stop.requested:  # a stop may have come while we waited for the row
                await handle(row)

    async with asyncio.TaskGroup() as group:
        workers = [group.create_task(work()) for _ in range(min(num_workers, max(1, len(todo))))]
        reader = group.create_task(source.read(stop.asked))
        guard = group.create_task(_cancel_after_stop(workers, stop, grace_s))
        await asyncio.wait({*workers, reader})
        guard.cancel()
    return source.met


async def _cancel_after_stop(workers: list[asyncio.Task[None]], stop: StopSignal, grace_s: float) -> None:
    await stop.wait(grace_s)
    for worker in workers:
        worker.cancel()


def first_cause(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first single exception inside nested groups; a file error as a `RunAbortedError`."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return file_trouble(error) if isinstance(error, OSError) else error


def file_trouble(error: OSError) -> RunAbortedError:
    """What a file error means for a run."""
    where = f": {error.filename}" if error.filename else ""
    return RunAbortedError(
        f"the run's files could not be read or written ({error.strerror or error}{where}){GO_ON}"
    )
