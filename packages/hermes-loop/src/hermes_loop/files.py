"""The one module of this wheel that handles files, through aiofiles.

Each call opens a file, uses it and closes it in one piece of work: a caller who is cancelled meanwhile leaves
no file open, since it is never handed over.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from aiofiles.os import wrap

__all__ = ["append_line", "read_start"]


def _read_start_at_once(path: str, limit: int) -> bytes | None:
    found = os.stat(path)  # noqa: PTH116 - opening what is no regular file may already do something
    # What the system makes up as it is read (a link to the environment in /proc) says that it is empty.
    if not stat.S_ISREG(found.st_mode) or not found.st_size:
        return None
    with Path(path).open("rb") as file:
        return file.read(limit)


def _append_at_once(path: str, line: bytes) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with Path(path).open("ab", buffering=0) as file:
        written = file.write(line)
        while written < len(line):
            written += file.write(line[written:])


_read_start = wrap(_read_start_at_once)
_append = wrap(_append_at_once)


async def read_start(path: str, limit: int) -> bytes | None:
    """At most `limit` bytes of a regular file; None for anything else, and an empty one. Raises `OSError`."""
    data: bytes | None = await _read_start(path, limit)
    return data


async def append_line(path: str, line: bytes) -> None:
    """Append `line` to a file, which is made if needed, and so is its directory. Raises `OSError`."""
    await _append(path, line)
