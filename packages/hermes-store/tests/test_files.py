"""A caller who is cancelled while a file is being opened leaves it closed."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import pytest
from hard_times import cancel_while_opening

from hermes_store import files


async def _first_line(path: Path) -> bytes:
    return await anext(files.read_lines(str(path)))


@pytest.mark.parametrize("limit_s", [0.0, files.OPENING_LIMIT_S])
def test_a_file_that_is_opened_after_a_cancellation_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit_s: float
) -> None:
    monkeypatch.setattr(files, "OPENING_LIMIT_S", limit_s)
    asyncio.run(cancel_while_opening(tmp_path / "pipe", _first_line))
    gc.collect()  # a file that nobody closed warns here, which is an error


def test_lines_are_read_whole_across_pieces(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    lines = [b"%d" % number * 1_000 + b"\n" for number in range(2_000)]
    path.write_bytes(b"".join(lines) + b"end")

    async def main() -> list[bytes]:
        return [line async for line in files.read_lines(str(path))]

    assert asyncio.run(main()) == [*lines, b"end"]
