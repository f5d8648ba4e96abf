"""The truth of a run on disk: shards of finished records, each written by one appender and never reopened.

A process that resumes a run starts new shards. A shard whose last line was cut by a crash keeps its whole
lines; the torn tail is moved aside before anything else is done.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Self

import msgspec

from hermes_batch.files import (
    AppendFile,
    ReadFile,
    file_lines,
    file_size,
    list_names,
    make_directory,
    replace_file,
    sync_directory,
    truncate_file,
)
from hermes_batch.plan import Finished, RetryPolicy, RowKey, is_final
from hermes_batch.records import Record, decode_record, encode_record

__all__ = [
    "RecordReader",
    "ShardWriter",
    "iterate_records",
    "mend_torn_tails",
    "scan_recorded",
    "shard_names",
]

logger = logging.getLogger(__name__)

_OPEN_SHARDS = 64
_SHARD_NAME = re.compile(r"shard-(\d{5,})\.jsonl")


async def shard_names(shard_dir: Path) -> list[str]:
    """The names of the shards, in the order in which they were begun."""
    names = [name for name in await list_names(shard_dir) if _SHARD_NAME.fullmatch(name)]
    return sorted(names, key=_shard_number)


def _shard_number(name: str) -> int:
    found = _SHARD_NAME.fullmatch(name)
    return int(found.group(1)) if found else 0


async def iterate_records(shard_dir: Path) -> AsyncIterator[tuple[Finished, Record]]:
    """Every readable record and where it lies, in the order of writing. A line that is no record is reported
    in the log and passed over."""
    for name in await shard_names(shard_dir):
        async for offset, line in file_lines(shard_dir / name):
            try:
                record = decode_record(line)
            except msgspec.DecodeError as error:
                logger.warning("%s: byte %d: not a record (%s); passed over", name, offset, error)
                continue
            yield Finished(RowKey(record.prompt_index, record.row_hash), name, offset, len(line)), record


async def scan_recorded(shard_dir: Path, retry: RetryPolicy | None) -> list[Finished]:
    """Where the records lie that count as finished under `retry`; all of them with None."""
    return [
        place
        async for place, record in iterate_records(shard_dir)
        if retry is None or is_final(record, retry)
    ]


class RecordReader:
    """Reads records at known places: `async with RecordReader(shard_dir) as read: await read(place)`."""

    def __init__(self, shard_dir: Path) -> None:
        self._dir = shard_dir
        self._files: dict[str, ReadFile] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __call__(self, place: Finished) -> Record:
        """The record at `place`."""
        file = self._files.get(place.shard)
        if file is None:
            if len(self._files) >= _OPEN_SHARDS:
                await self._files.pop(next(iter(self._files))).close()
            file = self._files[place.shard] = await ReadFile.open(self._dir / place.shard)
        return decode_record(await file.read_at(place.offset, place.length))

    async def __aexit__(self, *_: object) -> None:
        for file in self._files.values():
            await file.close()


async def mend_torn_tails(shard_dir: Path) -> list[str]:
    """Cut half-written last lines off the shards, keeping each in `<shard>.torn`; the names of those cut."""
    mended: list[str] = []
    for name in await shard_names(shard_dir):
        path = shard_dir / name
        whole = 0
        torn = b""
        async for offset, line in file_lines(path):
            whole, torn = offset, line
        end = whole + len(torn)
        if not torn or await file_size(path) > end:
            continue
        async with replace_file(path.with_suffix(".torn")) as write:
            await write(torn)
        await truncate_file(path, whole)
        mended.append(name)
    return mended


class ShardWriter:
    """Appends records durably. Many workers may append at once: what waits is written and synced together.

    Run `run()` as one task; it ends when `close()` was called and all that waited is on the disk.
    """

    def __init__(self, shard_dir: Path, *, rows_per_shard: int) -> None:
        self._dir = shard_dir
        self._rows_per_shard = rows_per_shard
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._wake = asyncio.Event()
        self._closing = False
        self._shard: AppendFile | None = None
        self._rows_in_shard = 0

    async def append(self, record: Record) -> None:
        """Return once the record is on the disk. Raises `OSError` when it could not be written."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((encode_record(record), done))
        self._wake.set()
        await done

    def close(self) -> None:
        """Let `run` end after it wrote what waits."""
        self._closing = True
        self._wake.set()

    async def run(self) -> None:
        """Write until closed."""
        try:
            while self._waiting or not self._closing:
                await self._wake.wait()
                self._wake.clear()
                if self._waiting:
                    await self._write_batch()
        finally:
            for _, done in self._waiting:
                done.cancel()
            await self._leave_shard()

    async def _write_batch(self) -> None:
        if self._rows_in_shard >= self._rows_per_shard:
            await self._leave_shard()
        room = self._rows_per_shard - self._rows_in_shard
        batch, self._waiting = self._waiting[:room], self._waiting[room:]
        if self._waiting:
            self._wake.set()
        try:
            if self._shard is None:
                self._shard = await self._next_shard()
            await self._shard.append(b"".join(line for line, _ in batch), durable=True)
        except OSError as error:
            for _, done in batch:
                if not done.done():
                    done.set_exception(error)
            # Whatever of the batch reached the file must not be continued by the next line.
            await self._leave_shard()
            return
        self._rows_in_shard += len(batch)
        for _, done in batch:
            if not done.done():
                done.set_result(None)

    async def _leave_shard(self) -> None:
        shard, self._shard = self._shard, None
        self._rows_in_shard = 0
        if shard is not None:
            await shard.close()

    async def _next_shard(self) -> AppendFile:
        await make_directory(self._dir)
        names = await shard_names(self._dir)
        number = _shard_number(names[-1]) + 1 if names else 1
        shard = await AppendFile.create(self._dir / f"shard-{number:05}.jsonl")
        await sync_directory(self._dir)
        return shard
