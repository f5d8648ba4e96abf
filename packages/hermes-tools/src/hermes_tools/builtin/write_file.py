"""`write_file`: a file's whole content, put in place in one step."""

from __future__ import annotations

import stat

from hermes_messages.protocols import ToolCallContext
from hermes_tools import files
from hermes_tools.builtin.workspace import file_workspace
from hermes_tools.errors import FileNotWrittenError, PathRefusedError, ToolFailure
from hermes_tools.text_shape import SAMPLE_BYTES, TextShape, encode_like, shape_of
from hermes_tools.tool import tool

__all__ = ["write_file"]


@tool(scheduling="sequential")
async def write_file(context: ToolCallContext, path: str, content: str) -> str:
    """Write text to a file. Replaces the file if it exists.

    Args:
        path: file to write
        content: the whole text
    """
    workspace = file_workspace(context, writable=True)
    place = await workspace.place(path)
    status = await files.status_of(place)
    if status is not None and not stat.S_ISREG(status.st_mode):
        raise PathRefusedError(f"{path} is {files.kind_of(status.st_mode)}, not a regular file")
    shape = await _shape_of_file(place) if status is not None else TextShape()
    try:
        data = encode_like(content, shape)
    except UnicodeEncodeError:
        raise ToolFailure(
            "content holds half of a character (a lone surrogate); nothing was written"
        ) from None
    try:
        await files.replace_file(place, data, status or files.NEW_FILE_MODE, create_parents=True)
    except OSError as error:
        kept = "the old file is unchanged" if status is not None else "nothing was written"
        raise FileNotWrittenError(path, error.strerror or str(error), kept) from error
    lines = content.count("\n") + (not content.endswith("\n") and bool(content))
    word = "line" if lines == 1 else "lines"
    verb = "replaced" if status is not None else "wrote"
    return f"{verb} {path}: {lines} {word}, {len(data)} bytes{_kept(shape)}"


async def _shape_of_file(place: files.Place) -> TextShape:
    async with await files.open_regular(place) as file:
        return shape_of(await file.read(SAMPLE_BYTES))


def _kept(shape: TextShape) -> str:
    parts: list[str] = [shape.encoding] if shape.encoding != "utf-8" else []
    if shape.mark:
        parts.append("byte order mark")
    if shape.newline == "\r\n":
        parts.append("CRLF line ends")
    return f" (kept: {', '.join(parts)})" if parts else ""
