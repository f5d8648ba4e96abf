"""The only module of this wheel that touches files. Everything goes through aiofiles.

`aiofiles.os.wrap` is used for the short list of calls that aiofiles does not offer.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from typing import Self

import aiofiles.os

from hermes_batch.line_splitting import LineSplitter
from hermes_batch.supervision import finish
from hermes_messages.arrivals import Arrival

__all__ = [
    "AppendFile",
    "FileLock",
    "ReadFile",
    "check_readable",
    "cut_torn_tail",
    "file_chunks",
    "file_line_batches",
    "file_lines",
    "is_directory",
    "list_names",
    "make_directory",
    "make_temporary_directory",
    "path_exists",
    "read_bytes",
    "read_start",
    "remove_leftovers",
    "remove_tree",
    "replace_by_writer",
    "replace_file",
    "sync_directory",
]

_CHUNK = 1 << 20
_TEMPORARY_NAME = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")

_fsync = aiofiles.os.wrap(os.fsync)
_open_fd = aiofiles.os.wrap(os.open)
_close_fd = aiofiles.os.wrap(os.close)
_stat_fd = aiofiles.os.wrap(os.fstat)
_read_fd = aiofiles.os.wrap(os.read)
_read_at = aiofiles.os.wrap(os.pread)
_write_fd = aiofiles.os.wrap(os.write)
_truncate_fd = aiofiles.os.wrap(os.ftruncate)
_flock = aiofiles.os.wrap(fcntl.flock)
_make_temporary = aiofiles.os.wrap(tempfile.mkdtemp)


def _remove_directory(path: Path) -> None:
    """Mostly it is empty, which costs one call instead of a dozen."""
    try:
        os.rmdir(path)  # noqa: PTH106 - what an agent did there may have any name
    except OSError:
        shutil.rmtree(path, ignore_errors=True)


_remove_tree = aiofiles.os.wrap(_remove_directory)
_copy_mode = aiofiles.os.wrap(shutil.copymode)
_real_path = aiofiles.os.wrap(os.path.realpath)


async def path_exists(path: Path) -> bool:
    """Whether there is anything at `path`."""
    return await aiofiles.os.path.exists(path)


async def is_directory(path: str) -> bool:
    """Whether there is a directory at `path`."""
    return await aiofiles.os.path.isdir(path)


async def list_names(directory: Path) -> list[str]:
    """The sorted names in `directory`, none when it does not exist."""
    try:
        return sorted(await aiofiles.os.listdir(directory))
    except FileNotFoundError:
        return []


async def make_directory(path: Path) -> None:
    """Make `path` and its parents, if missing."""
    await aiofiles.os.makedirs(path, exist_ok=True)


async def make_temporary_directory(prefix: str, parent: str | None = None) -> Path:
    """A new empty directory that only this user can read, in `parent` or where temporary files go."""
    return Path(await finish(_make_temporary(prefix=prefix, dir=parent), what="making a directory"))


async def remove_tree(path: Path) -> None:
    """Remove `path` and all in it, as far as that can be done; what is gone already is no error."""
    await finish(_remove_tree(path), what=f"removing {path}")


async def remove_leftovers(directory: Path) -> None:
    """Remove the temporary files that a killed process left in `directory` while it replaced a file."""
    for name in await list_names(directory):
        if _TEMPORARY_NAME.fullmatch(name):
            await aiofiles.os.unlink(directory / name)


async def read_bytes(path: Path) -> bytes:
    """The whole of a small file."""
    file = await ReadFile.open(path)
    try:
        return await file.read_at(0, _CHUNK)
    finally:
        await file.close()


async def check_readable(path: Path) -> None:
    """Raise `OSError` unless the file at `path` can be opened and read."""
    await read_start(path)


async def sync_directory(directory: Path) -> None:
    """Make new names in `directory` durable."""

    async def sync() -> None:
        fd = await _open_fd(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            await _fsync(fd)
        finally:
            await _close_fd(fd)

    await finish(sync(), what=f"syncing {directory}")


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
        while chunk := await file.read_at(read, _CHUNK):
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


async def file_lines(path: Path) -> AsyncGenerator[tuple[int, bytes], None]:
    """The lines of `file_line_batches`, one by one."""
    async with aclosing(file_line_batches(path)) as batches:
        async for batch in batches:
            for place in batch:
                yield place


async def cut_torn_tail(path: Path) -> bytes:
    """Cut a last line without line feed off a file, once a copy of it is safe in `<file>.torn`.

    Returns the bytes that were cut. Only the end of the file is read.
    """
    fd = await _open(path, os.O_RDWR)
    try:
        end = (await _stat_fd(fd)).st_size
        start, tail = end, b""
        while start and b"\n" not in tail:
            step = min(_CHUNK, start)
            start -= step
            tail = await _read_at(fd, step, start) + tail
        torn = tail.rpartition(b"\n")[2]
        if torn:
            async with replace_file(path.with_suffix(".torn")) as write:
                await write(torn)
            await finish(_truncate_durably(fd, end - len(torn)), what=f"cutting {path}")
        return torn
    finally:
        await finish(_close_fd(fd), what=f"closing {path}")


async def _truncate_durably(fd: int, length: int) -> None:
    await _truncate_fd(fd, length)
    await _fsync(fd)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Give file errors the name of the file: those of a descriptor have none."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def _open_at_once(arrival: Arrival[int], path: Path, flags: int) -> None:
    arrival.come(os.open(path, flags, 0o644))


_open_for = aiofiles.os.wrap(_open_at_once)


async def _open(path: Path, flags: int) -> int:
    """A descriptor; one that comes after a cancellation is closed again, however late."""
    arrival = Arrival(os.close)
    try:
        await finish(_open_for(arrival, path, flags), what=f"opening {path}")
    except asyncio.CancelledError:
        arrival.give_up()
        raise
    return arrival.take()


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
        self._target = Path(await _real_path(self._path))
        self.temporary = self._target.with_name(f".{self._target.name}.{secrets.token_hex(8)}.tmp")
        try:
            self._fd = await _open(self.temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except asyncio.CancelledError:
            await finish(self._discard(), what="removing a temporary file")
            raise
        return self

    async def __call__(self, data: bytes) -> None:
        """Write all of `data`."""
        with _named(self._path):
            await finish(write_all(self._fd, data), what=f"writing {self._path}")

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        leave = self._put_in_place() if kind is None else self._discard()
        await finish(leave, what=f"replacing {self._path}")

    async def _put_in_place(self) -> None:
        try:
            with _named(self._path):
                await _fsync(self._fd)
            if await path_exists(self._target):
                await _copy_mode(self._target, self.temporary)
            await aiofiles.os.replace(self.temporary, self._target)
        except BaseException:
            await self._discard()
            raise
        fd, self._fd = self._fd, -1
        await _close_fd(fd)
        await sync_directory(self._target.parent)

    async def _discard(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            await _close_fd(fd)
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


async def write_all(fd: int, data: bytes) -> None:
    """Write all of `data` to a descriptor, however many calls it takes."""
    view = memoryview(data)
    while view:
        view = view[await _write_fd(fd, view) :]


class AppendFile:
    """A file that is only appended to, by one writer."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd

    @classmethod
    async def create(cls, path: Path) -> AppendFile:
        """A new file; raises `FileExistsError` rather than touching an existing one."""
        return cls(path, await _open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND))

    async def append(self, data: bytes) -> None:
        """Append all of `data`; it is on the disk when this returns."""
        await finish(self._append(data), what=f"writing {self.path}")

    async def _append(self, data: bytes) -> None:
        with _named(self.path):
            await write_all(self._fd, data)
            await _fsync(self._fd)

    async def close(self) -> None:
        """Close it. Idempotent."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            await finish(_close_fd(fd), what=f"closing {self.path}")


class ReadFile:
    """A file that is read at given places."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    async def open(cls, path: Path) -> ReadFile:
        """Open an existing file."""
        return cls(await _open(path, os.O_RDONLY))

    async def read_at(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`, fewer only at the file's end."""
        return await finish(_read_at(self._fd, length, offset), what="reading a shard")

    async def close(self) -> None:
        """Close it."""
        await finish(_close_fd(self._fd), what="closing a shard")


class FileLock:
    """A lock that dies with its process. The file holds who has it, for the others' error message."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    async def acquire(self) -> str | None:
        """Take the lock without waiting: None, or the text of whoever holds it."""
        fd = await _open(self._path, os.O_RDWR | os.O_CREAT)
        try:
            owner = await finish(self._take(fd), what=f"locking {self._path}")
        except BaseException:
            await finish(_close_fd(fd), what=f"closing {self._path}")
            raise
        if owner is not None:
            await finish(_close_fd(fd), what=f"closing {self._path}")
            return owner
        self._fd = fd
        return None

    async def _take(self, fd: int) -> str | None:
        try:
            await _flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner: bytes = await _read_fd(fd, 200)
            return owner.decode(errors="replace").strip() or "unknown process"
        with suppress(OSError):  # on a full disk the lock holds all the same; only its owner has no name
            await _truncate_fd(fd, 0)
            await write_all(fd, f"process {os.getpid()}\n".encode())
        return None

    async def release(self) -> None:
        """Give the lock back. Idempotent."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            await finish(_close_fd(fd), what=f"closing {self._path}")
