"""A caller who is cancelled while a file is in use leaves it closed, and what is written whole."""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path

import pytest

from hermes_loop.files import append_line, read_start

LIMIT_S = 60.0


async def _bytes_of(pipe: int) -> bytes:
    """What comes next from a pipe that does not block; empty once nobody has it open for writing."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                return os.read(pipe, 1 << 16)
            except BlockingIOError:
                await asyncio.sleep(0.001)


async def _cancelled(task: asyncio.Task[object]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_line_whose_writing_is_cancelled_is_whole_and_its_file_closed(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    os.mkfifo(path)
    line = b"x" * 1_000_000 + b"\n"  # more than a pipe takes before somebody reads

    async def main() -> bytes:
        pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            task: asyncio.Task[object] = asyncio.create_task(append_line(str(path), line))
            read = b""
            while not read:  # until it has begun, there is no writer
                read = await _bytes_of(pipe)
                await asyncio.sleep(0.001)
            await _cancelled(task)
            while more := await _bytes_of(pipe):
                read += more
        finally:
            os.close(pipe)
        return read

    assert asyncio.run(main()) == line


def test_reading_that_is_cancelled_at_any_time_leaves_no_file_open(tmp_path: Path) -> None:
    path = tmp_path / "AGENTS.md"
    path.write_bytes(b"Use tabs. " * 10_000)

    async def main() -> None:
        for waits in range(100):
            task: asyncio.Task[object] = asyncio.create_task(read_start(str(path), 32_768))
            for _ in range(waits % 5 + 1):
                await asyncio.sleep(0)
            if not task.done():
                await _cancelled(task)

    asyncio.run(main())
    gc.collect()  # a file that nobody closed warns here, which is an error
    assert str(path) not in {_target(name) for name in os.listdir("/proc/self/fd")}  # noqa: PTH208


def _target(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115
    except OSError:
        return ""  # the listing's own
