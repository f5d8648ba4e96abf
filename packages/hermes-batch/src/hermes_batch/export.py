"""From `trajectories.jsonl` to a file that a trainer reads."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes_batch.export_formats import ExportFormat, RowsPer, export_rows
from hermes_batch.files import file_line_batches, path_exists, replace_by_writer, replace_file
from hermes_batch.records import decode_record
from hermes_batch.run_files import RunFiles
from hermes_batch.worker_process import WorkerError, feed_worker
from hermes_messages import ConfigurationError, MissingDependencyError

__all__ = ["ExportCounts", "export_run"]


class ExportCounts(Struct, frozen=True):
    """How many rows were written, and how many were too long."""

    written: int
    too_long: int = 0


async def export_run(
    files: RunFiles,
    target: Path,
    form: ExportFormat = "sharegpt",
    *,
    rows_per: RowsPer = "conversation",
    max_tokens: int | None = None,
    compressed: bool = False,
) -> ExportCounts:
    """Write the good rows of a run to `target`, whole or not at all.

    With `max_tokens`, results of tools are shortened in rows that are longer; a row that is too long all the
    same is left out and counted. With `compressed`, the rows are those that compression wrote.

    A target whose name ends in `.parquet` becomes Parquet (extra `parquet`), any other JSONL. Memory does not
    grow with the number of rows. Raises `ConfigurationError` when the run has none or they hold a line
    that is no record, `MissingDependencyError`, and `OSError`.
    """
    source = files.compressed if compressed else files.trajectories
    if not await path_exists(source):
        maker = "compress" if compressed else "merge"
        raise ConfigurationError(f"no {source}; look at run_name, or let hermes-batch {maker} write it")
    if not await path_exists(target.parent):
        raise ConfigurationError(f"there is no directory {target.parent}")
    if max_tokens is not None and max_tokens < 1:
        raise ConfigurationError(f"max_tokens is {max_tokens}; it must be at least 1")
    rows = _Rows(source, form, rows_per, max_tokens)
    if target.suffix == ".parquet":
        await _write_parquet(rows, target)
    else:
        async with replace_file(target) as write, aclosing(rows.parts()) as parts:
            async for part in parts:
                await write(part)
    return ExportCounts(rows.count, rows.too_long)


class _Rows:
    """The rows as JSON lines, many at a time, and how many there were."""

    def __init__(
        self, trajectories: Path, form: ExportFormat, rows_per: RowsPer, max_tokens: int | None
    ) -> None:
        self._trajectories = trajectories
        self._form: ExportFormat = form
        self._rows_per: RowsPer = rows_per
        self._max_tokens = max_tokens
        self.count = 0
        self.too_long = 0

    async def parts(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(file_line_batches(self._trajectories)) as batches:
            async for batch in batches:
                yield b"".join(self._lines(offset, line) for offset, line in batch)

    def _lines(self, offset: int, line: bytes) -> bytes:
        try:
            record = decode_record(line)
        except msgspec.DecodeError as error:
            raise ConfigurationError(
                f"{self._trajectories} is damaged at byte {offset} ({error}); hermes-batch merge mends it"
            ) from error
        every = list(export_rows(record, self._form, self._rows_per, self._max_tokens))
        rows = [row for row in every if row is not None]
        self.count += len(rows)
        self.too_long += len(every) - len(rows)
        return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


async def _write_parquet(rows: _Rows, target: Path) -> None:
    if importlib.util.find_spec("pyarrow") is None:
        raise MissingDependencyError("Parquet needs pyarrow, which", "pip install 'hermes-batch[parquet]'")
    async with replace_by_writer(target) as temporary:
        command = [sys.executable, "-m", "hermes_batch.parquet_worker", "write", str(temporary)]
        try:
            async with aclosing(rows.parts()) as parts:
                await feed_worker(command, parts)
        except WorkerError as error:
            raise ConfigurationError(f"{target} could not be written: {error}") from error
