"""A database that is removed, replaced or emptied while it is open: no write is acknowledged that is lost."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_messages import StoreError, UserMessage
from hermes_messages.protocols import NewMessage
from hermes_store import SessionDB, StoreCorruptError, StoreFileChangedError, set_aside


def remove(path: Path) -> None:
    path.unlink()


def move(path: Path) -> None:
    path.rename(path.with_suffix(".moved"))


def replace_by_a_copy(path: Path) -> None:
    copy = path.with_suffix(".copy")
    shutil.copy(path, copy)
    copy.replace(path)


def remove_the_log(path: Path) -> None:
    Path(f"{path}-wal").unlink()


def remove_the_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


@pytest.mark.parametrize(
    "change", [remove, move, replace_by_a_copy, remove_the_log, remove_the_folder], ids=lambda f: f.__name__
)
def test_a_write_to_a_file_that_is_no_longer_there_is_no_success(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    path = tmp_path / "folder" / "s.db"
    path.parent.mkdir()

    async def main() -> None:
        async with SessionDB(path) as db:
            await db.create_session("s")
            await db.append_message("s", UserMessage("acknowledged"), uid="m1")
            change(path)
            writes = [db.append_message("s", UserMessage("lost"), uid=f"m{n}") for n in range(2, 5)]
            for outcome in await asyncio.gather(*writes, return_exceptions=True):
                assert isinstance(outcome, StoreFileChangedError)
            for other in (db.vacuum(), db.check_integrity(), db.backup(tmp_path / "b.db")):
                with pytest.raises(StoreFileChangedError, match="while it was open"):
                    await other
            # What was acknowledged is not lost as long as the object lives.
            assert [item.uid for item in await db.get_messages("s")] == ["m1"]
            assert await db.export_to_file(tmp_path / "rescued.jsonl") == 1
        assert not (tmp_path / "b.db").exists()
        async with SessionDB(tmp_path / "new.db") as db:
            assert (await db.import_sessions(tmp_path / "rescued.jsonl")).messages == 1

    asyncio.run(main())


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_file_emptied_while_it_is_open_is_damage(tmp_path: Path, journal: str) -> None:
    path = tmp_path / "s.db"

    async def main() -> None:
        async with SessionDB(path, journal=journal) as db:  # type: ignore[arg-type]
            await db.create_session("s")
            texts = [NewMessage(f"m{n}", UserMessage("x" * 5000)) for n in range(50)]
            await db.append_messages_batch("s", texts)
            await db.vacuum()  # all of it is in the file, nothing in the log
            os.truncate(path, 0)
            with pytest.raises(StoreCorruptError, match="was emptied"):
                await db.append_message("s", UserMessage("lost"))
            with pytest.raises(StoreError):
                await db.backup(tmp_path / "b.db")

    asyncio.run(main())
    assert {entry.name for entry in tmp_path.iterdir()} <= {"s.db", "s.db-wal", "s.db-shm"}


def test_after_closing_the_path_is_opened_anew(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def main() -> None:
        async with SessionDB(path) as db:
            await db.create_session("old")
            aside = await set_aside(str(path))
            with pytest.raises(StoreFileChangedError, match="removed"):
                await db.create_session("lost")
        async with db:
            await db.create_session("new")
            assert [record.id for record in await db.list_sessions()] == ["new"]
        async with SessionDB(aside) as old:
            assert [record.id for record in await old.list_sessions()] == ["old"]

    asyncio.run(main())


def test_a_link_to_the_database_may_change_while_it_is_open(tmp_path: Path) -> None:
    """SQLite follows a symbolic link once; what it writes stays where it is."""
    (tmp_path / "a.db").touch()
    (tmp_path / "link.db").symlink_to(tmp_path / "a.db")

    async def main() -> None:
        async with SessionDB(tmp_path / "link.db") as db:
            await db.create_session("s")
            (tmp_path / "link.db").unlink()
            await db.append_message("s", UserMessage("kept"))
        async with SessionDB(tmp_path / "a.db") as db:
            assert len(await db.get_messages("s")) == 1

    asyncio.run(main())


def test_a_database_in_memory_has_no_file_to_lose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def main() -> None:
        async with SessionDB("file::memory:") as db:
            await db.create_session("s")
            assert len(await db.list_sessions()) == 1

    asyncio.run(main())
    assert list(tmp_path.iterdir()) == []


def test_a_relative_path_stays_the_same_file_when_the_process_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def main() -> None:
        async with SessionDB("s.db") as db:
            await db.create_session("s")
            (tmp_path / "elsewhere").mkdir()
            monkeypatch.chdir(tmp_path / "elsewhere")
            await db.append_message("s", UserMessage("kept"))
            await db.backup(tmp_path / "copy.db")
            await db.close()
            async with db:
                assert len(await db.get_messages("s")) == 1

    asyncio.run(main())
    assert not (tmp_path / "elsewhere" / "s.db").exists()
