"""`search_files`: find text in files, or files by name."""

from __future__ import annotations

from typing import Literal

import msgspec

from hermes_messages.protocols import ToolCallContext
from hermes_tools.builtin.workspace import task_files
from hermes_tools.errors import PathRefusedError, ToolFailure
from hermes_tools.task_files import SearchQuery
from hermes_tools.text_shape import make_visible
from hermes_tools.tool import tool

__all__ = ["search_files"]

TIME_LIMIT_S = 20.0
MAX_PATTERN = 2_000
MAX_RESULTS = 1_000
OUTPUT_LIMIT_BYTES = 16 * 1024 * 1024


@tool(scheduling="parallel", idempotent=True)
async def search_files(
    context: ToolCallContext,
    pattern: str,
    target: Literal["content", "files"] = "content",
    path: str = ".",
    limit: int = 50,
) -> str:
    """Search files under a directory.

    Args:
        pattern: regex for content, or a name like *.py for files
        target: search file contents or file names
        path: directory to search
        limit: most results to show
    """
    if not pattern or len(pattern) > MAX_PATTERN or "\0" in pattern:
        raise ToolFailure(f"the pattern must have 1 to {MAX_PATTERN} characters and no NUL")
    found = await task_files(context).find(path)
    if found.status is None:
        raise ToolFailure(f"{path}: no such file or directory")
    if not (found.status.is_directory or found.status.is_regular):
        raise PathRefusedError(f"{path} is {found.status.kind}, no file and no directory")
    query = SearchQuery(pattern, target, min(max(1, limit), MAX_RESULTS))
    answer = await found.search(query, limit_s=TIME_LIMIT_S, output_limit=OUTPUT_LIMIT_BYTES)
    return _shown(answer.output.splitlines(), in_time=answer.in_time, pattern=pattern)


def _shown(lines: list[bytes], *, in_time: bool, pattern: str) -> str:
    """The hits as text, and how the search went."""
    results: list[str] = []
    notes: list[str] = []
    complete = False
    for line in lines:
        try:
            entry = msgspec.json.decode(line)
        except msgspec.DecodeError:
            continue  # the line at which the program was stopped
        match entry:
            case [name]:
                results.append(str(name))
            case [name, number, text]:
                results.append(f"{name}:{number}: {text}")
            case {"more": more, "remarks": remarks}:
                complete = True
                notes.extend(f"[{remark}]" for remark in remarks)
                if more:
                    notes.append(f"[only the first {len(results)} results are shown]")
            case _:
                pass
    if not in_time:
        notes.append(f"[stopped after {TIME_LIMIT_S:g} s; there may be more]")
    elif not complete:
        raise ToolFailure(f"the search failed: {b' '.join(lines[-3:]).decode(errors='replace')[:500]}")
    if not results:
        notes.insert(0, f"no matches for {pattern}")
    return make_visible("\n".join([*results, *notes]))
