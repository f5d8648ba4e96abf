"""The files that the file tools of a task see: the seam between the tools and a place for files.

`HostFiles` is the working directory on this machine, those of a container are `containers.files`.
What a tool does with a file (pages, edits, limits, what it says) is written once, over these Protocols.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from hermes_tools import files
from hermes_tools.child_work import ChildAnswer, run_standalone
from hermes_tools.errors import PathRefusedError
from hermes_tools.file_status import FileStatus
from hermes_tools.paths import Workspace
from hermes_tools.standalone.search import SearchRequest

__all__ = [
    "FileReader",
    "FoundFile",
    "HostFile",
    "HostFiles",
    "PutInPlace",
    "SearchQuery",
    "TaskFiles",
    "check_regular",
]

PutInPlace = Callable[[], Awaitable[None]]
"""Gives a file that was prepared its name, in one step."""


class FileReader(Protocol):
    """An open file, read from its beginning."""

    async def read(self, size: int = files.CHUNK_BYTES) -> bytes:
        """At most `size` bytes; empty at the end. Raises `OSError`, `ToolFailure`."""
        ...

    async def skip_lines(self, count: int) -> int | None:
        """Go to behind the first `count` lines of the file, or to its end: how many lines were passed.

        None where it is no quicker than reading on: nothing was passed then. It is for bytes in which a
        newline is one byte, and asked once, after the first `read`.
        """
        ...


class FoundFile(Protocol):
    """What a path leads to, links resolved: a file, something else, or nothing yet."""

    @property
    def status(self) -> FileStatus | None:
        """As it was when it was found; None: nothing is there."""
        ...

    @property
    def identity(self) -> tuple[str, str]:
        """The same for two paths that lead to one file: its place and real path."""
        ...

    async def status_now(self) -> FileStatus | None:
        """As it is now. Raises `PathRefusedError`, `OSError`, `ToolFailure`."""
        ...

    def reading(self) -> AbstractAsyncContextManager[FileReader]:
        """The content of a regular file. Raises `PathRefusedError`, `OSError`, `ToolFailure`."""
        ...

    async def read_small(self, limit: int) -> bytes:
        """The content, at most `limit` bytes of it. Raises as `reading`."""
        ...

    def staged(self, data: bytes) -> AbstractAsyncContextManager[PutInPlace]:
        """Entering puts `data` beside the file, what it yields puts it in place: readers see the old content
        or the new. Left without that, or cancelled, the old file stands and nothing is left beside it.

        Directories above it are made; the owner (as far as we may) and the permission bits of a file that was
        found are kept. Raises `OSError`, `ToolFailure`, `FilesLostError`.
        """
        ...

    async def remove(self) -> None:
        """Remove the file; one that is not there is fine. Raises as `staged`."""
        ...

    async def search(self, query: SearchQuery, *, limit_s: float, output_limit: int) -> ChildAnswer:
        """What is found in it, or below it where it is a directory: the lines that
        `hermes_tools.standalone.search` prints, at most `output_limit` bytes of them, as far as it came in
        `limit_s` seconds. Raises `OSError`, `ToolFailure`."""
        ...


class SearchQuery(Struct, frozen=True):
    """What `search_files` looks for; `target` is `content` or `files`."""

    pattern: str
    target: str
    limit: int


class TaskFiles(Protocol):
    """The files of one task."""

    async def find(self, path: str) -> FoundFile:
        """What `path` means for the task. Raises `PathRefusedError` for a path that may not be used,
        `OSError`, `ToolFailure`."""
        ...


class HostFiles:
    """Files of this machine, inside a workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def find(self, path: str) -> HostFile:
        """See `TaskFiles`."""
        place = await self._workspace.place(path)
        return HostFile(place, await files.status_of(place), self._workspace.cwd)


class HostFile:
    """What is at a place of this machine."""

    def __init__(self, place: files.Place, status: os.stat_result | None, cwd: str) -> None:
        self._place = place
        self._cwd = cwd
        self._found = status
        self.status: FileStatus | None = _status(status)
        self.identity: tuple[str, str] = ("", place.path)

    async def status_now(self) -> FileStatus | None:
        """See `FoundFile`."""
        return _status(await files.status_of(self._place))

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator[FileReader]:
        """See `FoundFile`."""
        async with await files.open_regular(self._place) as file:
            yield _HostReader(file)

    async def read_small(self, limit: int) -> bytes:
        """See `FoundFile`."""
        return await files.read_small(self._place, limit)

    def staged(self, data: bytes) -> AbstractAsyncContextManager[PutInPlace]:
        """See `FoundFile`."""
        return files.staged(self._place, data, self._found or files.NEW_FILE_MODE, create_parents=True)

    async def remove(self) -> None:
        """See `FoundFile`."""
        await files.remove_file(self._place)

    async def search(self, query: SearchQuery, *, limit_s: float, output_limit: int) -> ChildAnswer:
        """See `FoundFile`."""
        request: SearchRequest = {
            "workspace": await files.real_path(self._cwd),
            "root": self._place.root,
            "parts": list(self._place.parts),
            "pattern": query.pattern,
            "target": query.target,
            "limit": query.limit,
        }
        return await run_standalone(
            "search", json.dumps(request).encode(), limit_s=limit_s, output_limit=output_limit
        )


class _HostReader:
    def __init__(self, file: files.OpenFile) -> None:
        self._file = file

    async def read(self, size: int = files.CHUNK_BYTES) -> bytes:
        return await self._file.read(size)

    async def skip_lines(self, count: int) -> int | None:  # noqa: ARG002 - reading on is as quick
        return None


def check_regular(found: FoundFile, path: str) -> None:
    """Raises `PathRefusedError` where something else than a regular file is there."""
    if found.status is not None and not found.status.is_regular:
        raise PathRefusedError(f"{path} is {found.status.kind}, not a regular file")


def _status(status: os.stat_result | None) -> FileStatus | None:
    if status is None:
        return None
    version = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return FileStatus(status.st_mode, status.st_size, version)


if TYPE_CHECKING:

    def _fits(
        host: HostFiles, file: HostFile, reader: _HostReader
    ) -> tuple[TaskFiles, FoundFile, FileReader]:
        return host, file, reader
