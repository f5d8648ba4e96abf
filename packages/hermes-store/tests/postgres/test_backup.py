"""A backup of a server's sessions: one snapshot, as a SQLite file of the store."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import types
from collections.abc import Callable, Coroutine, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_messages import (
    AssistantMessage,
    ConfigurationError,
    StoreError,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from hermes_messages.protocols import NewMessage
from hermes_store import SessionDB
from postgres.server import MakeStore, Server

NIGHTLY = os.environ.get("HERMES_TEST_PROFILE") == "nightly"
ONLY_OURS = "SELECT count(*) <= 2 FROM pg_stat_activity WHERE backend_type = 'client backend'"
"""The connection of the pool, and the one that asks."""


async def fill(db: SessionDB) -> None:
    """Sessions with something in every table."""
    await db.create_session("s", title="Störche\x00", model="m", metadata={"a": [1, None]})
    await db.update_session_meta("s", system_prompt="You know birds.")
    await db.append_message("s", UserMessage("Wo sind die Störche? \ud800 大别山"), uid="u")
    calls = (ToolCall("a", "look", '{"x": "\\u0000"}'), ToolCall("b", "look", "{}"))
    round_ = await db.begin_tool_round("s", "r", AssistantMessage(tool_calls=calls, reasoning="hm"))
    await db.set_tool_result(round_, 0, ToolMessage("a", "S" * 300_000))
    await db.suspend_round(round_, [{"call": "b"}])
    await db.set_session_state("s", "todos", ["fly"])
    await db.update_token_counts("s", Usage(input_tokens=7, cost_usd=0.1), uid="c")
    await db.create_session("t")
    rows = [NewMessage(str(n), UserMessage(f"stork {n}")) for n in range(350)]
    await db.append_messages_batch("t", rows)
    await db.archive_and_compact("t", [NewMessage("sum", UserMessage("many storks"))])


def test_a_backup_holds_every_byte(make_store: MakeStore, tmp_path: Path) -> None:
    async def main() -> None:
        async with make_store() as db:
            await fill(db)
            token = await db.acquire_session_turn_lease("t", "holder", 60)
            await db.backup(tmp_path / "copy.db")
            await db.export_to_file(tmp_path / "ours.jsonl")
            stored = await db.get_messages("s")
            suspended = await db.suspended_rounds("s")
        async with SessionDB(tmp_path / "copy.db") as copy:
            assert await copy.check_integrity() == []
            assert await copy.get_messages("s") == stored
            assert await copy.suspended_rounds("s") == suspended
            assert await copy.get_session_state("s", "todos") == ["fly"]
            await copy.export_to_file(tmp_path / "copy.jsonl")
            assert len(await copy.search_messages("stork", limit=1000)) == 350
            assert len(await copy.search_messages("storks")) == 1
            # The lease is held in the copy too, and the numbers of others go on from there.
            assert await copy.try_acquire_session_turn_lease("t", "another", 60) is None
            await copy.append_message("t", UserMessage("later"), lease=token)
            fresh = await copy.acquire_session_turn_lease("s", "another", 60)
            assert fresh.number > token.number
        assert (tmp_path / "copy.jsonl").read_bytes() == (tmp_path / "ours.jsonl").read_bytes()

    asyncio.run(main())
    assert sorted(entry.suffix for entry in tmp_path.iterdir()) == [".db", ".jsonl", ".jsonl"]


def test_a_backup_is_one_snapshot_while_others_write(make_store: MakeStore, tmp_path: Path) -> None:
    """A message whose session, or round, was made in the same transaction never comes without it."""

    async def main() -> None:
        async with make_store() as db:
            await db.create_session("s")
            acknowledged = 0
            stop = False

            async def write() -> None:
                nonlocal acknowledged
                while not stop:
                    session = await db.create_session(f"n{acknowledged}")
                    await db.append_message("s", UserMessage(f"stork {acknowledged}"))
                    await db.append_message(session, UserMessage("x"))
                    acknowledged += 1

            writer = asyncio.create_task(write())
            kept: list[int] = []
            for number in range(3):
                kept.append(acknowledged)
                await db.backup(tmp_path / f"copy{number}.db")
            stop = True
            await writer
            with pytest.raises(ConfigurationError, match="exists"):
                await db.backup(tmp_path / "copy0.db")
        for number, before in enumerate(kept):
            async with SessionDB(tmp_path / f"copy{number}.db") as copy:
                assert await copy.check_integrity() == []
                count = len(await copy.get_messages("s"))
                assert count >= before
                sessions = len(await copy.list_sessions(limit=10_000)) - 1
                assert sessions in (count, count + 1)
                assert len(await copy.search_messages("stork", limit=10_000)) == count

    asyncio.run(main())
    assert not [entry for entry in tmp_path.iterdir() if "partial" in entry.name]


async def counted(work: Coroutine[Any, Any, object], before_step: Callable[[], None]) -> object:
    """The same work; `before_step` is called before each resumption of it."""
    return await resumed(work, before_step)


@types.coroutine
def resumed(
    work: Coroutine[Any, Any, object], before_step: Callable[[], None]
) -> Generator[Any, Any, object]:
    """The same work as a task resumes it."""
    send, value = work.send, None
    while True:
        before_step()
        try:
            waited_for = send(value)
        except StopIteration as ended:
            return ended.value
        try:
            send, value = work.send, (yield waited_for)
        except BaseException as error:  # noqa: BLE001 - the work gets it
            send, value = work.throw, error


@contextlib.contextmanager
def stopped_at(step: int) -> Iterator[list[int]]:
    """The task that makes this is cancelled while the copying task of the backup makes its `step`-th step.
    Yields a list, which gets the numbers of the steps made."""
    loop, caller, made = asyncio.get_running_loop(), asyncio.current_task(), list[int]()
    assert caller is not None

    def before_step() -> None:
        made.append(len(made) + 1)
        if len(made) == step:
            caller.cancel()

    def make_task(
        loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **named: Any
    ) -> asyncio.Task[Any]:
        if getattr(work, "__name__", "") == "run_beside":
            return asyncio.Task(counted(work, before_step), loop=loop, **named)
        return asyncio.Task(work, loop=loop, **named)

    loop.set_task_factory(make_task)  # type: ignore[arg-type]
    try:
        yield made
    finally:
        loop.set_task_factory(None)


def test_a_backup_cancelled_at_any_step_leaves_no_file_and_no_connection(
    server: Server, make_store: MakeStore, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()

    async def stopped_backup(db: SessionDB, step: int) -> int:
        with stopped_at(step) as made:
            await db.backup(folder / "copy.db")
        return len(made)

    async def main() -> None:
        async with make_store(pool_size=1) as db:
            await fill(db)
            number = await stopped_backup(db, 0)
            assert number > 50
            (folder / "copy.db").unlink()
            for step in range(1, number, 1 if NIGHTLY else 7):
                [outcome] = await asyncio.gather(
                    asyncio.create_task(stopped_backup(db, step)), return_exceptions=True
                )
                if isinstance(outcome, int):  # answers that come together save steps: it had ended before
                    assert outcome < step
                    (folder / "copy.db").unlink()
                else:
                    assert isinstance(outcome, asyncio.CancelledError)
                assert not [*folder.iterdir()]
                gc.collect()  # what was left open would say so now
                await asyncio.sleep(0)
            assert await db.append_message("s", UserMessage("and on"))
            await server.until(ONLY_OURS)

    asyncio.run(main())


def test_a_backup_that_can_not_be_written_says_so(make_store: MakeStore, tmp_path: Path) -> None:
    async def main() -> None:
        async with make_store() as db:
            await fill(db)
            with pytest.raises(StoreError, match="check that its folder exists"):
                await db.backup(tmp_path / "absent" / "copy.db")
            assert await db.append_message("s", UserMessage("and on"))

    asyncio.run(main())
    assert not [*tmp_path.iterdir()]
