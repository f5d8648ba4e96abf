"""A cancelled call has happened whole or not at all, and the next one works."""

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
import pytest
from hard_times import stand_still

from hermes_messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from hermes_messages.protocols import NewMessage
from hermes_store import SessionDB
from hermes_store.backend import Operation, Statement
from hermes_store.connection import hand_over
from hermes_store.sqlite import SqliteBackend
from hermes_store.sqlite_open import SqliteOptions
from hermes_store.units import Unit, deliver
from hermes_store.waiting import finish, settle

ROUND = AssistantMessage(tool_calls=(ToolCall("a", "f", "{}"), ToolCall("b", "f", "{}")))


async def cancel_after(steps: int, work: Awaitable[object], *, times: int = 1) -> bool:
    """Cancel `work` after `steps` resumptions of the loop, `times` over. Whether it was cancelled."""
    task = asyncio.ensure_future(work)
    for _ in range(steps):
        await asyncio.sleep(0)
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    try:
        await task
    except asyncio.CancelledError:
        return True
    return False


def test_cancelled_at_every_step_of_a_first_call(tmp_path: Path) -> None:
    """Also the opening is interrupted; whoever comes next opens again or finds it open."""

    async def main() -> None:
        for times in (1, 2, 3):
            for steps in range(12):
                db = SessionDB(tmp_path / f"{steps}-{times}.db")
                cancelled = await cancel_after(steps, db.create_session("s"), times=times)
                known = await db.get_session("s")
                assert cancelled or known is not None
                await db.create_session("s")
                await db.append_message("s", UserMessage("x"))
                await db.close()

    asyncio.run(main())


def test_cancelled_at_every_step_of_every_write(tmp_path: Path) -> None:
    rows = [NewMessage(str(number), UserMessage("x")) for number in range(5)]

    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            for times in (1, 2):
                for steps in range(10):
                    name = f"{steps}-{times}"
                    await db.create_session(name)
                    done = not await cancel_after(steps, db.append_messages_batch(name, rows), times=times)
                    count = len(await db.get_messages(name))
                    assert count == 5 if done else count in (0, 5)
                    done = not await cancel_after(steps, db.begin_tool_round(name, "r", ROUND), times=times)
                    rounds = await db.open_rounds(name)
                    assert len(rounds) == 1 if done else len(rounds) in (0, 1)
                    assert all(len(round_.result_seqs) == 2 for round_ in rounds)
                    round_ = await db.begin_tool_round(name, "r", ROUND)
                    result = db.set_tool_result(round_, 1, ToolMessage("b", "done"))
                    done = not await cancel_after(steps, result, times=times)
                    stored = [item.message for item in await db.get_messages(name)]
                    assert (ToolMessage("b", "done") in stored) or not done
                    assert await db.append_messages_batch(name, rows)
        check(tmp_path / "s.db")

    asyncio.run(main())


def check(path: Path) -> None:
    connection = sqlite3.connect(path)
    try:
        connection.create_function("hermes_index_text", 1, lambda text: text, deterministic=True)
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        connection.close()


class Gate:
    """Holds the database's thread inside a transaction until it is opened."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.entered = asyncio.Event()
        self.opened = threading.Event()

    def operation(self, inner: Callable[[], Operation[object]]) -> Operation[object]:
        self.loop.call_soon_threadsafe(self.entered.set)
        assert self.opened.wait(300)
        return (yield from inner())


def backend(path: Path) -> SqliteBackend:
    return SqliteBackend(str(path), SqliteOptions())


def insert(name: str) -> Operation[object]:
    return (yield Statement("INSERT INTO counters (name, value) VALUES (?, 1)", (name,)))


def count(name: str) -> Operation[object]:
    return (yield Statement("SELECT count(*) FROM counters WHERE name = ?", (name,)))


def test_a_write_that_has_begun_is_awaited_and_the_cancellation_raised(tmp_path: Path) -> None:
    async def main() -> None:
        store, gate = backend(tmp_path / "s.db"), Gate()
        task = asyncio.create_task(store.write(partial(gate.operation, partial(insert, "x"))))
        await gate.entered.wait()
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0.01)
        assert not task.done()
        gate.opened.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await store.read(partial(count, "x")) == [(1,)]
        await store.close()

    asyncio.run(main())


def test_a_write_that_has_not_begun_is_not_done(tmp_path: Path) -> None:
    async def main() -> None:
        store, gate = backend(tmp_path / "s.db"), Gate()
        first = asyncio.create_task(store.write(partial(gate.operation, partial(insert, "x"))))
        await gate.entered.wait()
        second = asyncio.create_task(store.write(partial(insert, "y")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        gate.opened.set()
        await first
        assert await store.read(partial(count, "y")) == [(0,)]
        await store.close()

    asyncio.run(main())


def test_a_timeout_and_a_cancel_scope_wait_for_the_outcome_too(tmp_path: Path) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        store, gate = backend(tmp_path / "s.db"), Gate()
        assert await store.read(partial(count, "x")) == [(0,)]

        async def stop_it_and_open_the_gate(stop: Callable[[], None]) -> None:
            await gate.entered.wait()
            stop()
            loop.call_later(0.1, gate.opened.set)

        limit = asyncio.timeout(None)
        stopping = asyncio.create_task(stop_it_and_open_the_gate(lambda: limit.reschedule(loop.time())))
        with pytest.raises(TimeoutError):
            async with limit:
                await store.write(partial(gate.operation, partial(insert, "x")))
        assert gate.opened.is_set()
        await stopping
        gate = Gate()
        with anyio.CancelScope() as scope:
            stopping = asyncio.create_task(stop_it_and_open_the_gate(scope.cancel))
            await store.write(partial(gate.operation, partial(insert, "y")))
        assert scope.cancelled_caught
        await stopping
        assert gate.opened.is_set()
        for name in "xy":
            assert await store.read(partial(count, name)) == [(1,)]
        await store.close()

    asyncio.run(main())


def test_the_wait_of_a_cancelled_caller_is_bounded() -> None:
    async def main() -> None:
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(settle(never, 0.1))
        for _ in range(3):
            await asyncio.sleep(0.01)
            task.cancel()
        assert await task is False
        never.set_exception(OSError("nobody is left to hear this"))
        await asyncio.sleep(0)

    asyncio.run(main())


def test_a_process_that_stood_still_gives_clean_up_the_rest_of_its_time() -> None:
    async def main() -> None:
        work: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = [asyncio.create_task(settle(work, 300.0)), asyncio.create_task(finish(work, 300.0))]
        await asyncio.sleep(0)
        await stand_still()
        assert not any(task.done() for task in waiting)
        work.set_result(None)
        assert await asyncio.gather(*waiting) == [True, None]

    asyncio.run(main())


def test_a_cancellation_during_clean_up_is_raised_after_it() -> None:
    async def main() -> None:
        for failure in (None, OSError("told in the log")):
            work: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            task = asyncio.create_task(finish(work, 60.0))
            for _ in range(3):
                await asyncio.sleep(0)
                assert task.cancel()
            assert not task.done()
            work.set_result(None) if failure is None else work.set_exception(failure)
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())


def test_a_check_of_the_file_never_swallows_a_cancellation(tmp_path: Path) -> None:
    """Its connection is closed at the end, whatever happened before."""

    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            for steps in range(200):
                task = asyncio.create_task(db.check_integrity())
                for _ in range(steps):
                    await asyncio.sleep(0)
                told = task.cancel()
                await asyncio.wait({task})
                assert task.cancelled() or not told

    asyncio.run(main())


def test_one_cancelled_opener_does_not_spoil_the_opening_for_others(tmp_path: Path) -> None:
    async def main() -> None:
        db = SessionDB(tmp_path / "s.db")
        first = asyncio.create_task(db.create_session("a"))
        second = asyncio.create_task(db.create_session("b"))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == "b"
        with pytest.raises(asyncio.CancelledError):
            await first
        await db.close()

    asyncio.run(main())


def test_a_loop_closed_before_its_answer_comes_does_not_stop_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that can not deliver must go on: what waits behind would hang for ever."""
    monkeypatch.setattr("hermes_store.sqlite.SETTLE_S", 0.05)
    store = backend(tmp_path / "s.db")
    gates: list[Gate] = []

    async def leave() -> None:
        gates.append(Gate())
        held = asyncio.create_task(store.write(partial(gates[0].operation, partial(insert, "x"))))
        await gates[0].entered.wait()
        assert not held.done()

    async def look() -> None:
        async with asyncio.timeout(120):
            await store.write(partial(insert, "y"))  # waits for the lock of what was left behind
            assert await store.read(partial(count, "x")) == [(1,)]
            await store.close()

    asyncio.run(leave())
    [thread] = [thread for thread in threading.enumerate() if str(tmp_path) in thread.name]
    gates[0].opened.set()
    asyncio.run(look())
    thread.join(120)
    assert not thread.is_alive()


def test_an_answer_and_a_cancellation_that_meet() -> None:
    """The answer reaches the loop after the cancellation and before the task that is cancelled."""
    complaints: list[object] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        unit: Unit[object] = Unit(lambda: insert("x"), loop.create_future(), writes=True)
        assert unit.future is not None
        unit.future.cancel()
        deliver([unit])
        await asyncio.sleep(0)
        assert unit.is_delivered

    asyncio.run(main())
    assert complaints == []


def test_a_loop_that_is_closed_is_left_alone() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    hand_over(loop, lambda: None)


def test_loop_shutdown_in_the_middle_leaves_a_whole_database(tmp_path: Path) -> None:
    async def leave(db: SessionDB, steps: int) -> None:
        tasks = [asyncio.create_task(db.create_session(str(number))) for number in range(4)]
        for _ in range(steps):
            await asyncio.sleep(0)
        raise RuntimeError(f"{len(tasks)} tasks are left behind")

    async def look(db: SessionDB) -> None:
        async with asyncio.timeout(120):
            await db.create_session("another")
            assert len(await db.list_sessions()) in range(1, 6)
            await db.close()

    for steps in range(10):
        db = SessionDB(tmp_path / f"{steps}.db")
        with pytest.raises(RuntimeError):
            asyncio.run(leave(db, steps))
        asyncio.run(look(db))
        check(tmp_path / f"{steps}.db")
