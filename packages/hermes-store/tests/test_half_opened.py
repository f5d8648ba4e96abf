"""What is opened has an owner at once: a failure or a cancellation right after it leaves nothing open."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from hermes_messages import StoreError
from hermes_store import SessionDB
from hermes_store.sqlite_open import connect

REFUSED = "disk I/O error"


def test_a_file_that_can_not_be_watched_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[sqlite3.Connection] = []

    def noted(path: str, **options: Any) -> sqlite3.Connection:
        opened.append(connect(path, **options))
        return opened[-1]

    def refuse(_: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError(REFUSED)

    monkeypatch.setattr("hermes_store.sqlite.connect", noted)
    monkeypatch.setattr("hermes_store.sqlite.WatchedFile", refuse)

    async def main() -> None:
        db = SessionDB(tmp_path / "s.db")
        with pytest.raises(StoreError, match=REFUSED):
            await db.list_sessions()
        await db.close()

    asyncio.run(main())
    assert opened
    for connection in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")


def test_a_store_whose_opening_was_cancelled_before_its_first_step_can_not_be_used_any_more(
    tmp_path: Path,
) -> None:
    """As by a program that cancels all tasks of its loop, and goes on."""

    async def main() -> None:
        db = SessionDB(tmp_path / "s.db")
        for _ in range(2):
            call = asyncio.create_task(db.list_sessions())
            await asyncio.sleep(0)  # it has made the task that opens
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        assert await db.list_sessions() == []
        await db.close()

    asyncio.run(main())
