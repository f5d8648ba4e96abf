"""Bad files, full disks, other writers: a typed error, and what was acknowledged is kept."""

import asyncio
import logging
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_messages import StoreBusyError, StoreError, StoreSchemaError, UserMessage
from hermes_store import SessionDB, StoreCorruptError, StoreFullError, StoreReadOnlyError
from hermes_store.migrations import APPLICATION_ID, VERSION
from hermes_store.sqlite import SqliteBackend


def expect_refusal(path: Path, kind: type[StoreError], match: str) -> None:
    """The store refuses the file, and the file is as it was."""
    before = path.read_bytes()

    async def main() -> None:
        db = SessionDB(path)
        for _ in range(2):
            with pytest.raises(kind, match=match):
                await db.create_session("s")
        with pytest.raises(kind, match=match):
            async with db:
                pass
        await db.close()

    asyncio.run(main())
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def make(path: Path) -> None:
    async def main() -> None:
        async with SessionDB(path) as db:
            await db.create_session("s")
            for number in range(200):
                await db.append_message("s", UserMessage(f"message {number} " + "x" * 300))

    asyncio.run(main())


def alter(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.execute("PRAGMA journal_mode = delete")
    connection.close()


def test_a_newer_schema_is_refused_untouched(tmp_path: Path) -> None:
    make(tmp_path / "s.db")
    alter(tmp_path / "s.db", f"PRAGMA user_version = {VERSION + 1}")
    expect_refusal(tmp_path / "s.db", StoreSchemaError, "newer hermes-store")


def test_a_malformed_schema_is_refused_untouched(tmp_path: Path) -> None:
    make(tmp_path / "s.db")
    alter(tmp_path / "s.db", "ALTER TABLE leases RENAME COLUMN number TO n")
    expect_refusal(tmp_path / "s.db", StoreSchemaError, "lacks a part")


def test_a_database_of_another_program_is_refused_untouched(tmp_path: Path) -> None:
    alter(tmp_path / "s.db", "CREATE TABLE sessions (id TEXT)")
    expect_refusal(tmp_path / "s.db", StoreSchemaError, "another program")


def test_a_file_that_is_no_database_is_refused_untouched(tmp_path: Path) -> None:
    (tmp_path / "s.db").write_text("my diary\n" * 1000)
    expect_refusal(tmp_path / "s.db", StoreSchemaError, "not a database")


def test_a_zeroed_file_is_refused_untouched(tmp_path: Path) -> None:
    make(tmp_path / "s.db")
    (tmp_path / "s.db").write_bytes(b"\x00" * (tmp_path / "s.db").stat().st_size)
    expect_refusal(tmp_path / "s.db", StoreError, "s.db")


def test_an_empty_file_is_a_new_database(tmp_path: Path) -> None:
    (tmp_path / "s.db").touch()
    make(tmp_path / "s.db")
    connection = sqlite3.connect(tmp_path / "s.db")
    assert connection.execute("PRAGMA application_id").fetchall() == [(APPLICATION_ID,)]
    assert connection.execute("PRAGMA user_version").fetchall() == [(VERSION,)]
    connection.close()


def test_a_damaged_file_is_a_typed_error(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    make(path)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 4)
        file.write(os.urandom(1) + b"\xff" * (size // 2))

    async def main() -> None:
        with pytest.raises(StoreCorruptError, match="Copy it"):
            async with SessionDB(path) as db:
                await db.get_messages("s")

    asyncio.run(main())


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(StoreError, match="folder exists"):
            await SessionDB(tmp_path / "absent" / "s.db").create_session("s")
        with pytest.raises(StoreError, match="Name a file"):
            await SessionDB(tmp_path).create_session("s")

    asyncio.run(main())


def test_a_writer_that_does_not_let_go_is_waited_for_and_then_named(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    make(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def main() -> None:
        async with SessionDB(path, busy_timeout_s=0.2) as db:
            assert len(await db.get_messages("s")) == 200
            with pytest.raises(StoreBusyError, match="try again"):
                await db.append_message("s", UserMessage("x"))
        async with SessionDB(path) as db:
            waiting = [asyncio.create_task(db.append_message("s", UserMessage(str(n)))) for n in range(3)]
            asyncio.get_running_loop().call_later(0.2, other.execute, "COMMIT")
            await asyncio.gather(*waiting)
            assert len(await db.get_messages("s")) == 203

    asyncio.run(main())
    other.close()


def test_a_cancelled_wait_for_another_writer_ends_at_once(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    make(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def main() -> None:
        async with SessionDB(path, busy_timeout_s=60) as db:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await db.append_message("s", UserMessage("x"))
            other.execute("COMMIT")
            await db.append_message("s", UserMessage("y"))
            assert len(await db.get_messages("s")) == 201

    asyncio.run(main())
    other.close()


def test_where_no_log_can_be_kept_the_store_says_so_and_works(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file system without shared memory: SQLite answers another journal mode than asked for."""
    address = f"file:{tmp_path / 's.db'}?vfs=unix-dotfile"

    async def main() -> None:
        async with SessionDB(address) as db:
            await db.create_session("s")
            await db.append_message("s", UserMessage("kept"))
            assert len(await db.get_messages("s")) == 1

    with caplog.at_level(logging.WARNING, "hermes_store"):
        asyncio.run(main())
    assert "SQLite answered delete" in caplog.text

    async def insist() -> None:
        with pytest.raises(StoreError, match="journal='auto'"):
            await SessionDB(address, journal="wal").list_sessions()

    asyncio.run(insist())


def test_the_journal_and_the_durability_can_be_chosen(tmp_path: Path) -> None:
    async def main(path: Path, **options: str) -> list[str]:
        async with SessionDB(path, **options) as db:  # type: ignore[arg-type]
            await db.create_session("s")
            return sorted(entry.suffix for entry in path.parent.iterdir())

    assert asyncio.run(main(tmp_path / "a.db", synchronous="FULL")) == [".db", ".db-shm", ".db-wal"]
    (tmp_path / "b").mkdir()
    assert asyncio.run(main(tmp_path / "b" / "b.db", journal="delete")) == [".db"]


LIMITED = """
import asyncio, resource, signal, sys
from hermes_messages import UserMessage
from hermes_store import SessionDB, StoreFullError

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sys.dont_write_bytecode = True  # else the limit would cut the cached modules of everybody

async def main():
    async with SessionDB(sys.argv[1]) as db:
        await db.create_session("s")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
        kept, failures = 0, 0
        while failures < 3 and kept < 1000:
            try:
                await db.append_message("s", UserMessage("x" * 3000))
                kept += 1
            except StoreFullError as error:
                failures += 1
                message = str(error)
        assert len(await db.get_messages("s")) == kept
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        await db.append_message("s", UserMessage("there is room again"))
        print(kept + 1, failures, message)

asyncio.run(main())
"""


def test_a_full_disk_is_a_typed_error_and_the_next_write_works_when_there_is_room(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    run = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr
    kept, failures, message = run.stdout.split(" ", 2)
    assert failures == "3"
    assert "earlier messages are" in message

    async def main() -> None:
        async with SessionDB(path) as db:
            assert len(await db.get_messages("s")) == int(kept)

    asyncio.run(main())


def test_the_pages_of_a_small_database_run_out(tmp_path: Path) -> None:
    """SQLite's own answer for a full database, in the middle of a group of writes."""

    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            assert isinstance(db._backend, SqliteBackend)
            link = await db._backend._opened()
            full: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            def limit(connection: sqlite3.Connection | None) -> None:
                assert connection is not None
                connection.execute("PRAGMA max_page_count = 60")
                full.get_loop().call_soon_threadsafe(full.set_result, None)

            link.connection.post(limit)
            await full
            writes = [db.append_message("s", UserMessage("y" * 9000), uid=str(n)) for n in range(100)]
            results = await asyncio.gather(*writes, return_exceptions=True)
            kept = [str(n) for n, result in enumerate(results) if isinstance(result, int)]
            assert all(isinstance(result, int | StoreFullError) for result in results)
            assert len(kept) < 100
            assert sorted(item.uid for item in await db.get_messages("s")) == sorted(kept)

    asyncio.run(main())


def test_a_copy_of_the_file_and_its_log_is_whole(tmp_path: Path) -> None:
    """What was acknowledged is in the file or its log at that moment, not in the memory of the process."""

    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            await db.append_message("s", UserMessage("acknowledged"))
            for name in ("s.db", "s.db-wal"):
                shutil.copy(tmp_path / name, tmp_path / f"copy-{name}")
        async with SessionDB(tmp_path / "copy-s.db") as db:
            assert len(await db.get_messages("s")) == 1

    asyncio.run(main())


def test_a_log_that_is_cut_loses_its_end_and_nothing_before_it(tmp_path: Path) -> None:
    """A crash of the machine may leave half of the log: whole transactions of it stay."""
    path, log = tmp_path / "s.db", tmp_path / "s.db-wal"

    async def write() -> tuple[bytes, bytes]:
        async with SessionDB(path) as db:
            await db.create_session("s")
            for number in range(40):
                await db.append_message("s", UserMessage(f"stork {number} " + "x" * 300), uid=str(number))
            return path.read_bytes(), log.read_bytes()

    base, whole = asyncio.run(write())

    async def read() -> list[str]:
        async with SessionDB(path) as db:
            if await db.get_session("s") is None:
                await db.create_session("s")
            uids = [item.uid for item in await db.get_messages("s")]
            await db.append_message("s", UserMessage("and on"), uid="next")
            assert await db.check_integrity() == []
            return uids

    shortest = len(whole)
    for end in (len(whole), len(whole) - 1, len(whole) - 5000, len(whole) // 2, len(whole) // 2 + 33):
        for suffix in ("-wal", "-shm"):
            (tmp_path / f"s.db{suffix}").unlink(missing_ok=True)
        path.write_bytes(base)
        log.write_bytes(whole[:end])
        uids = asyncio.run(read())
        assert uids == [str(number) for number in range(len(uids))]
        shortest = min(shortest, len(uids))
    assert 0 < shortest < 40


def test_a_database_whose_file_may_not_be_written_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The answer is the same whoever runs this: SQLite is told that the file may only be read."""
    path = tmp_path / "s.db"
    make(path)
    alter(path, "PRAGMA user_version = 1")
    before = path.read_bytes()

    async def main() -> None:
        async with SessionDB(f"file:{path}?mode=ro") as db:
            assert len(await db.get_messages("s")) == 200
            with pytest.raises(StoreReadOnlyError, match="Check the rights"):
                await db.append_message("s", UserMessage("x"))
            assert len(await db.search_messages("message")) == 20

    with caplog.at_level(logging.WARNING, "hermes_store"):
        asyncio.run(main())
    assert "no write-ahead log (attempt to write a readonly database)" in caplog.text
    assert path.read_bytes() == before


def test_an_export_to_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    program = """
import asyncio, resource, signal, sys
from hermes_store import SessionDB, StoreFullError

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sys.dont_write_bytecode = True  # else the limit would cut the cached modules of everybody

async def main():
    async with SessionDB(sys.argv[1]) as db:
        await db.list_sessions()
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
        for write in (db.export_to_file, db.backup):
            try:
                await write(sys.argv[2])
            except StoreFullError as error:
                print("full:", error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        await db.export_to_file(sys.argv[2])

asyncio.run(main())
"""
    path = tmp_path / "s.db"
    make(path)
    run = subprocess.run(
        [sys.executable, "-c", program, str(path), str(tmp_path / "out.jsonl")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("full:") == 2
    assert sorted(entry.name for entry in tmp_path.iterdir() if "out" in entry.name) == ["out.jsonl"]
