"""Schema versions: how a database of an older one is brought to the newest, whole or not at all."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from hermes_messages import StoreError, StoreSchemaError, UserMessage
from hermes_store import SessionDB
from hermes_store.migrations import ADDITIONS, APPLICATION_ID, COLUMNS, STEPS, VERSION

NEXT = ("ALTER TABLE sessions ADD COLUMN mood TEXT", "UPDATE sessions SET mood = 'calm'")


def pretend_next_version(monkeypatch: pytest.MonkeyPatch, *statements: str) -> None:
    """This version, and a later one that has one column more."""
    columns = {**COLUMNS, "sessions": f"{COLUMNS['sessions']}, mood"}
    monkeypatch.setattr("hermes_store.sqlite_open.STEPS", {**STEPS, VERSION + 1: statements})
    monkeypatch.setattr("hermes_store.sqlite_open.VERSION", VERSION + 1)
    monkeypatch.setattr("hermes_store.sqlite_open.COLUMNS", columns)


async def make(path: Path) -> None:
    async with SessionDB(path) as db:
        await db.create_session("s")
        await db.append_message("s", UserMessage("a stork"))


def version_of(path: Path) -> int:
    connection = sqlite3.connect(path)
    [(version,)] = connection.execute("PRAGMA user_version")
    connection.close()
    return int(version)


def test_an_older_database_is_brought_up_to_date_by_whoever_opens_it_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.db"
    asyncio.run(make(path))
    assert version_of(path) == VERSION
    pretend_next_version(monkeypatch, *NEXT)

    async def main() -> None:
        stores = [SessionDB(path) for _ in range(4)]
        await asyncio.gather(*(db.append_message("s", UserMessage("a heron")) for db in stores))
        assert len(await stores[0].get_messages("s")) == 5
        assert len(await stores[0].search_messages("stork")) == 1
        for db in stores:
            await db.close()

    asyncio.run(main())
    assert version_of(path) == VERSION + 1
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT mood FROM sessions").fetchall() == [("calm",)]
    connection.close()


def test_a_new_database_takes_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_next_version(monkeypatch, *NEXT)
    asyncio.run(make(tmp_path / "s.db"))
    assert version_of(tmp_path / "s.db") == VERSION + 1


def test_a_step_that_fails_leaves_the_older_database_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.db"
    asyncio.run(make(path))
    with monkeypatch.context() as patch:
        pretend_next_version(patch, *NEXT, "ALTER TABLE absent ADD COLUMN x")

        async def main() -> None:
            with pytest.raises(StoreError, match="no such table"):
                await SessionDB(path).list_sessions()

        asyncio.run(main())
    assert version_of(path) == VERSION
    asyncio.run(make(path))


def test_an_older_database_is_not_changed_by_one_who_may_only_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.db"
    asyncio.run(make(path))
    pretend_next_version(monkeypatch, *NEXT)

    async def main() -> None:
        with pytest.raises(StoreSchemaError, match="open it once for writing"):
            await SessionDB(path, read_only=True).list_sessions()

    asyncio.run(main())
    assert version_of(path) == VERSION


@pytest.mark.parametrize("table", sorted(COLUMNS))
def test_a_database_that_lacks_a_table_is_malformed(tmp_path: Path, table: str) -> None:
    path = tmp_path / "s.db"
    asyncio.run(make(path))
    connection = sqlite3.connect(path)
    connection.execute(f"ALTER TABLE {table} RENAME TO was_{table}")
    assert connection.execute("PRAGMA application_id").fetchall() == [(APPLICATION_ID,)]
    connection.commit()
    connection.close()

    async def main() -> None:
        with pytest.raises(StoreSchemaError, match="not touched"):
            await SessionDB(path).list_sessions()

    asyncio.run(main())


def test_a_schema_that_became_newer_while_it_was_open_is_no_longer_written(tmp_path: Path) -> None:
    """Two versions of the library on one file: the older one goes on reading and breaks nothing."""

    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            await db.append_message("s", UserMessage("before"))
            newer = sqlite3.connect(tmp_path / "s.db")
            newer.execute(f"PRAGMA user_version = {VERSION + 1}")
            newer.close()
            with pytest.raises(StoreSchemaError, match="newer hermes-store"):
                await db.append_message("s", UserMessage("after"))
            assert len(await db.get_messages("s")) == 1

    asyncio.run(main())


def take_additions_away(path: Path) -> None:
    """As a release left the database that did not know them yet."""
    connection = sqlite3.connect(path)
    for name in ADDITIONS:
        connection.execute(f"DROP INDEX {name}")
    connection.close()


def additions_of(path: Path) -> set[str]:
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'").fetchall()
    connection.close()
    return {name for (name,) in rows} & ADDITIONS.keys()


def test_an_index_that_came_later_is_missing_or_makes_a_new_version(tmp_path: Path) -> None:
    """An earlier release goes on with the file: to it nothing has changed."""
    path = tmp_path / "s.db"
    asyncio.run(make(path))
    assert additions_of(path) == ADDITIONS.keys()
    take_additions_away(path)
    asyncio.run(make(path))
    assert additions_of(path) == ADDITIONS.keys()
    assert version_of(path) == 1


def test_an_index_that_can_not_be_made_now_keeps_the_database_shut(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    asyncio.run(make(path))
    take_additions_away(path)

    async def main() -> None:
        writer = sqlite3.connect(path, isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")
        async with SessionDB(path, busy_timeout_s=0) as db, SessionDB(path, read_only=True) as reader:
            assert len(await db.get_messages("s")) == len(await reader.get_messages("s")) == 1
            assert additions_of(path) == set()
            writer.close()
            token = await db.acquire_session_turn_lease("s", "me", 60)
            assert await db.try_acquire_session_turn_lease("s", "you", 60) is None
            await db.release_session_turn_lease(token)

    asyncio.run(main())
