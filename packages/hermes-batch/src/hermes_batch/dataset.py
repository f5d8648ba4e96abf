"""Reading a dataset file as a stream of rows."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import aiofiles
import aiofiles.os

from hermes_batch.errors import DatasetError
from hermes_batch.files import file_lines
from hermes_batch.rows import Row, read_row

__all__ = ["check_dataset_file", "read_dataset"]

_BOM = b"\xef\xbb\xbf"


async def check_dataset_file(path: Path) -> None:
    """Raise `DatasetError` unless `path` is a file that can be opened."""
    if not await aiofiles.os.path.exists(path):
        raise DatasetError(f"no dataset file at {path}")
    if not await aiofiles.os.path.isfile(path):
        raise DatasetError(f'{path} is not a file; the dataset is a JSONL file, one {{"prompt": ...}} a line')
    try:
        async with aiofiles.open(path, "rb") as file:
            await file.read(1)
    except OSError as error:
        raise DatasetError(f"the dataset file {path} can not be read: {error.strerror}") from error


async def read_dataset(path: Path, *, max_samples: int | None = None) -> AsyncGenerator[Row, None]:
    """The rows of a JSONL file, at most `max_samples`; blank lines are no rows. Memory: one line."""
    index = 0
    line_number = 0
    async with aclosing(file_lines(path)) as lines:
        async for _, raw in lines:
            line_number += 1
            line = raw.removeprefix(_BOM) if line_number == 1 else raw
            if not line.strip():
                continue
            if max_samples is not None and index >= max_samples:
                return
            yield read_row(line, index=index, line_number=line_number)
            index += 1
