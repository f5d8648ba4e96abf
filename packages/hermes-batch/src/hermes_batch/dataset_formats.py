"""The lines of a dataset file, whatever its form: JSONL, the same in gzip or zstd, or Parquet.

The form is told by the first bytes of the file, not by its name.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Final, Literal

from hermes_batch.decompression import Decompressor, GzipDecompressor, ZstdDecompressor
from hermes_batch.errors import DatasetError
from hermes_batch.files import file_chunks, read_start
from hermes_batch.line_splitting import BoundedLineSplitter, LongLine
from hermes_batch.worker_process import WorkerError, worker_output

__all__ = ["LONGEST_LINE", "DatasetForm", "dataset_lines", "form_of"]

LONGEST_LINE: Final = 64 << 20
"""How many bytes a row may have. What is longer would not be read in bounded memory, and is no row."""

DatasetForm = Literal["jsonl", "gzip", "zstd", "parquet"]

_MAGIC: Final[tuple[tuple[bytes, DatasetForm], ...]] = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"PAR1", "parquet"),
)
_NEEDED: Final[dict[DatasetForm, tuple[str, str]]] = {
    "zstd": ("zstandard", "zstd"),
    "parquet": ("pyarrow", "parquet"),
}
_DECOMPRESSORS: Final[dict[DatasetForm, Callable[[], Decompressor]]] = {
    "gzip": GzipDecompressor,
    "zstd": ZstdDecompressor,
}


def form_of(start: bytes) -> DatasetForm:
    """The form of a file that begins with `start`."""
    return next((form for magic, form in _MAGIC if start.startswith(magic)), "jsonl")


async def dataset_lines(path: Path) -> AsyncGenerator[bytes | LongLine, None]:
    """The lines of the dataset, without line feeds; of Parquet, each row as a JSON object.

    Memory: a chunk and one line, of at most `LONGEST_LINE` bytes. Raises `OSError`, and `DatasetError` for a
    damaged file or a missing extra.
    """
    form = form_of(await read_start(path))
    if form in _NEEDED:
        _require(path, *_NEEDED[form])
    if form == "parquet":
        pieces = _parquet_pieces(path)
    elif form in _DECOMPRESSORS:
        pieces = _unpacked_pieces(path, _DECOMPRESSORS[form]())
    else:
        pieces = file_chunks(path)
    splitter = BoundedLineSplitter(LONGEST_LINE)
    async with aclosing(pieces):
        async for piece in pieces:
            for line in splitter.feed(piece):
                yield line
    if last := splitter.rest():
        yield last


def _require(path: Path, module: str, extra: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise DatasetError(f"{path} needs {module} to be read: pip install 'hermes-batch[{extra}]'")


async def _unpacked_pieces(path: Path, decompressor: Decompressor) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(file_chunks(path)) as chunks:
            async for chunk in chunks:
                for piece in decompressor.feed(chunk):
                    yield piece
                    await asyncio.sleep(0)  # a chunk may unpack to a thousand pieces
        decompressor.finish()
    except ValueError as error:
        raise DatasetError(f"the dataset file {path} can not be read: {error}") from error


async def _parquet_pieces(path: Path) -> AsyncGenerator[bytes, None]:
    command = [sys.executable, "-m", "hermes_batch.parquet_worker", "read", str(path)]
    try:
        async with aclosing(worker_output(command)) as chunks:
            async for chunk in chunks:
                yield chunk
    except WorkerError as error:
        raise DatasetError(f"the dataset file {path} can not be read: {error}") from error
