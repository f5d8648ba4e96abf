"""Reading files: whole, in chunks, by lines, and at given places."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from hermes_batch.files import calls
from hermes_batch.line_splitting import LineSplitter
from hermes_batch.supervision import finish

__all__ = [
    "ReadFile",
    "check_readable",
    "file_chunks",
    "file_line_batches",
    "read_bytes",
    "read_start",
]


class ReadFile:
    """A file that is read at given places."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    async def open(cls, path: Path) -> ReadFile:
        """Open an existing file."""
        return cls(await calls.open_fd(path, os.O_RDONLY))

    async def read_at(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`, fewer only at the file's end."""
        return await finish(calls.read_at(self._fd, length, offset), what="reading a shard")

    async def close(self) -> None:
        """Close it."""
        await finish(calls.close_fd(self._fd), what="closing a shard")


async def read_bytes(path: Path) -> bytes:
    """The whole of a small file."""
    file = await ReadFile.open(path)
    try:
        return await file.read_at(0, calls.CHUNK)
    finally:
        await file.close()


async def check_readable(path: Path) -> None:
    """Raise `OSError` unless the file at `path` can be opened and read."""
    await read_start(path)


async def read_start(path: Path) -> bytes:
    """The first bytes of a file, enough to tell its form."""
    file = await ReadFile.open(path)
    try:
        return await file.read_at(0, 16)
    finally:
        await file.close()


async def file_chunks(path: Path) -> AsyncGenerator[bytes, None]:
    """The bytes of a file, a chunk at a time."""
    file = await ReadFile.open(path)
    try:
        read = 0
        while chunk := await file.read_at(read, calls.CHUNK):
            read += len(chunk)
            yield chunk
    finally:
        await file.close()


async def file_line_batches(path: Path) -> AsyncGenerator[list[tuple[int, bytes]], None]:
    """The lines of a file, each with its byte offset and without its line feed, as many at a time as one read
    gave.

    A last line without a line feed comes too; whether it is whole is for the caller to judge. Memory: one
    line and a chunk.
    """
    splitter = LineSplitter()
    offset = 0
    async with aclosing(file_chunks(path)) as chunks:
        async for chunk in chunks:
            batch: list[tuple[int, bytes]] = []
            for line in splitter.feed(chunk):
                batch.append((offset, line))
                offset += len(line) + 1
            if batch:
                yield batch
    if last := splitter.rest():
        yield [(offset, last)]
