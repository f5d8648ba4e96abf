"""The one module of this wheel that asks the file system: chosen calls, awaitable through aiofiles.

A place is a path, whose directory is trusted, or a `Place`: a trusted directory and the way from there, which
is walked without following a link (`hermes_tools.standalone.anchored`). A call that is cancelled leaves no
descriptor open, and none is closed under a call that still uses it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import secrets
import shutil
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, ParamSpec, Self, TypeVar

from aiofiles.os import wrap

from hermes_messages.arrivals import Arrival
from hermes_tools.errors import PathRefusedError
from hermes_tools.shielding import finish_despite_cancel
from hermes_tools.standalone import anchored
from hermes_tools.standalone.anchored import Place, kind_of

__all__ = [
    "NEW_FILE_MODE",
    "OpenDirectory",
    "OpenFile",
    "Place",
    "create_file",
    "exit_status",
    "group_lives",
    "kind_of",
    "list_names",
    "locked",
    "make_directories",
    "make_private_directory",
    "open_directory",
    "open_regular",
    "read_small",
    "real_path",
    "remove_directory",
    "remove_file",
    "replace_file",
    "sizes_of",
    "staged",
    "status_of",
    "unlink",
]

P = ParamSpec("P")
T = TypeVar("T")

_close = wrap(os.close)
_read = wrap(os.read)
_write = wrap(os.write)
_fsync = wrap(os.fsync)
_fchmod = wrap(os.fchmod)
_fchown = wrap(os.fchown)
_flock = wrap(fcntl.flock)
_replace = wrap(os.replace)
_unlink = wrap(os.unlink)
_mkdir = wrap(os.mkdir)
_make_directories = wrap(os.makedirs)
_lstat = wrap(os.lstat)
_remove_tree = wrap(shutil.rmtree)
_realpath = wrap(os.path.realpath)
_status_of = wrap(anchored.status_of)
_list_names = wrap(anchored.list_names)
_sizes_of = wrap(anchored.sizes_of)
_read_all = wrap(anchored.read_all)
_group_lives = wrap(anchored.group_lives)
if sys.platform != "darwin":
    _waitid = wrap(os.waitid)

CHUNK_BYTES = 1 << 16
CLEANUP_LIMIT_S = 5.0
NEW_FILE_MODE = 0o666
_LOCK_PAUSE_S = 0.02
_closing: set[asyncio.Future[None]] = set()


class _Handle:
    """A descriptor, and the calls that use it just now: it is closed after the last of them."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._running: set[asyncio.Future[Any]] = set()

    async def _call(self, function: Callable[P, Awaitable[T]], *args: P.args, **keywords: P.kwargs) -> T:
        running: asyncio.Future[T] = asyncio.ensure_future(function(*args, **keywords))
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return await asyncio.shield(running)

    async def close(self) -> None:
        """Close the descriptor; again does nothing."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            closing: asyncio.Future[None] = asyncio.ensure_future(
                _finish_and_close(self._running, descriptor)
            )
            _closing.add(closing)
            closing.add_done_callback(_closing.discard)
            await asyncio.shield(closing)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def _finish_and_close(running: set[asyncio.Future[Any]], descriptor: int) -> None:
    if running:
        await asyncio.wait(set(running))
    await _close(descriptor)


class OpenFile(_Handle):
    """A descriptor of a regular file. Close it, or use it in `async with`."""

    def __init__(self, descriptor: int, path: str, status: os.stat_result) -> None:
        super().__init__(descriptor)
        self.path = path
        self.status = status

    async def read(self, size: int = CHUNK_BYTES) -> bytes:
        """At most `size` bytes; empty at the end."""
        data: bytes = await self._call(_read, self._descriptor, size)
        return data

    async def chunks(self) -> AsyncIterator[bytes]:
        """The rest of the file in pieces."""
        while chunk := await self.read():
            yield chunk

    async def write(self, data: bytes) -> None:
        """Write all of `data`. Raises `OSError` (disk full, ...)."""
        view = memoryview(data)
        while view:
            view = view[await self._call(_write, self._descriptor, view) :]

    async def sync(self) -> None:
        """Return once what was written is on the disk."""
        await self._call(_fsync, self._descriptor)

    async def take_after(self, status: os.stat_result) -> None:
        """Set owner and group, as far as we may, and the permission bits."""
        if (status.st_uid, status.st_gid) != (self.status.st_uid, self.status.st_gid):
            with contextlib.suppress(PermissionError):
                await self._call(_fchown, self._descriptor, status.st_uid, status.st_gid)
        await self._call(_fchmod, self._descriptor, stat.S_IMODE(status.st_mode))

    async def try_lock(self) -> bool:
        """Take the lock of the file unless someone else holds it; closing the file gives it back."""
        try:
            await self._call(_flock, self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class OpenDirectory(_Handle):
    """A descriptor of a directory, in which files are made and replaced by name."""

    def __init__(self, descriptor: int, path: str) -> None:
        super().__init__(descriptor)
        self.path = path

    async def create(self, name: str, mode: int) -> OpenFile:
        """Create a file that may not exist yet in any form. Raises `OSError`."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        opening = partial(anchored.open_file_in, self._descriptor, name, flags, mode)
        descriptor, status = await _arriving(opening, self._call)
        return OpenFile(descriptor, f"{self.path}/{name}", status)

    async def replace(self, old: str, new: str) -> None:
        """Give the file `old` the name `new`, in one step. Raises `OSError`."""
        here = self._descriptor
        await self._call(_replace, old, new, src_dir_fd=here, dst_dir_fd=here)

    async def remove(self, name: str) -> None:
        """Remove a file once no call is under way that might still make it; one that is not there is fine."""
        if self._running:
            await asyncio.wait(set(self._running))
        with contextlib.suppress(FileNotFoundError):
            await self._call(_unlink, name, dir_fd=self._descriptor)

    async def sync(self) -> None:
        """Return once the names are on the disk, where the file system can tell."""
        with contextlib.suppress(OSError):
            await self._call(_fsync, self._descriptor)


_Opened = tuple[int, os.stat_result]


async def _arriving(
    opening: Callable[[], _Opened],
    run: Callable[[Callable[[], Awaitable[None]]], Awaitable[None]] = lambda work: work(),
) -> _Opened:
    """What `opening` opens in a thread; when we are cancelled meanwhile, it is closed when it is there."""
    arrival: Arrival[_Opened] = Arrival(lambda opened: os.close(opened[0]))
    try:
        with _told_apart():
            await run(wrap(lambda: arrival.come(opening())))
    except asyncio.CancelledError:
        arrival.give_up()
        raise
    return arrival.take()


@contextlib.contextmanager
def _told_apart() -> Iterator[None]:
    try:
        yield
    except anchored.UnfitError as error:
        raise PathRefusedError(error.strerror or str(error)) from None


def _place(path: str | Place) -> Place:
    return path if isinstance(path, Place) else Place.of(path)


async def status_of(path: str | Place) -> os.stat_result | None:
    """The status of what is there, a link at the end not followed, or None when there is nothing.

    Raises `PathRefusedError` for a place with a link on the way.
    """
    try:
        with _told_apart():
            asking = _status_of(path) if isinstance(path, Place) else _lstat(path)
            status: os.stat_result | None = await asking
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status


async def real_path(path: str) -> str:
    """`path` with all links resolved, also those that lead to nothing yet."""
    return str(await _realpath(path))


async def open_regular(path: str | Place) -> OpenFile:
    """Open a regular file for reading.

    Raises `PathRefusedError` for anything but a regular file (without ever waiting for a pipe's other end)
    and for a link on the way, `OSError` for what the system refuses.
    """
    return await _open_file(_place(path), os.O_RDONLY)


async def _open_file(place: Place, flags: int, mode: int = 0o600) -> OpenFile:
    descriptor, status = await _arriving(partial(anchored.open_file, place, flags, mode))
    return OpenFile(descriptor, place.path, status)


async def read_small(path: str | Place, limit: int) -> bytes:
    """The content of a regular file, at most `limit` bytes of it. Raises as `open_regular`."""
    with _told_apart():
        data: bytes = await _read_all(_place(path), limit)
    return data


async def create_file(path: str | Place, mode: int = 0o600) -> OpenFile:
    """Create a file, which may not exist yet in any form, for writing. Raises `OSError`."""
    return await _open_file(_place(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)


async def open_directory(place: Place, *, create: bool = False) -> OpenDirectory:
    """Open a directory; `create` makes it and those above it. Raises `PathRefusedError`, `OSError`."""

    def opening() -> _Opened:
        return anchored.open_directory(place.root, place.parts, create=create), os.stat_result(range(10))

    return OpenDirectory((await _arriving(opening))[0], place.path)


async def replace_file(
    path: str | Place, data: bytes, like: os.stat_result | int, *, create_parents: bool = False
) -> None:
    """Put `data` in place of a file in one step: readers see the old content or the new, never a part.

    `like`: the status of the old file, whose owner and permission bits are kept as far as we may, or the bits
    of a new one. On failure or cancellation the old file stands and nothing is left beside it. A link is
    replaced, not followed. Raises `OSError`.
    """
    async with staged(path, data, like, create_parents=create_parents) as put_in_place:
        await put_in_place()


@contextlib.asynccontextmanager
async def staged(
    path: str | Place, data: bytes, like: os.stat_result | int, *, create_parents: bool = False
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """`replace_file` in two steps: entering puts `data` on the disk, awaiting what it yields in its place."""
    place = _place(path)
    beginning = os.fsencode(place.name)[:80].decode("utf-8", errors="ignore")  # a name has at most 255 bytes
    temporary = f".{beginning}.{secrets.token_hex(6)}.tmp"
    done = False
    async with await open_directory(place.parent, create=create_parents) as directory:

        async def put_in_place() -> None:
            nonlocal done
            await directory.replace(temporary, place.name)
            done = True
            await directory.sync()

        try:
            async with await directory.create(temporary, like if isinstance(like, int) else 0o600) as file:
                if not isinstance(like, int):
                    await file.take_after(like)
                await file.write(data)
                await file.sync()
            yield put_in_place
        finally:
            if not done:
                await finish_despite_cancel(lambda: directory.remove(temporary), CLEANUP_LIMIT_S)


async def remove_file(place: Place) -> None:
    """Remove a file, a link itself rather than what it leads to. Raises `PathRefusedError`, `OSError`."""
    async with await open_directory(place.parent) as directory:
        await directory.remove(place.name)
        await directory.sync()


@contextlib.asynccontextmanager
async def locked(place: Place, limit_s: float) -> AsyncIterator[None]:
    """Hold the lock file `place`, which is made if need be, against other processes and other tasks.

    Raises `TimeoutError` when someone else holds it for `limit_s` seconds, `PathRefusedError`, `OSError`.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limit_s
    async with await _open_file(place, os.O_RDWR | os.O_CREAT) as file:
        while not await file.try_lock():
            if loop.time() >= deadline:
                raise TimeoutError(f"{place.path} is held by another process")
            await asyncio.sleep(_LOCK_PAUSE_S)
        yield


async def exit_status(pid: int) -> os.waitid_result | None:
    """How a child of ours ended, or None while it runs (or always, where the system does not tell).

    It may still be waited for afterwards. Raises `ChildProcessError` when someone else has waited for it.
    """
    if sys.platform == "darwin":
        return None
    status: os.waitid_result | None = await _waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return status


async def group_lives(group: int) -> bool:
    """Whether a process of the group is alive, zombies left out; True where the system does not tell."""
    return bool(await _group_lives(group))


async def sizes_of(root: str, paths: Sequence[str]) -> list[int]:
    """The sizes in bytes of the regular files among `paths` below `root`; 0 for anything else."""
    return list(await _sizes_of(root, paths))


async def unlink(path: str) -> None:
    """Remove a file; one that is not there is fine."""
    with contextlib.suppress(FileNotFoundError):
        await _unlink(path)


async def make_private_directory(path: str) -> None:
    """Make a directory that only this user can enter. Raises `FileExistsError` for one that exists."""
    await _mkdir(path, 0o700)


async def make_directories(path: str) -> None:
    """Make a directory that is trusted, and those above it. Raises `OSError`."""
    await _make_directories(path, mode=0o700, exist_ok=True)


async def list_names(place: Place) -> list[str]:
    """The names in a directory, sorted. Raises `PathRefusedError`, `OSError`."""
    with _told_apart():
        names: list[str] = await _list_names(place)
    return names


async def remove_directory(path: str) -> None:
    """Remove a directory of ours and all in it; links in it are removed, not followed, whenever planted."""
    with contextlib.suppress(FileNotFoundError):
        await _remove_tree(path)
