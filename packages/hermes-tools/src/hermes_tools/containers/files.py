"""The files that a task's container has, its image's and those of the working directory, as its commands see
them. All is done in the container: links lead where they lead there, and rights are those of its user."""

from __future__ import annotations

import asyncio
import contextlib
import os
import posixpath
import secrets
import stat
from collections.abc import AsyncIterator
from pathlib import PurePath
from typing import TYPE_CHECKING

from hermes_tools.child_work import ChildAnswer
from hermes_tools.command_runner import CommandRunner
from hermes_tools.containers.file_scripts import (
    FIND,
    GO,
    LINES,
    READ,
    READY,
    REMOVE,
    STAGE,
    STATUS,
    Finding,
    check_end,
    read_finding,
    read_status,
)
from hermes_tools.containers.search import ContainerSearch, Searched
from hermes_tools.containers.shell import ContainerShell, ScriptProcess
from hermes_tools.errors import FilesLostError, PathRefusedError, ToolFailure
from hermes_tools.file_status import FileStatus
from hermes_tools.files import CHUNK_BYTES
from hermes_tools.paths import Workspace
from hermes_tools.shielding import finish_despite_cancel
from hermes_tools.task_files import (
    FileReader,
    FoundFile,
    HostFiles,
    PutInPlace,
    SearchQuery,
    TaskFiles,
)
from hermes_tools.text_shape import SAMPLE_BYTES

__all__ = ["ContainerFile", "ContainerFiles", "checked_path", "found_in"]

MOST_READ_BYTES = 64 * 1024 * 1024
"""What one call may take out of a container."""
_LONGEST_PATH = 4_096
_FINISH_LIMIT_S = 30.0
_CLEAN_LIMIT_S = 2.0
_MOST_LINES = 10**15


class ContainerFiles:
    """The files of the container in which `runner` runs commands.

    `host_roots` are directories of this machine that stay reachable by their full path: they are the host's
    own choice, and what is in the container under such a path is hidden.
    """

    def __init__(self, runner: CommandRunner, cwd: str, host_roots: tuple[str, ...] = ()) -> None:
        self._shell = ContainerShell(runner, cwd)
        self._cwd = cwd
        self._host_roots = host_roots

    async def find(self, path: str) -> FoundFile:
        """See `TaskFiles`."""
        wanted = checked_path(self._cwd, path)
        if on_host := self._on_host(wanted):
            return await HostFiles(on_host).find(path)
        return await found_in(self._shell, wanted, self._cwd)

    def _on_host(self, wanted: str) -> Workspace | None:
        named = PurePath(posixpath.normpath(wanted))
        if any(named.is_relative_to(root) for root in self._host_roots):
            return Workspace(self._host_roots[0], self._host_roots[1:])
        return None


def checked_path(cwd: str, path: str) -> str:
    """`path` as an absolute one, or one of the container's home. Raises `PathRefusedError`."""
    if not path or path.isspace():
        raise PathRefusedError("the path is empty")
    if "\0" in path:
        raise PathRefusedError(f"the path {path!r} holds a NUL character")
    wanted = path if path == "~" or path.startswith("~/") else str(PurePath(cwd) / path)
    try:
        length = len(os.fsencode(wanted))
    except UnicodeEncodeError as error:
        raise PathRefusedError(f"the path {path!r} can not be resolved: {error}") from None
    if length > _LONGEST_PATH:
        raise PathRefusedError(f"the path {path[:80]!r}... can not be resolved: File name too long")
    return wanted


async def found_in(shell: ContainerShell, path: str, cwd: str) -> ContainerFile:
    """What is at `path` in the container. Raises `OSError`, `ToolFailure`."""
    finding = read_finding(*await shell.ask(FIND, path))
    plain = "/" + posixpath.normpath(finding.path).lstrip("/")
    if plain != finding.path:  # below what does not exist, `..` takes back its name, as on this machine
        finding = read_finding(*await shell.ask(FIND, plain))
    return ContainerFile(shell, finding, cwd)


class ContainerFile:
    """What is at a real path of a container. The beginning that was seen with it is used once."""

    def __init__(self, shell: ContainerShell, finding: Finding, cwd: str) -> None:
        self._shell = shell
        self._cwd = cwd
        self.finding: Finding = finding
        self._beginning: bytes | None = finding.beginning
        self.path: str = finding.path
        self.status: FileStatus | None = finding.status
        self.identity: tuple[str, str] = ("container", finding.path)

    async def status_now(self) -> FileStatus | None:
        """See `FoundFile`."""
        return read_status(*await self._shell.ask(STATUS, self.path))

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator[FileReader]:
        """See `FoundFile`."""
        reader = _Reader(self._shell, self.path, self._take_beginning())
        try:
            yield reader
        finally:
            await reader.close()

    async def read_small(self, limit: int) -> bytes:
        """See `FoundFile`."""
        beginning = self._take_beginning()
        if beginning is not None and len(beginning) < SAMPLE_BYTES:
            return beginning[:limit]
        code, data = await self._shell.ask(READ, self.path, "1", str(limit), limit=limit)
        check_end(code, data)
        return data

    def _take_beginning(self) -> bytes | None:
        if self.finding.unreadable:
            raise PermissionError(self.finding.unreadable)
        beginning, self._beginning = self._beginning, None
        return beginning

    @contextlib.asynccontextmanager
    async def staged(self, data: bytes) -> AsyncIterator[PutInPlace]:
        """See `FoundFile`."""
        status = self.status
        mode = f"{stat.S_IMODE(status.mode):o}" if status is not None else ""
        name = os.fsencode(posixpath.basename(self.path))[:80].decode("utf-8", errors="ignore")
        temporary = f".{name}.{secrets.token_hex(6)}.tmp"
        owner = self.finding.owner
        process = await self._shell.start(
            STAGE, self.path, temporary, str(len(data)), mode, owner, with_input=True
        )
        write = _Write(process)
        try:
            await write.prepare(data)
            yield write.put
        finally:
            await finish_despite_cancel(write.close, _FINISH_LIMIT_S)

    async def remove(self) -> None:
        """See `FoundFile`."""
        check_end(*await self._shell.ask(REMOVE, self.path))

    async def search(self, query: SearchQuery, *, limit_s: float, output_limit: int) -> ChildAnswer:
        """See `FoundFile`. The files are sent out of the container, as far as the search gets, and none of
        them is kept."""
        place = Searched.of(self.path, self._cwd, self.status)
        return await ContainerSearch(self._shell, place, query, output_limit).run(limit_s)


class _Write:
    """One run of `STAGE`."""

    def __init__(self, process: ScriptProcess) -> None:
        self._process = process
        self._told = b""
        self._begun = False
        self._ended = False

    async def prepare(self, data: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):  # it ended early, and says why
            await self._process.write(data)
        while not self._told.endswith(READY):
            if not (piece := await self._process.read()):
                self._ended = True
                check_end(await self._process.wait(), self._told)
                raise FilesLostError("the container ended in the middle of it")  # it can not be done yet
            self._told += piece
        self._told = b""

    async def put(self) -> None:
        """Once begun it is brought to its end, whoever cancels: nothing happens after a call has ended."""
        try:
            await finish_despite_cancel(self._put, _FINISH_LIMIT_S)
        except (FilesLostError, TimeoutError) as error:
            raise FilesLostError(f"{error}; whether the file was changed is not known") from error

    async def _put(self) -> None:
        if not self._begun:
            self._begun = True
            with contextlib.suppress(BrokenPipeError):
                await self._process.write(GO)
                self._process.end_input()
        await self._rest()
        check_end(await self._process.wait(), self._told)

    async def _rest(self) -> None:
        while not self._ended:
            piece = await self._process.read()
            self._ended = not piece
            self._told += piece

    async def close(self) -> None:
        """The end of its input lets the script remove what it made."""
        try:
            if not self._ended:
                self._process.end_input()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_CLEAN_LIMIT_S):
                        await self._rest()
        finally:
            await self._process.end()


class _Reader:
    """A file that is sent piece by piece, as far as somebody reads on.

    What follows the beginning is sent by another command, which another file may meet at the path: it sends
    the beginning once more, so that nobody is given parts of two files.
    """

    def __init__(self, shell: ContainerShell, path: str, beginning: bytes | None) -> None:
        self._shell = shell
        self._path = path
        self._seen = self._held = beginning or b""
        self._at_end = beginning is not None and len(beginning) < SAMPLE_BYTES
        self._process: ScriptProcess | None = None
        self._taken = 0

    async def read(self, size: int = CHUNK_BYTES) -> bytes:
        if not self._held and not self._at_end:
            if self._process is None:
                self._process = await self._shell.start(READ, self._path, "1", str(MOST_READ_BYTES + 1))
                self._held = await self._behind_beginning(self._process)
            self._held = self._held or await self._piece(self._process)
        piece, self._held = self._held[:size], self._held[size:]
        return piece

    async def _behind_beginning(self, process: ScriptProcess) -> bytes:
        told = b""
        while len(told) < len(self._seen) and (piece := await self._piece(process)):
            told += piece
        if not told.startswith(self._seen):
            raise ToolFailure(f"{self._path} was changed while it was read; read it again")
        return told[len(self._seen) :]

    async def skip_lines(self, count: int) -> int | None:
        if self._at_end or self._process is not None:
            return None
        count = min(count, _MOST_LINES)
        self._process = await self._shell.start(LINES, self._path, str(count), str(MOST_READ_BYTES + 1))
        told = b""
        while b"\n" not in told:
            if not (piece := await self._piece(self._process)):
                raise FilesLostError("the container ended in the middle of it")
            told += piece
        passed, _, self._held = told.partition(b"\n")
        return int(passed)

    async def _piece(self, process: ScriptProcess) -> bytes:
        piece = await process.read()
        self._taken += len(piece)
        if self._taken > MOST_READ_BYTES:
            raise ToolFailure(
                f"more than {MOST_READ_BYTES} bytes would have to be read for that; look at it with a command"
            )
        if not piece:
            self._at_end = True
            check_end(await process.wait(), b"")
        return piece

    async def close(self) -> None:
        if self._process is not None:
            await self._process.end()


if TYPE_CHECKING:

    def _fits(
        found: ContainerFiles, file: ContainerFile, reader: _Reader
    ) -> tuple[TaskFiles, FoundFile, FileReader]:
        return found, file, reader
