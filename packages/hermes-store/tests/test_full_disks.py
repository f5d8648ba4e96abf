"""A file system that really is full. Where none can be mounted, `test_faults` has a limit for files."""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hermes_messages import StoreError, UserMessage
from hermes_store import SessionDB, StoreFullError


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of so many bytes, as long as the block lasts."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def remount(folder: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", folder], check=True)


def can_mount() -> bool:
    if sys.platform != "linux" or os.geteuid() != 0:
        return False
    with tempfile.TemporaryDirectory() as folder:
        try:
            with small_disk(Path(folder), "64k"):
                return True
        except (subprocess.CalledProcessError, OSError):
            return False


if can_mount():

    @pytest.mark.parametrize("journal", ["wal", "delete"])
    def test_what_was_acknowledged_before_the_disk_was_full_is_kept(tmp_path: Path, journal: str) -> None:
        async def main(disk: Path) -> None:
            ballast = disk / "ballast"
            ballast.write_bytes(b"x" * 600_000)
            path, kept = disk / "s.db", []
            refused: list[str] = []
            async with SessionDB(path, journal=journal) as db:  # type: ignore[arg-type]
                await db.create_session("s")
                number = 0
                while len(refused) < 3:
                    number += 1
                    try:
                        await db.append_message("s", UserMessage("stork " * 600), uid=str(number))
                        kept.append(str(number))
                    except StoreFullError as error:
                        refused.append(str(error))
                assert all("earlier messages are" in message for message in refused)
                assert [item.uid for item in await db.get_messages("s")] == kept
                assert len(await db.search_messages("stork", limit=10_000)) == len(kept)
                for write in (db.export_to_file(disk / "x"), db.backup(disk / "b.db")):
                    with pytest.raises(StoreFullError):
                        await write
                ballast.unlink()
                for uid in ("again", "and again"):
                    await db.append_message("s", UserMessage("there is room"), uid=uid)
                    kept.append(uid)
            assert os.listdir(disk) == ["s.db"]  # noqa: PTH208
            async with SessionDB(path) as db:
                assert [item.uid for item in await db.get_messages("s")] == kept
                assert await db.check_integrity() == []

        with small_disk(tmp_path / "disk", "2m") as disk:
            asyncio.run(main(disk))

    def test_a_database_that_can_not_even_be_made_says_why(tmp_path: Path) -> None:
        async def main(disk: Path) -> None:
            ballast = disk / "ballast"
            with pytest.raises(OSError, match="No space"):
                ballast.write_bytes(b"x" * 300_000)
            db = SessionDB(disk / "s.db")
            with pytest.raises(StoreFullError):
                await db.create_session("s")
            ballast.unlink()
            await db.create_session("s")
            await db.close()

        with small_disk(tmp_path / "disk", "256k") as disk:
            asyncio.run(main(disk))

    @pytest.mark.parametrize("journal", ["wal", "delete"])
    def test_a_database_on_a_read_only_file_system_is_read(tmp_path: Path, journal: str) -> None:
        """SQLite refuses one with a write-ahead log there, unless it is told that nobody writes."""

        async def main(path: Path) -> None:
            async with SessionDB(path, journal=journal) as db:  # type: ignore[arg-type]
                await db.create_session("s")
                await db.append_message("s", UserMessage("a stork"))
                await db.search_messages("stork")
            remount(path.parent, "ro")
            async with SessionDB(path, read_only=True) as db:
                assert len(await db.get_messages("s")) == 1
                assert len(await db.search_messages("stork")) == 1
                assert await db.check_integrity() == []
                await db.backup(tmp_path / "copy.db")
            with pytest.raises(StoreError, match=r"read-only|readonly"):
                async with SessionDB(path) as db:
                    await db.append_message("s", UserMessage("x"))
            remount(path.parent, "rw")
            async with SessionDB(path) as db, SessionDB(tmp_path / "copy.db") as copy:
                assert len(await copy.get_messages("s")) == 1
                await db.append_message("s", UserMessage("it may be written again"))

        with small_disk(tmp_path / "disk", "2m") as disk:
            asyncio.run(main(disk / "s.db"))
