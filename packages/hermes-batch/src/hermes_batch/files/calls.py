"""The calls that touch files: the only module of this wheel that hands any to a thread. aiofiles does it.

`aiofiles.os.wrap` is used for the short list of calls that aiofiles does not offer. Whoever uses them takes
them from this module by its name, so that a test can put something else in their place.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias, TypeVar

import aiofiles.os

from hermes_batch.files import owned
from hermes_batch.supervision import finish
from hermes_messages.arrivals import Arrival

__all__ = [
    "CHUNK",
    "append_durably",
    "arrived",
    "claim_owned",
    "close_fd",
    "copy_mode",
    "flock",
    "fsync",
    "make_private_directories",
    "make_temporary",
    "named",
    "open_fd",
    "read_at",
    "read_fd",
    "real_path",
    "release_owned",
    "remove_abandoned",
    "remove_directories",
    "stat_fd",
    "truncate_fd",
    "write_all",
    "write_fd",
]

T = TypeVar("T")
Call: TypeAlias = Awaitable[T]

CHUNK = 1 << 20
"""Bytes that are read at once."""


def _fsync(fd: int) -> None:
    os.fsync(fd)


def _append_durably(fd: int, data: bytes) -> None:
    """One hand-over to a thread instead of two, each of which takes long while the event loop is busy."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.fsync(fd)


fsync: Callable[[int], Call[None]] = aiofiles.os.wrap(_fsync)
append_durably: Callable[[int, bytes], Call[None]] = aiofiles.os.wrap(_append_durably)
close_fd: Callable[[int], Call[None]] = aiofiles.os.wrap(os.close)
stat_fd: Callable[[int], Call[os.stat_result]] = aiofiles.os.wrap(os.fstat)
read_fd: Callable[[int, int], Call[bytes]] = aiofiles.os.wrap(os.read)
read_at: Callable[[int, int, int], Call[bytes]] = aiofiles.os.wrap(os.pread)
write_fd: Callable[[int, bytes | memoryview], Call[int]] = aiofiles.os.wrap(os.write)
truncate_fd: Callable[[int, int], Call[None]] = aiofiles.os.wrap(os.ftruncate)
flock: Callable[[int, int], Call[None]] = aiofiles.os.wrap(fcntl.flock)


def _make_temporary(arrival: Arrival[str], prefix: str, parent: str | None) -> None:
    arrival.come(tempfile.mkdtemp(prefix=prefix, dir=parent))


make_temporary: Callable[[Arrival[str], str, str | None], Call[None]] = aiofiles.os.wrap(_make_temporary)


def _make_private(paths: Iterable[str]) -> list[str]:
    """Make them, as many as can be made; raises when that is none."""
    made: list[str] = []
    try:
        for path in paths:
            os.mkdir(path, 0o700)  # noqa: PTH102 - as `_remove_directory`
            made.append(path)
    except OSError:
        if not made:
            raise
    return made


make_private_directories: Callable[[Iterable[str]], Call[list[str]]] = aiofiles.os.wrap(_make_private)
copy_mode: Callable[[Path, Path], Call[None]] = aiofiles.os.wrap(shutil.copymode)
claim_owned: Callable[[Arrival[owned.Owned], str], Call[None]] = aiofiles.os.wrap(owned.claim)
release_owned: Callable[[owned.Owned], Call[None]] = aiofiles.os.wrap(owned.release)
remove_abandoned: Callable[[str], Call[None]] = aiofiles.os.wrap(owned.remove_abandoned)
real_path: Callable[..., Call[str]] = aiofiles.os.wrap(os.path.realpath)


def _remove_directory(path: str) -> None:
    """Mostly it is empty, which costs one call instead of a dozen."""
    try:
        os.rmdir(path)  # noqa: PTH106 - what an agent did there may have any name
    except OSError:
        owned.remove_all(Path(path))


def _remove_directories(paths: Iterable[str]) -> None:
    for path in paths:
        _remove_directory(path)


remove_directories: Callable[[Iterable[str]], Call[None]] = aiofiles.os.wrap(_remove_directories)


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Give file errors the name of the file: those of a descriptor have none."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


async def arrived(arrival: Arrival[T], coming: Awaitable[None], *, what: str) -> T:
    """What a call in a thread opens; what comes after a cancellation is closed again, however late."""
    try:
        await finish(coming, what=what)
    except asyncio.CancelledError:
        arrival.give_up()
        raise
    return arrival.take()


def _open_at_once(arrival: Arrival[int], path: Path, flags: int) -> None:
    arrival.come(os.open(path, flags, 0o644))


_open_for = aiofiles.os.wrap(_open_at_once)


async def open_fd(path: Path, flags: int) -> int:
    """A descriptor."""
    arrival = Arrival(os.close)
    return await arrived(arrival, _open_for(arrival, path, flags), what=f"opening {path}")


async def write_all(fd: int, data: bytes) -> None:
    """Write all of `data` to a descriptor, however many calls it takes."""
    view = memoryview(data)
    while view:
        view = view[await write_fd(fd, view) :]
