"""`read_file`: text of a file, page by page."""

from __future__ import annotations

import codecs

from hermes_messages.protocols import ToolCallContext
from hermes_tools.builtin.workspace import task_files
from hermes_tools.errors import ToolFailure
from hermes_tools.task_files import FileReader, check_regular
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
    found = await task_files(context).find(path)
    if found.status is None:
        raise ToolFailure(f"{path}: no such file")
    check_regular(found, path)
    page = _Page(max(1, offset), max(1, limit))
    async with found.reading() as file:
        first = await file.read(SAMPLE_BYTES)
        if looks_binary(first):
            raise ToolFailure(f"{path} is a binary file of {found.status.size} bytes; it can not be shown")
        await _fill(page, file, first)
    return page.text(path)


async def _fill(page: _Page, file: FileReader, first: bytes) -> None:
    """Give the page what it takes of the file, of which `first` was read."""
    shape = shape_of(first)
    decoder = codecs.getincrementaldecoder(shape.encoding)(errors="backslashreplace")
    passed = await file.skip_lines(page.offset - 1) if page.offset > 1 and shape.encoding == "utf-8" else None
    if passed is None:
        page.feed(decoder.decode(first[len(shape.mark) :]))
    else:
        page.pass_over(passed)
    while not page.full:
        chunk = await file.read()
        page.feed(decoder.decode(chunk, final=not chunk))
        if not chunk:
            page.end()
            return


class _Page:
    """Collects the lines `offset` to `offset + limit - 1` of text that comes in pieces."""

    def __init__(self, offset: int, limit: int) -> None:
        self.offset = offset
        self._limit = limit
        self._lines: list[str] = []
        self._chars = 0
        self._passed = 0  # lines that ended
        self._open: list[str] = []
        self._open_chars = 0
        self._ended = False
        self.full = False

    def pass_over(self, lines: int) -> None:
        """Count so many lines at the beginning, of which none is shown."""
        self._passed = lines

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
        if number >= self.offset:
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
        if self._ended and self._passed < self.offset:
            return f"[{path} has {self._passed} lines; there is no line {self.offset}]"
        shown = make_visible("\n".join(self._lines))
        last = self.offset + len(self._lines) - 1
        if self.full:
            return f"{shown}\n[lines {self.offset} to {last}; more with offset={last + 1}]"
        if self.offset > 1:
            return f"{shown}\n[lines {self.offset} to {last}, the end]"
        return shown
