"""What is opened has an owner at once: a failure or a cancellation right after it leaves nothing open."""

import asyncio
import gc
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes_messages import StoreError
from hermes_store import SessionDB
from hermes_store.hermes_state_import import read_hermes_state
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


@contextmanager
def uncollected() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_a_foreign_file_that_is_open_after_its_import_was_cancelled_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the garbage collector finds it."""
    opened: list[sqlite3.Connection] = []
    connect, began, may_go_on = sqlite3.connect, threading.Event(), threading.Event()

    def slowly(path: str, *, uri: bool, check_same_thread: bool = False) -> sqlite3.Connection:
        began.set()
        may_go_on.wait()
        opened.append(connect(path, uri=uri, check_same_thread=False))
        return opened[-1]

    def is_open() -> bool:
        try:
            opened[0].execute("SELECT 1")
        except (IndexError, sqlite3.ProgrammingError) as error:
            return isinstance(error, IndexError)  # not yet
        return True

    async def main() -> None:
        path = tmp_path / "state.db"
        path.touch()
        monkeypatch.setattr(sqlite3, "connect", slowly)
        reading = asyncio.ensure_future(anext(read_hermes_state(str(path))))
        while not began.is_set():  # noqa: ASYNC110 - it is set in a thread
            await asyncio.sleep(0.001)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        may_go_on.set()
        async with asyncio.timeout(60):
            while is_open():  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.001)

    with uncollected():
        asyncio.run(main())
