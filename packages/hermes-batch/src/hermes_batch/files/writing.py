"""Writing files: whole or not at all, by appending, and cutting off what a crash left half-written."""

from __future__ import annotations

import asyncio
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Self

import aiofiles.os

from hermes_batch.files import calls
from hermes_batch.files.directories import path_exists, sync_directory
from hermes_batch.supervision import finish

__all__ = ["AppendFile", "cut_torn_tail", "replace_by_writer", "replace_file"]


class replace_file:  # noqa: N801 - reads as a verb where it is used
    """Write a file whole or not at all: `async with replace_file(path) as write: await write(data)`.

    The data goes to a temporary file beside the target, is made durable and then renamed over it. A link is
    followed, and the mode of an existing target is kept. On an exception, a cancellation and a full disk
    included, the target stays as it was and the temporary file is gone.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.temporary: Path = path
        self._target = path
        self._fd = -1

    async def __aenter__(self) -> Self:
        self._target = Path(await calls.real_path(self._path))
        self.temporary = self._target.with_name(f".{self._target.name}.{secrets.token_hex(8)}.tmp")
        try:
            self._fd = await calls.open_fd(self.temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except asyncio.CancelledError:
            await finish(self._discard(), what="removing a temporary file")
            raise
        return self

    async def __call__(self, data: bytes) -> None:
        """Write all of `data`."""
        with calls.named(self._path):
            await finish(calls.write_all(self._fd, data), what=f"writing {self._path}")

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        leave = self._put_in_place() if kind is None else self._discard()
        await finish(leave, what=f"replacing {self._path}")

    async def _put_in_place(self) -> None:
        try:
            with calls.named(self._path):
                await calls.fsync(self._fd)
            if await path_exists(self._target):
                await calls.copy_mode(self._target, self.temporary)
            await aiofiles.os.replace(self.temporary, self._target)
        except BaseException:
            await self._discard()
            raise
        fd, self._fd = self._fd, -1
        await calls.close_fd(fd)
        await sync_directory(self._target.parent)

    async def _discard(self) -> None:
        try:
            if self._fd >= 0:
                fd, self._fd = self._fd, -1
                await calls.close_fd(fd)
        finally:
            with suppress(OSError):
                await aiofiles.os.unlink(self.temporary)


class replace_by_writer:  # noqa: N801 - reads as a verb where it is used
    """As `replace_file`, for a target that somebody else writes: `async with` gives the path to write to."""

    def __init__(self, path: Path) -> None:
        self._inner = replace_file(path)

    async def __aenter__(self) -> Path:
        await self._inner.__aenter__()
        return self._inner.temporary

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        await self._inner.__aexit__(kind, *rest)


class AppendFile:
    """A file that is only appended to, by one writer."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd

    @classmethod
    async def create(cls, path: Path) -> AppendFile:
        """A new file; raises `FileExistsError` rather than touching an existing one."""
        return cls(path, await calls.open_fd(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND))

    async def append(self, data: bytes) -> None:
        """Append all of `data`; it is on the disk when this returns."""
        with calls.named(self.path):
            await finish(calls.append_durably(self._fd, data), what=f"writing {self.path}")

    async def close(self) -> None:
        """Close it. Idempotent."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            await finish(calls.close_fd(fd), what=f"closing {self.path}")


async def cut_torn_tail(path: Path) -> int:
    """Cut a last line without line feed off a file, once a copy of it is safe in `<file>.torn`.

    Returns how many bytes were cut. Only the end of the file is read, twice; memory: a chunk.
    """
    fd = await calls.open_fd(path, os.O_RDWR)
    try:
        end = (await calls.stat_fd(fd)).st_size
        begin = await _last_line_of(fd, end)
        if begin < end:
            async with replace_file(path.with_suffix(".torn")) as write:
                for place in range(begin, end, calls.CHUNK):
                    await write(await calls.read_at(fd, min(calls.CHUNK, end - place), place))
            await finish(_truncate_durably(fd, begin), what=f"cutting {path}")
        return end - begin
    finally:
        await finish(calls.close_fd(fd), what=f"closing {path}")


async def _last_line_of(fd: int, end: int) -> int:
    """Where what stands after the last line feed begins."""
    while end:
        start = max(0, end - calls.CHUNK)
        found = (await calls.read_at(fd, end - start, start)).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


async def _truncate_durably(fd: int, length: int) -> None:
    await calls.truncate_fd(fd, length)
    await calls.fsync(fd)
