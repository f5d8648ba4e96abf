"""The middle of a run: the rows that are left, through agents, into the shards."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from hermes_batch.dataset import RowOrder
from hermes_batch.engines import RowEngine
from hermes_batch.errors import GO_ON, EngineLostError, RunAbortedError
from hermes_batch.progress import Progress
from hermes_batch.records import Record
from hermes_batch.row_records import bad_row_record
from hermes_batch.row_retries import run_row_with_retries
from hermes_batch.row_settings import RowSettings
from hermes_batch.row_sources import RowSource
from hermes_batch.rows import BadRow, Row
from hermes_batch.shards import ShardWriter
from hermes_batch.supervision import until_done
from hermes_batch.workers import (
    DiscardWatch,
    FailureStreak,
    StopSignal,
    file_trouble,
    first_cause,
    run_workers,
)

__all__ = ["Execution"]

logger: logging.Logger = logging.getLogger(__name__)

_CHECKPOINT_EVERY_ROWS = 100
_WATCHED_ROWS = 10
_MANY_WORKERS = 10


class Execution:
    """Runs the rows of a plan once. `checkpoint` is called now and then with the number of finished rows.

    Where there are many workers, one goes on with its next row while the record of its last one is brought
    to the disk, unless half as many records as workers are on their way there: what a kill costs is the rows
    that run, and fewer than half as many whose records were not there yet.
    """

    def __init__(
        self,
        *,
        source: RowSource,
        engine: RowEngine,
        settings: RowSettings,
        writer: ShardWriter,
        streak: FailureStreak,
        stop: StopSignal,
        progress: Progress,
        checkpoint: Callable[[int], Awaitable[None]],
        order: RowOrder = "file",
        fail_fast: bool = False,
    ) -> None:
        self._source = source
        self._finished = source.finished
        self._engine = engine
        self._settings = settings
        self._writer = writer
        self._streak = streak
        self._stop = stop
        self._progress = progress
        self._checkpoint = checkpoint
        self._order: RowOrder = order
        self._fail_fast = fail_fast
        self._checkpoint_due = asyncio.Event()
        self._on_their_way = 0
        self._most_on_their_way = 1
        self._failure: OSError | None = None
        self._watch = DiscardWatch(min(_WATCHED_ROWS, len(source.todo)))
        self._aborted: RunAbortedError | None = None

    async def run(self, *, num_workers: int, grace_s: float) -> RunAbortedError | None:
        """Run the rows. Returns the error that ended the run early, if one did; raises `RunAbortedError` when
        records can not be written."""
        todo = self._source.todo
        if not todo:
            self._progress.message("every row is finished; another run name begins a new run")
            return None
        self._progress.begin(self._source.total, self._finished)
        self._most_on_their_way = num_workers // 2 if num_workers >= _MANY_WORKERS else 1
        rows = self._source.rows(self._order)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._writer.run())
                checkpoints = group.create_task(self._write_checkpoints())
                try:
                    met = await run_workers(
                        rows,
                        todo,
                        self._handle,
                        num_workers=num_workers,
                        stop=self._stop,
                        grace_s=grace_s,
                    )
                finally:
                    checkpoints.cancel()
                    self._writer.close()
        except BaseExceptionGroup as group_error:
            raise first_cause(group_error) from group_error
        finally:
            self._progress.end()
        if self._failure is not None:
            raise file_trouble(self._failure) from self._failure
        if not self._stop.requested and (trouble := self._source.ended(met)):
            self._give_up(trouble)
        return self._aborted

    async def _handle(self, row: Row) -> None:
        if changed := self._source.changed(row):
            self._give_up(changed)
            return
        record = await self._record_of(row)
        if record is None:
            return
        written = self._writer.put(record)
        self._on_their_way += 1
        written.add_done_callback(partial(self._written, record))
        if remark := self._watch.note(record):
            self._progress.message(remark)
        if trouble := self._streak.note(record):
            self._give_up(trouble)
        if self._fail_fast and record.status == "error":
            self._give_up(f"row {record.prompt_index} failed ({record.reason}: {record.error})")
        if self._on_their_way >= self._most_on_their_way:
            await until_done(written)

    def _written(self, record: Record, written: asyncio.Future[None]) -> None:
        """Count a row once its record is on the disk. What can not be written ends the run at once: its rows
        would be paid for in vain."""
        self._on_their_way -= 1
        error = None if written.cancelled() else written.exception()
        if isinstance(error, OSError):
            self._failure = self._failure or error
            self._stop.request_now()
        if error is not None or written.cancelled():
            return
        self._finished += 1
        self._progress.row(record)
        if self._finished % _CHECKPOINT_EVERY_ROWS == 0:
            self._checkpoint_due.set()

    async def _record_of(self, row: Row) -> Record | None:
        """What became of a row; None when it is left for resume."""
        if isinstance(row, BadRow):
            return bad_row_record(row)
        try:
            return await run_row_with_retries(row, self._engine, self._settings, self._stop.asked)
        except EngineLostError as error:
            self._give_up(str(error))
            return None

    def _give_up(self, trouble: str) -> None:
        """Begin no further row; those that run may end."""
        if self._aborted is None:
            self._aborted = RunAbortedError(trouble + GO_ON)
        self._stop.request()

    async def _write_checkpoints(self) -> None:
        """Write one whenever it is due. The checkpoint is a cache: a run goes on without it."""
        while True:
            await self._checkpoint_due.wait()
            self._checkpoint_due.clear()
            try:
                await self._checkpoint(self._finished)
            except OSError as error:
                logger.warning("the checkpoint could not be written: %s", error)
