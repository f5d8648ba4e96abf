"""Reading a dataset file as a stream of rows."""

from __future__ import annotations

from array import array
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from itertools import pairwise
from pathlib import Path
from typing import Literal

import aiofiles.os
from msgspec import Struct

from hermes_batch.dataset_formats import dataset_lines
from hermes_batch.errors import DatasetError
from hermes_batch.files import check_readable
from hermes_batch.packed import RowHashes
from hermes_batch.rows import BadRow, Row, read_row

__all__ = ["RowOrder", "ScannedDataset", "read_dataset", "scan_dataset", "sorted_in_windows"]

RowOrder = Literal["file", "longest", "shortest"]
"""In which order rows are begun; by length within each window of `WINDOW_ROWS` rows."""

WINDOW_ROWS = 1_000

_IDS_NAMED = 3
_IDS_COMPARED = 100_000  # a courtesy that is not to cost memory without end
_IMAGES_KNOWN = 1_000  # likewise
_BOM = b"\xef\xbb\xbf"


async def _check_file(path: Path) -> None:
    """Raise `DatasetError` unless `path` is a file that can be opened."""
    if not await aiofiles.os.path.exists(path):
        raise DatasetError(f"no dataset file at {path}")
    if not await aiofiles.os.path.isfile(path):
        raise DatasetError(
            f'{path} is not a file; the dataset is a file of rows, one {{"prompt": ...}} a line'
        )
    try:
        await check_readable(path)
    except OSError as error:
        raise DatasetError(f"the dataset file {path} can not be read: {error.strerror}") from error


class ScannedDataset(Struct, frozen=True):
    """The rows of a dataset by place and content, and what a person should know of them before the run.
    `images` are the container images that rows name, each once, the first 1,000 of them."""

    hashes: RowHashes
    bad: int
    remarks: tuple[str, ...]
    images: tuple[str, ...] = ()


async def scan_dataset(path: Path, *, max_samples: int | None = None) -> ScannedDataset:
    """Read the whole dataset once. Raises `DatasetError` when it can not be read or has no usable row."""
    await _check_file(path)
    hashes = RowHashes()
    bad = 0
    first_problem = ""
    ids = array("q")
    images: dict[str, None] = {}
    try:
        async with aclosing(read_dataset(path, max_samples=max_samples)) as rows:
            async for row in rows:
                hashes.add(row.content_hash)
                if isinstance(row, BadRow):
                    bad += 1
                    first_problem = first_problem or f"line {row.line}: {row.reason}"
                    continue
                if row.image is not None and len(images) < _IMAGES_KNOWN:
                    images[row.image] = None
                if row.id and len(ids) < _IDS_COMPARED:
                    ids.append(hash(row.id))
        repeated = await _repeated_ids(path, ids)
    except OSError as error:
        raise DatasetError(f"the dataset file {path} can not be read: {error.strerror or error}") from error
    if not hashes:
        raise DatasetError(f'{path} has no rows; a row looks like {{"prompt": "..."}}')
    if bad == len(hashes):
        raise DatasetError(f"{path} has no usable row; {first_problem}")
    remarks: list[str] = []
    if bad:
        remarks.append(f"{bad} of {len(hashes)} rows can not be used; {first_problem}")
    if repeated:
        named = ", ".join(f"{row_id!r} (line {line})" for row_id, line in list(repeated.items())[:_IDS_NAMED])
        remarks.append(f"{len(repeated)} ids stand on more than one row: {named}; records share them")
    return ScannedDataset(hashes, bad, tuple(remarks), tuple(images))


async def _repeated_ids(path: Path, hashes: array[int]) -> dict[str, int]:
    """Which of the ids that have these hashes stand on more than one row, and the second line of each. The
    texts are read again, where there are any: to keep them all would take most of a run's memory."""
    ordered = sorted(hashes)
    several = {one for one, other in pairwise(ordered) if one == other}
    lines: dict[str, int] = {}
    repeated: dict[str, int] = {}
    async with aclosing(read_dataset(path)) as rows:
        left = len(hashes) if several else 0
        while left and (row := await anext(rows, None)) is not None:
            if isinstance(row, BadRow) or not row.id:
                continue
            left -= 1
            if hash(row.id) in several and lines.setdefault(row.id, row.line) != row.line:
                repeated.setdefault(row.id, row.line)
    return repeated


async def read_dataset(path: Path, *, max_samples: int | None = None) -> AsyncGenerator[Row, None]:
    """The rows of a dataset file, at most `max_samples`; blank lines are no rows. Memory: a chunk
    and one line. Raises `OSError`, `DatasetError`."""
    index = 0
    line_number = 0
    async with aclosing(dataset_lines(path)) as lines:
        async for raw in lines:
            line_number += 1
            line = raw.removeprefix(_BOM) if line_number == 1 and isinstance(raw, bytes) else raw
            if isinstance(line, bytes) and not line.strip():
                continue
            if max_samples is not None and index >= max_samples:
                return
            yield read_row(line, index=index, line_number=line_number)
            index += 1


async def sorted_in_windows(
    rows: AsyncGenerator[Row, None], order: RowOrder, todo: Collection[int]
) -> AsyncGenerator[Row, None]:
    """The rows that are in `todo`, each window of them by the length of what the user says.

    Long rows first keep the last workers of a run from waiting for one that began late. Memory: one window.
    """
    window: list[Row] = []
    async with aclosing(rows):
        async for row in rows:
            if row.index not in todo:
                continue
            window.append(row)
            if len(window) == WINDOW_ROWS:
                for each in _by_length(window, order):
                    yield each
                window = []
    for each in _by_length(window, order):
        yield each


def _by_length(window: list[Row], order: RowOrder) -> list[Row]:
    return sorted(window, key=_length, reverse=order == "longest")


def _length(row: Row) -> int:
    return 0 if isinstance(row, BadRow) else sum(len(str(turn)) for turn in row.turns)
