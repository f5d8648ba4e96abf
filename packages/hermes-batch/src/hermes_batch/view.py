"""`hermes-batch view`: a run as one HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from hermes_batch.checkpoint import Checkpoint, read_checkpoint
from hermes_batch.dataset import scan_dataset
from hermes_batch.files import file_line_batches, path_exists, read_bytes, replace_file
from hermes_batch.packed import Finished, FinishedRows
from hermes_batch.plan import best_of_each_row, make_plan
from hermes_batch.records import Record, decode_record
from hermes_batch.run_files import RunFiles
from hermes_batch.shards import RecordReader, in_parts, scan_recorded, shard_names
from hermes_batch.view_page import PAGE_FILES, PageParts, page_end, page_start
from hermes_batch.view_rows import packed, packed_rows
from hermes_messages import ConfigurationError, HermesError

__all__ = ["ViewedRun", "view_run"]

_PART_ROWS: Final = 100
_PART_BYTES: Final = 1 << 20
_HERE: Final = Path(__file__).parent / "page"

_Part = list[tuple[int, Record]]


class ViewedRun(Struct, frozen=True):
    """What a page shows: `rows` with a record, `pending` rows without one, and where the page is."""

    rows: int
    pending: int
    target: Path


class _Summary(Struct, frozen=True, kw_only=True):
    """What the page says of the run beside its rows. `total` is 0 when nobody knows it."""

    run_name: str
    total: int
    damaged: int
    dataset_file: str
    written_at: str


async def view_run(files: RunFiles, target: Path | None = None) -> ViewedRun:
    """Write a run's page to `target` (`view.html` beside its shards), whole or not at all.

    Each row of the dataset appears once, with the best record that it has: good, discarded or failed. Where
    the dataset is not to be had any more, rows are told apart by their records; where the shards are gone,
    the page shows the good rows of `trajectories.jsonl`. A run that is at work can be looked at.

    Memory: the places of the records, and about a megabyte of rows at a time. Raises `ConfigurationError`
    when there is no such run, and `OSError`.
    """
    target = files.directory / "view.html" if target is None else target
    if not await path_exists(target.parent):
        raise ConfigurationError(f"there is no directory {target.parent}")
    source = await _source(files)
    parts = PageParts.of({name: (await read_bytes(_HERE / name)).decode() for name in PAGE_FILES})
    rows = 0
    async with replace_file(target) as write:
        await write(page_start(parts, f"{files.directory.name}: trajectories"))
        async with aclosing(source.parts()) as found:
            async for part in found:
                rows += len(part)
                for piece in packed_rows(part):
                    await write(piece)
        await write(b"".join(packed("summary", source.summary)))
        await write(page_end(parts))
    return ViewedRun(rows, max(0, source.summary.total - rows), target)


class _Source(Struct, frozen=True):
    """Where a run's rows are read from: its shards, or `trajectories.jsonl` where `places` is None."""

    files: RunFiles
    summary: _Summary
    places: Iterable[tuple[int, Finished]] | None

    async def parts(self) -> AsyncGenerator[_Part, None]:
        """The rows, so many at a time as need little memory."""
        if self.places is None:
            async with aclosing(_merged(self.files.trajectories)) as merged:
                async for part in merged:
                    yield part
            return
        async with RecordReader(self.files.shards) as read:
            for places in in_parts(self.places, rows_at_most=_PART_ROWS, bytes_at_most=_PART_BYTES):
                records = await read([place for _, place in places])
                yield [(index, record) for (index, _), record in zip(places, records, strict=True)]


async def _source(files: RunFiles) -> _Source:
    checkpoint = await read_checkpoint(files.checkpoint)
    if await shard_names(files.shards):
        recorded = await scan_recorded(files.shards)
        total, places = await _placed(recorded.records, checkpoint)
        return _Source(files, _summary(files, checkpoint, total, recorded.damaged), places)
    if not await path_exists(files.trajectories):
        raise ConfigurationError(f"{files.directory} holds no run")
    return _Source(files, _summary(files, checkpoint, 0, 0), None)


def _summary(files: RunFiles, checkpoint: Checkpoint | None, total: int, damaged: int) -> _Summary:
    return _Summary(
        run_name=files.directory.name,
        total=total,
        damaged=damaged,
        dataset_file="" if checkpoint is None else Path(checkpoint.dataset_file).name,
        written_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


async def _placed(
    records: FinishedRows, checkpoint: Checkpoint | None
) -> tuple[int, Iterable[tuple[int, Finished]]]:
    """The number of the dataset's rows, and the records in their places."""
    if checkpoint is not None:
        try:
            dataset = await scan_dataset(Path(checkpoint.dataset_file), max_samples=checkpoint.total or None)
        except HermesError:
            pass  # it is gone, or not what it was: the records know where they belong
        else:
            plan = make_plan(dataset.hashes, records)
            if plan.finished:
                return len(dataset.hashes), plan.done()
    return 0 if checkpoint is None else checkpoint.total, best_of_each_row(records)


async def _merged(trajectories: Path) -> AsyncGenerator[_Part, None]:
    part: _Part = []
    size = 0
    async with aclosing(file_line_batches(trajectories)) as batches:
        async for batch in batches:
            for offset, line in batch:
                try:
                    record = decode_record(line)
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    raise ConfigurationError(
                        f"{trajectories} is damaged at byte {offset} ({error}); hermes-batch merge mends it"
                    ) from error
                part.append((record.prompt_index, record))
                size += len(line)
                if len(part) >= _PART_ROWS or size >= _PART_BYTES:
                    yield part
                    part, size = [], 0
    if part:
        yield part
