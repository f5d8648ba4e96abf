"""The lines of a dataset file, whatever its form: JSONL, the same in gzip or zstd, or Parquet.

The form is told by the first bytes of the file, not by its name.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Final, Literal

from hermes_batch.decompression import Decompressor, GzipDecompressor, ZstdDecompressor
from hermes_batch.errors import DatasetError
from hermes_batch.files import file_chunks, file_lines, read_start
from hermes_batch.line_splitting import LineSplitter
from hermes_batch.worker_process import WorkerError, worker_output

__all__ = ["DatasetForm", "dataset_lines", "form_of"]

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


async def dataset_lines(path: Path) -> AsyncGenerator[bytes, None]:
    """The lines of the dataset, without line feeds; of Parquet, each row as a JSON object.

    Memory: one line and a chunk. Raises `OSError`, and `DatasetError` for a damaged file or a missing extra.
    """
    form = form_of(await read_start(path))
    if form in _NEEDED:
        _require(path, *_NEEDED[form])
    if form == "parquet":
        lines = _parquet_lines(path)
    elif form in _DECOMPRESSORS:
        lines = _unpacked_lines(path, _DECOMPRESSORS[form]())
    else:
        lines = _plain_lines(path)
    async with aclosing(lines):
        async for line in lines:
            yield line


def _require(path: Path, module: str, extra: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise DatasetError(f"{path} needs {module} to be read: pip install 'hermes-batch[{extra}]'")


async def _plain_lines(path: Path) -> AsyncGenerator[bytes, None]:
    async with aclosing(file_lines(path)) as lines:
        async for _, line in lines:
            yield line


async def _unpacked_lines(path: Path, decompressor: Decompressor) -> AsyncGenerator[bytes, None]:
    splitter = LineSplitter()
    try:
        async with aclosing(file_chunks(path)) as chunks:
            async for chunk in chunks:
                for piece in decompressor.feed(chunk):
                    for line in splitter.feed(piece):
                        yield line
        decompressor.finish()
    except ValueError as error:
        raise DatasetError(f"the dataset file {path} can not be read: {error}") from error
    if last := splitter.rest():
        yield last


async def _parquet_lines(path: Path) -> AsyncGenerator[bytes, None]:
    splitter = LineSplitter()
    command = [sys.executable, "-m", "hermes_batch.parquet_worker", "read", str(path)]
    try:
        async with aclosing(worker_output(command)) as chunks:
            async for chunk in chunks:
                for line in splitter.feed(chunk):
                    yield line
    except WorkerError as error:
        raise DatasetError(f"the dataset file {path} can not be read: {error}") from error
