"""`write_file`: a file's whole content, put in place in one step."""

from __future__ import annotations

from hermes_messages.protocols import ToolCallContext
from hermes_tools.builtin.workspace import task_files
from hermes_tools.errors import FileNotWrittenError, ToolFailure
from hermes_tools.task_files import FoundFile, check_regular
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
    found = await task_files(context, writable=True).find(path)
    check_regular(found, path)
    is_there = found.status is not None
    shape = await _shape_of_file(found) if is_there else TextShape()
    try:
        data = encode_like(content, shape)
    except UnicodeEncodeError:
        raise ToolFailure(
            "content holds half of a character (a lone surrogate); nothing was written"
        ) from None
    try:
        async with found.staged(data) as put_in_place:
            await put_in_place()
    except OSError as error:
        kept = "the old file is unchanged" if is_there else "nothing was written"
        raise FileNotWrittenError(path, error.strerror or str(error), kept) from error
    lines = content.count("\n") + (not content.endswith("\n") and bool(content))
    word = "line" if lines == 1 else "lines"
    verb = "replaced" if is_there else "wrote"
    return f"{verb} {path}: {lines} {word}, {len(data)} bytes{_kept(shape)}"


async def _shape_of_file(found: FoundFile) -> TextShape:
    async with found.reading() as file:
        return shape_of(await file.read(SAMPLE_BYTES))


def _kept(shape: TextShape) -> str:
    parts: list[str] = [shape.encoding] if shape.encoding != "utf-8" else []
    if shape.mark:
        parts.append("byte order mark")
    if shape.newline == "\r\n":
        parts.append("CRLF line ends")
    return f" (kept: {', '.join(parts)})" if parts else ""
