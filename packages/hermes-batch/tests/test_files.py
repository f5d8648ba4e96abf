"""Files that are whole or not there, and lines that end where JSONL lines end."""

import asyncio
import signal
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

import pytest

from hermes_batch.files import AppendFile, FileLock, file_line_batches, replace_file


async def lines_of(path: Path) -> list[tuple[int, bytes]]:
    async with aclosing(file_line_batches(path)) as batches:
        return [line async for batch in batches for line in batch]


def test_lines_end_at_line_feeds_only(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes("a\u2028b\x85c\r\nd\n\nlast".encode())
    assert asyncio.run(lines_of(path)) == [
        (0, "a\u2028b\x85c\r".encode()),
        (10, b"d"),
        (12, b""),
        (13, b"last"),
    ]


def test_a_line_longer_than_a_chunk(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    long = b"x" * (3 << 20)
    path.write_bytes(long + b"\nend\n")
    assert asyncio.run(lines_of(path)) == [(0, long), (len(long) + 1, b"end")]


def test_a_replaced_file_keeps_its_mode_and_the_link_that_leads_to_it(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)

    async def replace() -> None:
        async with replace_file(link) as write:
            await write(b"new ")
            await write(b"text")

    asyncio.run(replace())
    assert target.read_text() == "new text"
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_failed_replacement_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("old")

    async def replace() -> None:
        async with replace_file(target) as write:
            await write(b"half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        asyncio.run(replace())
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_an_append_file_is_never_an_existing_one(tmp_path: Path) -> None:
    (tmp_path / "shard").write_text("kept")
    with pytest.raises(FileExistsError):
        asyncio.run(AppendFile.create(tmp_path / "shard"))


def test_the_lock_names_its_live_owner_and_dies_with_it(tmp_path: Path) -> None:
    lock = tmp_path / ".lock"
    program = (
        "import asyncio, sys, pathlib\n"
        "from hermes_batch.files import FileLock\n"
        "async def main():\n"
        "    assert await FileLock(pathlib.Path(sys.argv[1])).acquire() is None\n"
        "    print('held', flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(lock)], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"held\n"
        assert asyncio.run(FileLock(lock).acquire()) == f"process {owner.pid}"
        owner.send_signal(signal.SIGKILL)
        owner.wait()

        async def take() -> str | None:
            mine = FileLock(lock)
            held = await mine.acquire()
            await mine.release()
            return held

        assert asyncio.run(take()) is None
