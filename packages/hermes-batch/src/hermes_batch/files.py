"""The only module of this wheel that touches files. Everything goes through aiofiles.

`aiofiles.os.wrap` is used for the short list of calls that aiofiles does not offer.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Self

import aiofiles
import aiofiles.os

__all__ = [
    "AppendFile",
    "FileLock",
    "ReadFile",
    "file_lines",
    "file_size",
    "list_names",
    "make_directory",
    "make_temporary_directory",
    "path_exists",
    "read_bytes",
    "remove_tree",
    "replace_file",
    "sync_directory",
    "truncate_file",
]

_CHUNK = 1 << 20

_fsync = aiofiles.os.wrap(os.fsync)
_open_fd = aiofiles.os.wrap(os.open)
_close_fd = aiofiles.os.wrap(os.close)
_read_fd = aiofiles.os.wrap(os.read)
_read_at = aiofiles.os.wrap(os.pread)
_write_fd = aiofiles.os.wrap(os.write)
_truncate_fd = aiofiles.os.wrap(os.ftruncate)
_truncate_path = aiofiles.os.wrap(os.truncate)
_flock = aiofiles.os.wrap(fcntl.flock)
_make_temporary = aiofiles.os.wrap(tempfile.mkdtemp)
_remove_tree = aiofiles.os.wrap(shutil.rmtree)
_copy_mode = aiofiles.os.wrap(shutil.copymode)
_real_path = aiofiles.os.wrap(os.path.realpath)


async def path_exists(path: Path) -> bool:
    """Whether there is anything at `path`."""
    return await aiofiles.os.path.exists(path)


async def file_size(path: Path) -> int:
    """The size of a file in bytes."""
    return (await aiofiles.os.stat(path)).st_size


async def list_names(directory: Path) -> list[str]:
    """The sorted names in `directory`, none when it does not exist."""
    try:
        return sorted(await aiofiles.os.listdir(directory))
    except FileNotFoundError:
        return []


async def make_directory(path: Path) -> None:
    """Make `path` and its parents, if missing."""
    await aiofiles.os.makedirs(path, exist_ok=True)


async def make_temporary_directory(prefix: str) -> Path:
    """A new empty directory that only this user can read."""
    return Path(await _make_temporary(prefix=prefix))


async def remove_tree(path: Path) -> None:
    """Remove `path` and all in it; what is gone already is no error."""
    await _remove_tree(path, ignore_errors=True)


async def read_bytes(path: Path) -> bytes:
    """The whole of a small file."""
    async with aiofiles.open(path, "rb") as file:
        return await file.read()


async def truncate_file(path: Path, length: int) -> None:
    """Cut a file to `length` bytes and make that durable."""
    await _truncate_path(path, length)
    async with aiofiles.open(path, "rb") as file:
        await _fsync(file.fileno())


async def sync_directory(directory: Path) -> None:
    """Make new names in `directory` durable."""
    fd = await _open_fd(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        await _fsync(fd)
    finally:
        await _close_fd(fd)


async def file_lines(path: Path, start: int = 0) -> AsyncGenerator[tuple[int, bytes], None]:
    """The lines of a file from byte `start`, each with its byte offset and without its line feed.

    Lines end at the byte `\\n` and nowhere else: JSON text may hold U+2028 and its kin. A last line without
    a line feed is yielded too; whether it is whole is for the caller to judge. Memory: one line and a chunk.
    """
    async with aiofiles.open(path, "rb") as file:
        await file.seek(start)
        offset = start
        rest = b""
        while chunk := await file.read(_CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield offset, line
                offset += len(line) + 1
        if rest:
            yield offset, rest


class replace_file:  # noqa: N801 - reads as a verb where it is used
    """Write a file whole or not at all: `async with replace_file(path) as write: await write(data)`.

    The data goes to a temporary file beside the target, is made durable and then renamed over it. A link is
    followed, and the mode of an existing target is kept. On an exception the target stays as it was.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._temporary = path
        self._target = path
        self._fd = -1

    async def __aenter__(self) -> Self:
        self._target = Path(await _real_path(self._path))
        self._temporary = self._target.with_name(f".{self._target.name}.{os.getpid()}-{id(self):x}.tmp")
        self._fd = await _open_fd(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        return self

    async def __call__(self, data: bytes) -> None:
        """Write all of `data`."""
        await write_all(self._fd, data)

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                await _fsync(self._fd)
        finally:
            await _close_fd(self._fd)
        if kind is not None:
            await aiofiles.os.unlink(self._temporary)
            return
        if await path_exists(self._target):
            await _copy_mode(self._target, self._temporary)
        await aiofiles.os.replace(self._temporary, self._target)
        await sync_directory(self._target.parent)


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
        return cls(path, await _open_fd(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644))

    async def append(self, data: bytes, *, durable: bool) -> None:
        """Append all of `data`; with `durable`, return only once it is on the disk."""
        await write_all(self._fd, data)
        if durable:
            await _fsync(self._fd)

    async def close(self) -> None:
        """Close it. Idempotent."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            await _close_fd(fd)


class ReadFile:
    """A file that is read at given places."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    async def open(cls, path: Path) -> ReadFile:
        """Open an existing file."""
        return cls(await _open_fd(path, os.O_RDONLY))

    async def read_at(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`, fewer only at the file's end."""
        return await _read_at(self._fd, length, offset)

    async def close(self) -> None:
        """Close it."""
        await _close_fd(self._fd)


class FileLock:
    """A lock that dies with its process. The file holds who has it, for the others' error message."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    async def acquire(self) -> str | None:
        """Take the lock without waiting: None, or the text of whoever holds it."""
        fd = await _open_fd(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            await _flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = (await _read_fd(fd, 200)).decode(errors="replace").strip()
            await _close_fd(fd)
            return owner or "unknown process"
        except BaseException:
            await _close_fd(fd)
            raise
        await _truncate_fd(fd, 0)
        await write_all(fd, f"process {os.getpid()}\n".encode())
        self._fd = fd
        return None

    async def release(self) -> None:
        """Give the lock back. Idempotent."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            await _close_fd(fd)
