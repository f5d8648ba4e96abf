"""The one module of this wheel that handles files beside the database, all through aiofiles."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal, Protocol

import aiofiles
from aiofiles.os import wrap

from hermes_messages import ConfigurationError, StoreError
from hermes_store.errors import StoreFullError
from hermes_store.waiting import finish, settle

__all__ = ["Writable", "new_file", "publish", "read_lines", "refuse_existing", "remove", "set_aside"]

_log = logging.getLogger(__name__)

_replace = wrap(os.replace)
_link = wrap(os.link)
_unlink = wrap(os.unlink)
_fsync = wrap(os.fsync)
_exists = wrap(os.path.lexists)
_is_file = wrap(os.path.isfile)

PARTIAL = ".partial"
OPENING_LIMIT_S = 5.0


class Writable(Protocol):
    """A file that is being written."""

    async def write(self, data: bytes, /) -> object:
        """Add `data`."""
        ...


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
            yield file
            await file.flush()
            await _fsync(file.fileno())
        finally:
            await finish(file.close())
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
        try:
            async for line in file:
                yield line
        finally:
            await finish(file.close())
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; the rest of it was not read") from error


async def _opened(path: str, mode: Literal["rb", "wb"]) -> Any:
    """The file. Where the caller is cancelled meanwhile, it is closed again when it arrives."""

    async def open_it() -> Any:
        return await aiofiles.open(path, mode)

    opening = asyncio.ensure_future(open_it())
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        await settle(opening, OPENING_LIMIT_S)
        if opening.done() and not opening.cancelled() and opening.exception() is None:
            await finish(opening.result().close())
        raise


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
        _log.warning("%s could not be removed: %s", path, error)


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
