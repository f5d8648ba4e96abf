"""A caller who is cancelled while a file is being opened leaves it closed."""

from __future__ import annotations

import asyncio
import gc
import os
import select
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from hermes_store import files

LIMIT_MS = 60_000


async def _writer_of(path: Path) -> int:
    """The end to write to, once somebody is opening the other one."""
    async with asyncio.timeout(LIMIT_MS / 1000):
        while True:
            try:
                return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:  # nobody yet
                await asyncio.sleep(0.001)


async def _next_of(lines: AsyncGenerator[bytes, None]) -> bytes:
    return await anext(lines)


@pytest.mark.parametrize("limit_s", [0.0, files.OPENING_LIMIT_S])
def test_a_file_that_is_opened_after_a_cancellation_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit_s: float
) -> None:
    monkeypatch.setattr(files, "OPENING_LIMIT_S", limit_s)
    path = tmp_path / "pipe"
    os.mkfifo(path)

    async def main() -> None:
        reading = asyncio.create_task(_next_of(files.read_lines(str(path))))
        writer = await _writer_of(path)
        reading.cancel()  # the thread has its file, or is about to; the loop does not know yet
        with pytest.raises(asyncio.CancelledError):
            await reading
        watched = select.poll()
        watched.register(writer, 0)
        try:
            assert watched.poll(LIMIT_MS), "the end to read from is still open"
        finally:
            os.close(writer)

    asyncio.run(main())
    gc.collect()  # a file that nobody closed warns here, which is an error


def test_lines_are_read_whole_across_pieces(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    lines = [b"%d" % number * 1_000 + b"\n" for number in range(2_000)]
    path.write_bytes(b"".join(lines) + b"end")

    async def main() -> list[bytes]:
        return [line async for line in files.read_lines(str(path))]

    assert asyncio.run(main()) == [*lines, b"end"]
