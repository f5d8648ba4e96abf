"""A file whose opening outlasts its caller is closed when it is open in the end."""

from __future__ import annotations

import asyncio
import os
import select
from pathlib import Path

import pytest

from hermes_batch import files, supervision

LIMIT_MS = 60_000


async def _writer_of(path: Path) -> int:
    """The end to write to, once somebody is opening the other one."""
    async with asyncio.timeout(LIMIT_MS / 1000):
        while True:
            try:
                return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:  # nobody yet
                await asyncio.sleep(0.001)


@pytest.mark.parametrize("patience_s", [0.0, supervision.PATIENCE_S])
def test_a_file_that_is_open_after_its_caller_went_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience_s: float
) -> None:
    monkeypatch.setattr(supervision, "PATIENCE_S", patience_s)
    path = tmp_path / "pipe"
    os.mkfifo(path)

    async def main() -> None:
        opening = asyncio.create_task(files.ReadFile.open(path))
        writer = await _writer_of(path)
        opening.cancel()  # the thread has its file, or is about to; the loop does not know yet
        with pytest.raises(asyncio.CancelledError):
            await opening
        watched = select.poll()
        watched.register(writer, 0)
        try:
            assert watched.poll(LIMIT_MS), "the end to read from is still open"
        finally:
            os.close(writer)

    asyncio.run(main())
