"""The one module of this wheel that asks the system: chosen functions of `os`, awaitable through aiofiles.

A call that is cancelled leaves no descriptor open: one that is still being opened is closed when it arrives.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import PurePath
from typing import Self

from aiofiles.os import wrap

from hermes_tools.errors import PathRefusedError
from hermes_tools.shielding import finish_despite_cancel

__all__ = [
    "OpenFile",
    "create_file",
    "exit_status",
    "kind_of",
    "list_names",
    "make_directories",
    "make_private_directory",
    "open_regular",
    "read_start",
    "real_path",
    "remove_directory",
    "replace_file",
    "status_of",
    "unlink",
]

_open = wrap(os.open)
_close = wrap(os.close)
_read = wrap(os.read)
_write = wrap(os.write)
_fstat = wrap(os.fstat)
_lstat = wrap(os.lstat)
_fsync = wrap(os.fsync)
_fchmod = wrap(os.fchmod)
_replace = wrap(os.replace)
_unlink = wrap(os.unlink)
_mkdir = wrap(os.mkdir)
_rmdir = wrap(os.rmdir)
_listdir = wrap(os.listdir)
_realpath = wrap(os.path.realpath)
if sys.platform != "darwin":
    _waitid = wrap(os.waitid)

CHUNK_BYTES = 1 << 16
CLEANUP_LIMIT_S = 5.0
_closing: set[asyncio.Future[None]] = set()
_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class OpenFile:
    """A descriptor of a regular file. Close it, or use it in `async with`."""

    def __init__(self, descriptor: int, path: str, status: os.stat_result) -> None:
        self._descriptor = descriptor
        self.path = path
        self.status = status

    async def read(self, size: int = CHUNK_BYTES) -> bytes:
        """At most `size` bytes; empty at the end."""
        data: bytes = await _read(self._descriptor, size)
        return data

    async def chunks(self) -> AsyncIterator[bytes]:
        """The rest of the file in pieces."""
        while chunk := await self.read():
            yield chunk

    async def write(self, data: bytes) -> None:
        """Write all of `data`. Raises `OSError` (disk full, ...)."""
        view = memoryview(data)
        while view:
            view = view[await _write(self._descriptor, view) :]

    async def sync(self) -> None:
        """Return once what was written is on the disk."""
        await _fsync(self._descriptor)

    async def set_mode(self, mode: int) -> None:
        """Set the permission bits."""
        await _fchmod(self._descriptor, mode)

    async def close(self) -> None:
        """Close the descriptor; again does nothing."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            await _close_for_sure(descriptor)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def kind_of(mode: int) -> str:
    """What a file of this `st_mode` is, in words."""
    return next((name for test, name in _KINDS if test(mode)), "a regular file")


async def status_of(path: str) -> os.stat_result | None:
    """The status of `path` itself, links not followed, or None when there is nothing."""
    try:
        status: os.stat_result = await _lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status


async def real_path(path: str) -> str:
    """`path` with all links resolved, also those that lead to nothing yet."""
    resolved: str = await _realpath(path)
    return resolved


async def open_regular(path: str) -> OpenFile:
    """Open a regular file for reading; its last component may not be a link.

    Raises `PathRefusedError` for anything but a regular file (without ever waiting for a pipe's other end),
    `OSError` for what the system refuses.
    """
    status = await status_of(path)
    if status is not None and not stat.S_ISREG(status.st_mode):
        raise PathRefusedError(f"{path} is {kind_of(status.st_mode)}, not a regular file")
    return await _open_checked(path, os.O_RDONLY | os.O_NONBLOCK)


async def read_start(path: str) -> bytes:
    """The first bytes of a small file of the system (`/proc/...`); empty when it can not be read."""
    try:
        async with await _open_checked(path, os.O_RDONLY | os.O_NONBLOCK) as file:
            return await file.read()
    except OSError:
        return b""


async def exit_status(pid: int) -> os.waitid_result | None:
    """How a child of ours ended, or None while it runs (or always, where the system does not tell).

    It may still be waited for afterwards.

    Raises `ChildProcessError` when someone else has waited for it.
    """
    if sys.platform == "darwin":
        return None
    status: os.waitid_result | None = await _waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return status


async def create_file(path: str, mode: int = 0o600) -> OpenFile:
    """Create `path`, which may not exist yet in any form, for writing. Raises `OSError`."""
    return await _open_checked(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)


async def _open_checked(path: str, flags: int, mode: int = 0o600) -> OpenFile:
    descriptor = await _open_descriptor(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    opened = OpenFile(descriptor, path, os.stat_result(range(10)))
    try:
        opened.status = await _fstat(descriptor)
        if not stat.S_ISREG(opened.status.st_mode):
            raise PathRefusedError(f"{path} is {kind_of(opened.status.st_mode)}")  # noqa: TRY301
    except BaseException:
        await opened.close()
        raise
    return opened


async def _open_descriptor(path: str, flags: int, mode: int) -> int:
    opening: asyncio.Future[int] = asyncio.ensure_future(_open(path, flags, mode))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close_late)
        raise


def _close_late(opening: asyncio.Future[int]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        os.close(opening.result())


async def _close_for_sure(descriptor: int) -> None:
    closing: asyncio.Future[None] = asyncio.ensure_future(_close(descriptor))
    _closing.add(closing)
    closing.add_done_callback(_closing.discard)
    await asyncio.shield(closing)


async def replace_file(path: str, data: bytes, mode: int | None) -> None:
    """Put `data` in place of `path` in one step: readers see the old content or the new, never a part.

    `mode` are the permission bits to keep, None those of a new file. On failure or cancellation the old
    file stands and nothing is left beside it. Raises `OSError`.
    """
    pure = PurePath(path)
    temporary = str(pure.with_name(f".{pure.name[:80]}.{secrets.token_hex(6)}.tmp"))
    try:
        async with await create_file(temporary, 0o666) as file:
            if mode is not None:
                await file.set_mode(stat.S_IMODE(mode))
            await file.write(data)
            await file.sync()
        await _replace(temporary, path)
    except BaseException:
        await finish_despite_cancel(lambda: unlink(temporary), CLEANUP_LIMIT_S)
        raise
    await _sync_directory(str(pure.parent))


async def _sync_directory(path: str) -> None:
    descriptor = await _open_descriptor(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, 0)
    try:
        with contextlib.suppress(OSError):  # some file systems can not sync a directory
            await _fsync(descriptor)
    finally:
        await _close_for_sure(descriptor)


async def unlink(path: str) -> None:
    """Remove a file; one that is not there is fine."""
    with contextlib.suppress(FileNotFoundError):
        await _unlink(path)


async def make_private_directory(path: str) -> None:
    """Make a directory that only this user can enter. Raises `FileExistsError` for one that exists."""
    await _mkdir(path, 0o700)


async def make_directories(path: str) -> None:
    """Make a directory and those above it that do not exist. Raises `OSError`."""
    missing = []
    current = PurePath(path)
    while await status_of(str(current)) is None and current != current.parent:
        missing.append(str(current))
        current = current.parent
    for directory in reversed(missing):
        with contextlib.suppress(FileExistsError):
            await _mkdir(directory, 0o777)


async def list_names(path: str) -> list[str]:
    """The names in a directory, sorted. Raises `OSError`."""
    names: list[str] = await _listdir(path)
    return sorted(names)


async def remove_directory(path: str) -> None:
    """Remove a directory of ours and all in it; links in it are removed, not followed."""
    try:
        names = await list_names(path)
    except FileNotFoundError:
        return
    for name in names:
        inner = str(PurePath(path) / name)
        status = await status_of(inner)
        if status is not None and stat.S_ISDIR(status.st_mode):
            await remove_directory(inner)
        else:
            await unlink(inner)
    with contextlib.suppress(FileNotFoundError):
        await _rmdir(path)
