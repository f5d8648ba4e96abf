"""The one module of this wheel that handles files beside the database, all through aiofiles."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Literal

from aiofiles.os import wrap

from hermes_messages import ConfigurationError, StoreError
from hermes_messages.arrivals import Arrival
from hermes_store.errors import StoreFullError
from hermes_store.waiting import carry_out, finish

__all__ = ["Writable", "new_file", "publish", "read_lines", "refuse_existing", "remove", "set_aside"]

logger: logging.Logger = logging.getLogger(__name__)

_replace = wrap(os.replace)
_link = wrap(os.link)
_unlink = wrap(os.unlink)
_fsync = wrap(os.fsync)
_exists = wrap(os.path.lexists)
_is_file = wrap(os.path.isfile)

PARTIAL = ".partial"
OPENING_LIMIT_S = 5.0
_CHUNK_BYTES = 1 << 20


class Writable:
    """A file that is being written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._write = wrap(file.write)

    async def write(self, data: bytes) -> None:
        """Add `data`. Raises `OSError`."""
        await self._write(data)


@asynccontextmanager
async def new_file(path: str) -> AsyncIterator[Writable]:
    """A file that takes the name `path` at the end of the block, whole and on disk, or not at all.

    Raises `StoreError` when it can not be written, `ConfigurationError` where that is no file.
    """
    if await _exists(path) and not await _is_file(path):
        raise ConfigurationError(f"{path} is no ordinary file; name another. Nothing was written")
    partial = path + PARTIAL
    try:
        file = await _opened(partial, "wb")
        try:
            yield Writable(file)
            await wrap(file.flush)()
            await _fsync(file.fileno())
        finally:
            await finish(wrap(file.close)())
        await _replace(partial, path)
    except OSError as error:
        await remove(partial)
        raise _unwritable(path, error) from error
    except BaseException:
        await finish(remove(partial))
        raise


async def read_lines(path: str) -> AsyncGenerator[bytes, None]:
    """The lines of the file. Raises `StoreError` when it can not be read."""
    try:
        file = await _opened(path, "rb")
        read = wrap(file.readlines)
        try:
            while lines := await read(_CHUNK_BYTES):
                for line in lines:
                    yield line
        finally:
            await finish(wrap(file.close)())
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; the rest of it was not read") from error


def _open_at_once(arrival: Arrival[IO[bytes]], path: str, mode: Literal["rb", "wb"]) -> None:
    arrival.come(Path(path).open(mode))  # noqa: SIM115 - who takes it closes it


_open_for = wrap(_open_at_once)


async def _opened(path: str, mode: Literal["rb", "wb"]) -> IO[bytes]:
    """The file. Where the caller is cancelled meanwhile, it is closed again when it arrives."""
    arrival: Arrival[IO[bytes]] = Arrival(lambda file: file.close())
    try:
        await carry_out(_open_for(arrival, path, mode), OPENING_LIMIT_S)
    except asyncio.CancelledError:
        arrival.give_up()
        raise
    return arrival.take()


async def refuse_existing(path: str) -> None:
    """Raises `ConfigurationError` when there is something of that name."""
    if await _exists(path):
        raise ConfigurationError(f"{path} exists; name a new file. Nothing was written")


async def publish(partial: str, path: str) -> None:
    """Give the finished file `partial` the name `path`. Raises `ConfigurationError` when that is taken."""
    try:
        await _link(partial, path)
    except FileExistsError:
        raise ConfigurationError(f"{path} exists; name a new file. Nothing was written") from None
    except OSError:  # a file system without hard links
        await refuse_existing(path)
        await _replace(partial, path)
        return
    await _unlink(partial)


async def remove(path: str) -> None:
    """Remove the file if it is there."""
    try:
        await _unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        logger.warning("%s could not be removed: %s", path, error)


async def set_aside(path: str) -> str:
    """Rename a damaged database and its journals, so that a new one can begin; the new name.

    Nothing is deleted. Raises `StoreError` when there is no such file, or it can not be renamed.
    """
    number = 1
    while await _exists(f"{path}.damaged-{number}"):
        number += 1
    aside = f"{path}.damaged-{number}"
    try:
        await _replace(path, aside)
        for suffix in ("-wal", "-shm", "-journal"):
            if await _exists(path + suffix):
                await _replace(path + suffix, aside + suffix)
    except OSError as error:
        raise StoreError(f"{path} could not be set aside: {error.strerror}") from error
    return aside


def _unwritable(path: str, error: OSError) -> StoreError:
    kind = StoreFullError if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else StoreError
    return kind(f"{path}: {error.strerror}; the file was not written, the sessions are as they were")
