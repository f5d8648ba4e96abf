"""`search_files`: find text in files, or files by name."""

from __future__ import annotations

from typing import Literal

from hermes_messages.protocols import ToolCallContext
from hermes_tools.errors import ToolFailure
from hermes_tools.tool import tool

__all__ = ["search_files"]


@tool(scheduling="parallel")
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
    raise ToolFailure("not built yet")
