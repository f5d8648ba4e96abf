"""`read_file`: text of a file, page by page."""

from __future__ import annotations

import codecs
import stat

from hermes_messages.protocols import ToolCallContext
from hermes_tools import files
from hermes_tools.builtin.workspace import file_workspace
from hermes_tools.errors import PathRefusedError, ToolFailure
from hermes_tools.text_shape import SAMPLE_BYTES, looks_binary, make_visible, shape_of
from hermes_tools.tool import tool

__all__ = ["read_file"]

MAX_PAGE_CHARS = 40_000
MAX_LINE_CHARS = 4_000


@tool(scheduling="parallel", idempotent=True, output_limit=MAX_PAGE_CHARS * 2)
async def read_file(
    context: ToolCallContext,
    path: str,
    offset: int = 1,
    limit: int = 500,
) -> str:
    """Read a text file.

    Args:
        path: file to read
        offset: first line, from 1
        limit: number of lines
    """
    workspace = file_workspace(context)
    place = await workspace.place(path)
    status = await files.status_of(place)
    if status is None:
        raise ToolFailure(f"{path}: no such file")
    if not stat.S_ISREG(status.st_mode):
        raise PathRefusedError(f"{path} is {files.kind_of(status.st_mode)}, not a regular file")
    async with await files.open_regular(place) as file:
        first = await file.read(SAMPLE_BYTES)
        if looks_binary(first):
            raise ToolFailure(f"{path} is a binary file of {file.status.st_size} bytes; it can not be shown")
        page = _Page(max(1, offset), max(1, limit))
        shape = shape_of(first)
        decoder = codecs.getincrementaldecoder(shape.encoding)(errors="backslashreplace")
        page.feed(decoder.decode(first[len(shape.mark) :]))
        async for chunk in file.chunks():
            if page.full:
                break
            page.feed(decoder.decode(chunk))
        else:
            page.feed(decoder.decode(b"", final=True))
            page.end()
    return page.text(path)


class _Page:
    """Collects the lines `offset` to `offset + limit - 1` of text that comes in pieces."""

    def __init__(self, offset: int, limit: int) -> None:
        self._offset = offset
        self._limit = limit
        self._lines: list[str] = []
        self._chars = 0
        self._passed = 0  # lines that ended
        self._open: list[str] = []
        self._open_chars = 0
        self._ended = False
        self.full = False

    def feed(self, text: str) -> None:
        if self.full or not text:
            return
        *ended, rest = text.split("\n")
        for piece in ended:
            self._extend(piece)
            if not self._close_line():
                return
        self._extend(rest)

    def end(self) -> None:
        if self._open_chars and not self.full:
            self._close_line()
        self._ended = not self.full

    def _extend(self, piece: str) -> None:
        if self._open_chars < MAX_LINE_CHARS:
            self._open.append(piece[: MAX_LINE_CHARS - self._open_chars])
        self._open_chars += len(piece)

    def _close_line(self) -> bool:
        number = self._passed + 1
        if number >= self._offset:
            if len(self._lines) == self._limit or self._chars > MAX_PAGE_CHARS:
                self.full = True
                return False
            line = "".join(self._open).removesuffix("\r")
            if self._open_chars > MAX_LINE_CHARS:
                line += f" [line cut: {self._open_chars} characters]"
            self._lines.append(line)
            self._chars += len(line) + 1
        self._passed = number
        self._open.clear()
        self._open_chars = 0
        return True

    def text(self, path: str) -> str:
        if self._ended and not self._passed:
            return f"[{path} is empty]"
        if self._ended and self._passed < self._offset:
            return f"[{path} has {self._passed} lines; there is no line {self._offset}]"
        shown = make_visible("\n".join(self._lines))
        last = self._offset + len(self._lines) - 1
        if self.full:
            return f"{shown}\n[lines {self._offset} to {last}; more with offset={last + 1}]"
        if self._offset > 1:
            return f"{shown}\n[lines {self._offset} to {last}, the end]"
        return shown
