"""Directories: what is in them, temporary ones, and names in them that last."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import aiofiles.os

from hermes_batch.files import calls, owned
from hermes_batch.supervision import finish
from hermes_messages.arrivals import Arrival

__all__ = [
    "OwnDirectory",
    "is_directory",
    "list_names",
    "make_directory",
    "make_private_directories",
    "make_temporary_directory",
    "path_exists",
    "remove_leftovers",
    "remove_tree",
    "remove_trees",
    "sync_directory",
]

_TEMPORARY_NAME = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")


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
    arrival: Arrival[str] = Arrival(os.rmdir)
    coming = calls.make_temporary(arrival, prefix, parent)
    made = await calls.arrived(arrival, coming, what="making a directory")
    return Path(made)


async def make_private_directories(paths: Sequence[str]) -> list[str]:
    """Make new directories that only this user can read, as many as can be made, in their order; which were
    made. Raises `OSError` when that is none."""
    made: list[str] = await finish(
        calls.make_private_directories(paths), what=f"making {len(paths)} directories"
    )
    return made


async def remove_tree(path: Path) -> None:
    """Remove `path` and all in it, as far as that can be done; what is gone already is no error."""
    await finish(calls.remove_directories([str(path)]), what=f"removing {path}")


async def remove_trees(paths: Sequence[str]) -> None:
    """`remove_tree` for each of `paths`."""
    await finish(calls.remove_directories(paths), what=f"removing {len(paths)} directories")


async def remove_leftovers(directory: Path) -> None:
    """Remove the temporary files that a killed process left in `directory` while it replaced a file."""
    for name in await list_names(directory):
        if _TEMPORARY_NAME.fullmatch(name):
            await aiofiles.os.unlink(directory / name)


async def sync_directory(directory: Path) -> None:
    """Make new names in `directory` durable."""

    async def sync() -> None:
        fd = await calls.open_fd(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            await calls.fsync(fd)
        finally:
            await calls.close_fd(fd)

    await finish(sync(), what=f"syncing {directory}")


class OwnDirectory:
    """A temporary directory of this process. One that a killed process leaves is removed by the next that
    makes one with the same prefix."""

    def __init__(self, held: owned.Owned) -> None:
        self._held: owned.Owned | None = held
        self.path: Path = held.path

    @classmethod
    async def make(cls, prefix: str) -> OwnDirectory:
        """A new one, once those with this prefix are gone that killed processes of this user left where
        temporary files go. Raises `OSError`."""
        await finish(calls.remove_abandoned(prefix), what="removing what killed processes left")
        arrival: Arrival[owned.Owned] = Arrival(owned.release)
        coming = calls.claim_owned(arrival, prefix)
        return cls(await calls.arrived(arrival, coming, what="making a directory"))

    async def remove(self) -> None:
        """Remove it and all in it, as far as that can be done. Idempotent."""
        held, self._held = self._held, None
        if held is not None:
            await finish(calls.release_owned(held), what=f"removing {self.path}")
