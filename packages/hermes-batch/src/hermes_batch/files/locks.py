"""Locks that die with their process."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from hermes_batch.files import calls
from hermes_batch.supervision import finish

__all__ = ["FileLock"]


class FileLock:
    """A lock that dies with its process. The file holds who has it, for the others' error message."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    async def acquire(self) -> str | None:
        """Take the lock without waiting: None, or the text of whoever holds it."""
        fd = await calls.open_fd(self._path, os.O_RDWR | os.O_CREAT)
        try:
            owner = await finish(self._take(fd), what=f"locking {self._path}")
        except BaseException:
            await finish(calls.close_fd(fd), what=f"closing {self._path}")
            raise
        if owner is not None:
            await finish(calls.close_fd(fd), what=f"closing {self._path}")
            return owner
        self._fd = fd
        return None

    async def _take(self, fd: int) -> str | None:
        try:
            await calls.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner: bytes = await calls.read_fd(fd, 200)
            return owner.decode(errors="replace").strip() or "unknown process"
        with suppress(OSError):  # on a full disk the lock holds all the same; only its owner has no name
            await calls.truncate_fd(fd, 0)
            await calls.write_all(fd, f"process {os.getpid()}\n".encode())
        return None

    async def release(self) -> None:
        """Give the lock back. Idempotent."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            await finish(calls.close_fd(fd), what=f"closing {self._path}")
