"""The truth of a run on disk: shards of finished records, each written by one appender and never reopened.

A process that resumes a run starts new shards. A shard whose last line was cut by a crash keeps its whole
lines; the torn tail is moved aside before anything else is done.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import NamedTuple, Self

import msgspec
from msgspec import Struct

from hermes_batch.files import (
    AppendFile,
    ReadFile,
    cut_torn_tail,
    file_line_batches,
    list_names,
    make_directory,
    sync_directory,
)
from hermes_batch.packed import Finished, FinishedRows
from hermes_batch.records import Record, decode_record, encode_record
from hermes_batch.supervision import finish

__all__ = [
    "RecordReader",
    "Recorded",
    "ShardWriter",
    "in_parts",
    "mend_torn_tails",
    "scan_recorded",
    "shard_names",
]

logger: logging.Logger = logging.getLogger(__name__)

_OPEN_SHARDS = 64
_SYNC_ROWS = 1_000  # so many waiting rows are written at once
_READ_OVER = 64 << 10  # bytes between two records that are read along rather than skipped
_LONGEST_READ = 4 << 20  # bytes; a single record may be longer
_SHARD_NAME = re.compile(r"shard-(\d{5,})\.jsonl")


async def shard_names(shard_dir: Path) -> list[str]:
    """The names of the shards, in the order in which they were begun."""
    names = [name for name in await list_names(shard_dir) if _SHARD_NAME.fullmatch(name)]
    return sorted(names, key=_shard_number)


def _shard_number(name: str) -> int:
    found = _SHARD_NAME.fullmatch(name)
    return int(found.group(1)) if found else 0


class Recorded(Struct, frozen=True):
    """The records of a run in the order of writing, and the number of lines that are none."""

    records: FinishedRows
    damaged: int


async def scan_recorded(shard_dir: Path) -> Recorded:
    """Where every readable record lies and how its row ended. A line that is no record is reported in the log
    and passed over."""
    found = FinishedRows()
    damaged = 0
    for name in await shard_names(shard_dir):
        async with aclosing(file_line_batches(shard_dir / name)) as batches:
            async for batch in batches:
                for offset, line in batch:
                    try:
                        record = decode_record(line)
                    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                        logger.warning(
                            "%s: byte %d: not a record (%s); passed over", shard_dir / name, offset, error
                        )
                        damaged += 1
                        continue
                    _note(found, record, shard=name, offset=offset, length=len(line))
    return Recorded(found, damaged)


def _note(records: FinishedRows, record: Record, *, shard: str, offset: int, length: int) -> None:
    """Keep where `record` lies: its line, without the line feed."""
    records.add(
        index=record.prompt_index,
        content_hash=record.row_hash,
        shard=shard,
        offset=offset,
        length=length,
        status=record.status,
        run_again=record.run_again,
        tools=record.tool_stats,
    )


class RecordReader:
    """Reads records at known places: `async with RecordReader(shard_dir) as read: await read(places)`."""

    def __init__(self, shard_dir: Path) -> None:
        self._dir = shard_dir
        self._files: dict[str, ReadFile] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __call__(self, places: Sequence[Finished]) -> list[Record]:
        """The records at `places`, in that order. Records that lie close together are read in one piece."""
        records: dict[tuple[str, int], Record] = {}
        for piece in _pieces(places):
            first, last = piece[0], piece[-1]
            file = await self._file(first.shard)
            data = await file.read_at(first.offset, last.offset + last.length - first.offset)
            view = memoryview(data)
            for place in piece:
                start = place.offset - first.offset
                records[place.shard, place.offset] = decode_record(view[start : start + place.length])
        return [records[place.shard, place.offset] for place in places]

    async def _file(self, shard: str) -> ReadFile:
        if shard not in self._files:
            if len(self._files) >= _OPEN_SHARDS:
                await self._files.pop(next(iter(self._files))).close()
            self._files[shard] = await ReadFile.open(self._dir / shard)
        return self._files[shard]

    async def __aexit__(self, *_: object) -> None:
        await finish(self._close_all(), what="closing shards")

    async def _close_all(self) -> None:
        while self._files:
            await self._files.popitem()[1].close()


def _pieces(places: Iterable[Finished]) -> Iterator[list[Finished]]:
    """The places in the order of the files, those together that one read of moderate size covers."""
    piece: list[Finished] = []
    for place in sorted(places, key=lambda place: (place.shard, place.offset)):
        if piece and not (
            place.shard == piece[0].shard
            and place.offset - (piece[-1].offset + piece[-1].length) <= _READ_OVER
            and place.offset + place.length - piece[0].offset <= _LONGEST_READ
        ):
            yield piece
            piece = []
        piece.append(place)
    if piece:
        yield piece


def in_parts(
    rows: Iterable[tuple[int, Finished]], *, rows_at_most: int, bytes_at_most: int
) -> Iterator[list[tuple[int, Finished]]]:
    """The rows in parts that are small enough to be in memory and not to hold up the event loop; a single
    record may be longer."""
    part: list[tuple[int, Finished]] = []
    size = 0
    for index, place in rows:
        if part and (len(part) >= rows_at_most or size + place.length > bytes_at_most):
            yield part
            part, size = [], 0
        part.append((index, place))
        size += place.length
    if part:
        yield part


async def mend_torn_tails(shard_dir: Path) -> list[str]:
    """Cut half-written last lines off the shards, keeping each in `<shard>.torn`; the names of those cut."""
    return [name for name in await shard_names(shard_dir) if await cut_torn_tail(shard_dir / name)]


class _Waiting(NamedTuple):
    """A record that is to be written, and who waits for that."""

    record: Record
    line: bytes
    done: asyncio.Future[None]


class ShardWriter:
    """Appends records durably. Many workers may append at once: what waits is written and synced together.
    Those that are on the disk are added to `recorded`, as `scan_recorded` would find them.

    Syncs are at least `sync_every_s` seconds apart, unless a thousand rows wait or the writer is closed: on
    slow disks that spares syncs.

    Run `run()` as one task; it ends when `close()` was called and all that waited is on the disk.
    """

    def __init__(
        self,
        shard_dir: Path,
        *,
        rows_per_shard: int,
        sync_every_s: float = 0.0,
        recorded: FinishedRows | None = None,
    ) -> None:
        self._dir = shard_dir
        self._recorded = recorded
        self._rows_per_shard = rows_per_shard
        self._sync_every_s = sync_every_s
        self._written_at = 0.0
        self._waiting: list[_Waiting] = []
        self._wake = asyncio.Event()
        self._closing = False
        self._shard: AppendFile | None = None
        self._rows_in_shard = 0
        self._bytes_in_shard = 0

    def put(self, record: Record) -> asyncio.Future[None]:
        """Have the record written; it is on the disk when what is returned is done. That raises `OSError`
        when the record could not be written."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(record, encode_record(record), done))
        self._wake.set()
        return done

    async def append(self, record: Record) -> None:
        """Return once the record is on the disk. Raises `OSError` when it could not be written."""
        await self.put(record)

    def close(self) -> None:
        """Let `run` end after it wrote what waits."""
        self._closing = True
        self._wake.set()

    async def run(self) -> None:
        """Write until closed; when cancelled, first write what waits: it was paid for."""
        try:
            while self._waiting or not self._closing:
                await self._wake.wait()
                self._wake.clear()
                if self._waiting:
                    await self._gather()
                    await finish(self._write_batch(), what="writing records")
        finally:
            try:
                while self._waiting:
                    await finish(self._write_batch(), what="writing records")
            finally:
                await self._leave_shard()

    async def _gather(self) -> None:
        """Let more rows come before the next sync, when it would follow the last one too closely."""
        loop = asyncio.get_running_loop()
        while not self._closing and len(self._waiting) < _SYNC_ROWS:
            left = self._written_at + self._sync_every_s - loop.time()
            if left <= 0:
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._wake.wait()
            self._wake.clear()
        self._written_at = loop.time()

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
            await self._shard.append(b"".join([waiting.line for waiting in batch]))
        except BaseException as error:  # a cancellation too: who waits for this batch must be told
            for *_, done in batch:
                if not done.done():
                    done.set_exception(error) if isinstance(error, Exception) else done.cancel()
            # Whatever of the batch reached the file must not be continued by the next line.
            await self._leave_shard()
            if not isinstance(error, OSError):
                raise
            return
        self._rows_in_shard += len(batch)
        self._tell_written(batch, self._shard.path.name)

    def _tell_written(self, batch: list[_Waiting], shard: str) -> None:
        for record, line, done in batch:
            if self._recorded is not None:
                length = len(line) - len(b"\n")
                _note(self._recorded, record, shard=shard, offset=self._bytes_in_shard, length=length)
            self._bytes_in_shard += len(line)
            if not done.done():
                done.set_result(None)

    async def _leave_shard(self) -> None:
        shard, self._shard = self._shard, None
        self._rows_in_shard = self._bytes_in_shard = 0
        if shard is not None:
            await shard.close()

    async def _next_shard(self) -> AppendFile:
        await make_directory(self._dir)
        names = await shard_names(self._dir)
        number = _shard_number(names[-1]) + 1 if names else 1
        shard = await AppendFile.create(self._dir / f"shard-{number:05}.jsonl")
        try:
            await sync_directory(self._dir)
        except BaseException:
            await shard.close()
            raise
        return shard
