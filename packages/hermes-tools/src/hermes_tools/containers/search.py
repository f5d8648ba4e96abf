"""The search among the files of a container: what may be meant is sent out of it and searched here.

So patterns mean what they mean on the host, whatever `grep` the image has, and one that takes for ever is
stopped. Files are sent in the order of the results, and no more once there are enough of these.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import posixpath
from collections.abc import AsyncGenerator
from pathlib import PurePosixPath

from msgspec import Struct

from hermes_tools.child_work import ChildAnswer, run_standalone
from hermes_tools.containers.file_scripts import LIST, SEND, check_end
from hermes_tools.containers.shell import ContainerShell, ScriptProcess
from hermes_tools.errors import ToolFailure
from hermes_tools.file_status import FileStatus
from hermes_tools.standalone.container_search import SentRequest
from hermes_tools.standalone.ignore_rules import IGNORE_FILES
from hermes_tools.standalone.search import MAX_FILE_BYTES
from hermes_tools.task_files import SearchQuery

__all__ = ["ContainerSearch", "Searched"]

MOST_LISTED_BYTES = 32 * 1024 * 1024


class Searched(Struct, frozen=True):
    """What is searched: a directory, or one file in it (`name`). Hits are named from `root`; where that is
    not the working directory, whole."""

    directory: str
    name: str
    root: str
    too_large: bool = False
    """Whether the file is larger than any whose content is searched."""

    @classmethod
    def of(cls, path: str, cwd: str, status: FileStatus | None) -> Searched:
        """The place for a real path, at which is what `status` says."""
        pure, base = PurePosixPath(path), posixpath.normpath(cwd)
        root = base if pure.is_relative_to(base) else "/"
        if status is None or not status.is_regular:
            return cls(path, "", root)
        return cls(str(pure.parent), pure.name, root, too_large=status.size > MAX_FILE_BYTES)

    def request(self, query: SearchQuery, step: str, remarks: list[str]) -> SentRequest:
        """What the searching program is told."""
        way = PurePosixPath(self.directory).relative_to(self.root)
        base = "" if way == PurePosixPath() else f"{way}/"
        return {
            "step": step,
            "pattern": query.pattern,
            "target": query.target,
            "limit": query.limit,
            "root": self.root,
            "base": base,
            "above": f"{base}{self.name}/" if self.name else base,
            "prefix": "" if self.root != "/" else "/",
            "remarks": remarks,
        }

    def rules_above(self) -> list[str]:
        """The ignore files that may be in the directories from `root` down to it."""
        pure = PurePosixPath(self.directory)
        above = [one for one in reversed(pure.parents) if one.is_relative_to(self.root)]
        return [str(one / name) for one in above for name in IGNORE_FILES]


class ContainerSearch:
    """One search."""

    def __init__(self, shell: ContainerShell, place: Searched, query: SearchQuery, output_limit: int) -> None:
        self._shell = shell
        self._place = place
        self._query = query
        self._output_limit = output_limit

    async def run(self, limit_s: float) -> ChildAnswer:
        """See `FoundFile.search`."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + limit_s
        try:
            async with asyncio.timeout_at(deadline):
                listing = await self._listing()
        except TimeoutError:
            return ChildAnswer(b"", in_time=False)
        remarks: list[str] = []
        names = listing
        if self._query.target == "files" or not self._place.name:
            answer = await self._ask("list", remarks, listing, deadline - clock())
            if self._query.target == "files" or not answer.in_time:
                return answer if self._query.target == "files" else ChildAnswer(b"", in_time=False)
            first, _, names = answer.output.partition(b"\n")
            remarks = _remarks(first)
        return await self._ask(
            "text", remarks, b"", deadline - clock(), b"" if self._place.too_large else names
        )

    async def _ask(
        self, step: str, remarks: list[str], data: bytes, limit_s: float, names: bytes = b""
    ) -> ChildAnswer:
        request = json.dumps(self._place.request(self._query, step, remarks)).encode()
        return await run_standalone(
            "container_search",
            request + b"\n" + data,
            limit_s=max(0.0, limit_s),
            output_limit=self._output_limit if step == "text" else 2 * MOST_LISTED_BYTES,
            more=self._sent(names) if names else None,
        )

    async def _listing(self) -> bytes:
        if self._place.name:
            return f"./{self._place.name}\0".encode("utf-8", "surrogateescape")
        code, listing = await self._shell.ask(
            LIST,
            self._place.directory,
            self._query.target,
            *self._place.rules_above(),
            limit=MOST_LISTED_BYTES,
        )
        if len(listing) > MOST_LISTED_BYTES:
            raise ToolFailure(
                "there are too many files to search; search a smaller directory, or use a command"
            )
        check_end(code, listing)
        return listing

    async def _sent(self, names: bytes) -> AsyncGenerator[bytes, None]:
        """The files as archives. Raises `ToolFailure`."""
        process = await self._shell.start(SEND, self._place.directory, with_input=True)
        try:
            naming = asyncio.create_task(_tell(process, names))
            try:
                while piece := await process.read():
                    yield piece
                check_end(await process.wait(), b"")
            finally:
                naming.cancel()
                await asyncio.wait({naming})
        finally:
            await process.end()


async def _tell(process: ScriptProcess, names: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):  # it ended early, and says why
        await process.write(names)
        process.end_input()


def _remarks(line: bytes) -> list[str]:
    try:
        return [str(remark) for remark in json.loads(line)]
    except ValueError:
        raise ToolFailure(f"the search failed: {line[-300:].decode(errors='replace')}") from None
