"""One writer at a time: who holds the lease, and what a late writer is told."""

import asyncio
import math
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hermes_messages import (
    AssistantMessage,
    ConfigurationError,
    LeaseLostError,
    StoreBusyError,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_messages.protocols import LeaseToken
from hermes_store import SessionDB
from hermes_store.backend import Operation, Statement
from hermes_store.fencing import HeldLease, refusal
from hermes_store.operations import leases
from hermes_store.sqlite import SqliteBackend
from hermes_store.sqlite_open import SqliteOptions

ROUND = AssistantMessage(tool_calls=(ToolCall("a", "f", "{}"),))


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def store_with_clock(path: Path) -> tuple[SessionDB, Clock]:
    db, clock = SessionDB(path), Clock()
    db._backend = SqliteBackend(str(path), SqliteOptions(), clock=clock)
    return db, clock


def test_the_rule() -> None:
    token = LeaseToken("s", "me", 4, 100.0)
    assert refusal(None, None, 50.0) is None
    assert refusal(None, token, 50.0) is not None
    assert refusal(HeldLease("me", 4, 100.0), token, 50.0) is None
    assert refusal(HeldLease("me", 4, 100.0), token, 150.0) is None
    assert refusal(HeldLease("you", 5, 100.0), token, 50.0) is not None
    assert refusal(HeldLease("you", 5, 100.0), token, 150.0) is not None
    assert refusal(HeldLease("you", 5, 100.0), None, 50.0) is not None
    assert refusal(HeldLease("you", 5, 100.0), None, 150.0) is None


def test_one_holder_at_a_time_and_numbers_that_grow(tmp_path: Path) -> None:
    async def main() -> None:
        db, clock = store_with_clock(tmp_path / "s.db")
        async with db:
            first = await db.try_acquire_session_turn_lease("s", "a", 10)
            assert first is not None
            assert first == LeaseToken("s", "a", first.number, 1010.0)
            assert await db.try_acquire_session_turn_lease("s", "b", 10) is None
            other = await db.try_acquire_session_turn_lease("t", "b", 10)
            assert other is not None
            await db.release_session_turn_lease(first)
            second = await db.try_acquire_session_turn_lease("s", "b", 10)
            assert second is not None
            assert second.number > first.number
            await db.release_session_turn_lease(first)
            assert await db.try_acquire_session_turn_lease("s", "a", 10) is None
            clock.now += 9
            second = await db.refresh_session_turn_lease(second, 10)
            clock.now += 9
            assert await db.try_acquire_session_turn_lease("s", "a", 10) is None
            clock.now += 2
            third = await db.try_acquire_session_turn_lease("s", "a", 10)
            assert third is not None
            assert third.number > second.number
            with pytest.raises(LeaseLostError):
                await db.refresh_session_turn_lease(second, 10)

    asyncio.run(main())


def test_a_late_writer_changes_nothing(tmp_path: Path) -> None:
    """Its process stood still past the end of its lease, and somebody else goes on."""

    async def main() -> None:
        db, clock = store_with_clock(tmp_path / "s.db")
        async with db:
            await db.create_session("s")
            old = await db.try_acquire_session_turn_lease("s", "old", 10)
            round_ = await db.begin_tool_round("s", "r", ROUND, lease=old)
            clock.now += 11
            await db.append_message("s", UserMessage("nobody took it"), lease=old)
            new = await db.try_acquire_session_turn_lease("s", "new", 10)
            before = await db.get_messages("s")
            for late in (old, None):
                with pytest.raises(LeaseLostError):
                    await db.append_message("s", UserMessage("late"), lease=late)
                with pytest.raises(LeaseLostError):
                    await db.begin_tool_round("s", "r2", ROUND, lease=late)
                with pytest.raises(LeaseLostError):
                    await db.set_tool_result(round_, 0, ToolMessage("a", "late"), lease=late)
                with pytest.raises(LeaseLostError):
                    await db.close_open_rounds("s", lease=late)
                with pytest.raises(LeaseLostError):
                    await db.delete_session("s", lease=late)
            assert await db.get_messages("s") == before
            await db.set_session_title("s", "titles are free")
            await db.update_session_meta("s", metadata={"a": 1})
            assert await db.close_open_rounds("s", lease=new) == 1
            assert new is not None
            await db.release_session_turn_lease(new)
            with pytest.raises(LeaseLostError):
                await db.append_message("s", UserMessage("late"), lease=new)
            await db.append_message("s", UserMessage("free again"))

    asyncio.run(main())


def test_a_group_of_writes_refuses_only_the_late_one(tmp_path: Path) -> None:
    async def main() -> None:
        db, clock = store_with_clock(tmp_path / "s.db")
        async with db:
            await db.create_session("s")
            old = await db.try_acquire_session_turn_lease("s", "old", 10)
            clock.now += 11
            new = await db.try_acquire_session_turn_lease("s", "new", 10)
            writes = [
                db.append_message("s", UserMessage(str(number)), lease=old if number % 3 == 0 else new)
                for number in range(30)
            ]
            results = await asyncio.gather(*writes, return_exceptions=True)
            for number, result in enumerate(results):
                assert isinstance(result, LeaseLostError if number % 3 == 0 else int)
            assert len(await db.get_messages("s")) == 20
            assert len(await db.search_messages("1")) == 1

    asyncio.run(main())


def test_a_lease_needs_a_time(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            for ttl in (0, -1, float("inf"), float("nan")):
                with pytest.raises(ConfigurationError):
                    await db.try_acquire_session_turn_lease("s", "a", ttl)

    asyncio.run(main())


def test_an_operation_of_the_backend_is_one_transaction(tmp_path: Path) -> None:
    """Two holders that ask at once, on two connections: one of them gets it."""

    async def main() -> None:
        stores = [SessionDB(tmp_path / "s.db") for _ in range(4)]
        for number in range(10):
            answers = await asyncio.gather(
                *(db.try_acquire_session_turn_lease("s", f"h{i}", 60) for i, db in enumerate(stores))
            )
            held = [answer for answer in answers if answer is not None]
            assert len(held) == 1, number
            await stores[0].release_session_turn_lease(held[0])
        for db in stores:
            await db.close()

    asyncio.run(main())


def test_a_waiter_gets_the_lease_when_it_is_given_back_in_the_order_of_arrival(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waiter is a store of its own, as in another process: only the database knows the order."""
    monkeypatch.setattr(leases, "TICKET_TTL_S", 3600.0)  # who stands still does not lose its place

    async def main() -> None:
        stores = [SessionDB(tmp_path / "s.db") for _ in range(5)]
        held = await stores[0].acquire_session_turn_lease("s", "first", 60)
        order: list[str] = []

        async def wait(number: int) -> None:
            token = await stores[number].acquire_session_turn_lease("s", f"h{number}", 60)
            order.append(token.holder)
            await stores[number].release_session_turn_lease(token)

        waiting = []
        for number in range(1, 5):
            waiting.append(asyncio.create_task(wait(number)))
            await tickets(stores[0], number)
        assert await stores[0].try_acquire_session_turn_lease("s", "barges in", 60) is None
        await stores[0].release_session_turn_lease(held)
        assert await stores[0].try_acquire_session_turn_lease("s", "barges in", 60) is None or order
        await asyncio.gather(*waiting)
        assert order == ["h1", "h2", "h3", "h4"]
        await tickets(stores[0], 0)
        for db in stores:
            await db.close()

    asyncio.run(main())


async def tickets(db: SessionDB, count: int) -> None:
    """Wait until so many stand in the queue."""

    def numbers() -> Operation[int]:
        rows = yield Statement("SELECT count(*) FROM lease_tickets")
        return int(rows[0][0])

    async with asyncio.timeout(120):
        while await db._backend.read(numbers) != count:  # noqa: ASYNC110 - it changes in a database
            await asyncio.sleep(0.005)


def test_a_cancelled_wait_leaves_nothing_behind(tmp_path: Path) -> None:
    """Cancelled at any step, also in the moment in which the lease is granted."""

    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            for free in (True, False):
                for times in (1, 2):
                    for steps in range(12):
                        held = None if free else await db.try_acquire_session_turn_lease("s", "x", 60)
                        wait = asyncio.create_task(db.acquire_session_turn_lease("s", "me", 60))
                        for _ in range(steps):
                            await asyncio.sleep(0)
                        for _ in range(times):
                            wait.cancel()
                            await asyncio.sleep(0)
                        [outcome] = await asyncio.gather(wait, return_exceptions=True)
                        if isinstance(outcome, LeaseToken):
                            await db.release_session_turn_lease(outcome)
                        if held is not None:
                            await db.release_session_turn_lease(held)
                        await tickets(db, 0)
                        again = await db.try_acquire_session_turn_lease("s", "next", 60)
                        assert again is not None
                        await db.release_session_turn_lease(again)

    asyncio.run(main())


def test_a_cancelled_attempt_leaves_no_lease_that_nobody_knows(tmp_path: Path) -> None:
    """Where the lease was granted to a caller who is gone, others would wait for its whole time."""

    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            granted = 0
            for steps in range(1, 12):
                attempt = asyncio.create_task(db.try_acquire_session_turn_lease("s", "me", 60))
                for _ in range(steps):
                    await asyncio.sleep(0)
                attempt.cancel()
                [outcome] = await asyncio.gather(attempt, return_exceptions=True)
                if isinstance(outcome, LeaseToken):
                    granted += 1
                    await db.release_session_turn_lease(outcome)
                again = await db.try_acquire_session_turn_lease("s", "next", 60)
                assert again is not None
                await db.release_session_turn_lease(again)
            assert granted < 11

    asyncio.run(main())


def test_a_cancellation_while_a_bounded_wait_gives_its_place_back_leaves_no_place(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.acquire_session_turn_lease("s", "holder", 60)
            write, asked = db._backend.write, 0

            async def cancelling(operation: Callable[[], Operation[Any]]) -> Any:
                nonlocal asked
                asked += 1
                if asked == 2:
                    wait.cancel()  # the place is being given back
                return await write(operation)

            db._backend.write = cancelling  # type: ignore[method-assign]
            wait = asyncio.create_task(db.acquire_session_turn_lease("s", "me", 60, wait_s=0))
            with pytest.raises(asyncio.CancelledError):
                await wait
            await tickets(db, 0)

    asyncio.run(main())


def test_an_attempt_that_was_rolled_back_gives_nothing_of_others_back(tmp_path: Path) -> None:
    """The number that it had got is another's by the time when the caller is cancelled."""

    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db, SessionDB(tmp_path / "s.db") as other:
            write, taken = db._backend.write, None

            async def attempt_twice(operation: Callable[[], Operation[Any]]) -> Any:
                nonlocal taken
                if taken is None:
                    with pytest.raises(ZeroDivisionError):
                        await write(lambda: rolled_back(operation()))
                    taken = await other.try_acquire_session_turn_lease("s", "other", 60)
                    wait.cancel()
                return await write(operation)

            db._backend.write = attempt_twice  # type: ignore[method-assign]
            wait = asyncio.create_task(db.acquire_session_turn_lease("s", "me", 60))
            with pytest.raises(asyncio.CancelledError):
                await wait
            assert taken is not None
            await other.refresh_session_turn_lease(taken, 60)
            await tickets(other, 0)

    asyncio.run(main())


def rolled_back(operation: Operation[Any]) -> Operation[None]:
    """All that `operation` does, and then a failure."""
    yield from operation
    raise ZeroDivisionError


def test_a_wait_can_be_bounded(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            held = await db.acquire_session_turn_lease("s", "me", 60, wait_s=0)
            with pytest.raises(StoreBusyError, match="did not come free"):
                await db.acquire_session_turn_lease("s", "you", 60, wait_s=0.05)
            await tickets(db, 0)
            with pytest.raises(ConfigurationError, match="wait_s is not a number"):
                await db.acquire_session_turn_lease("s", "you", 60, wait_s=math.nan)
            await db.release_session_turn_lease(held)
            with pytest.raises(ConfigurationError):
                await db.acquire_session_turn_lease("s", "you", 0)

    asyncio.run(main())


def test_the_place_of_a_waiter_that_died_is_void_after_a_while(tmp_path: Path) -> None:
    async def main() -> None:
        db, clock = store_with_clock(tmp_path / "s.db")
        async with db:
            held = await db.try_acquire_session_turn_lease("s", "holder", 10)
            assert held is not None
            ask = partial(leases.request, "s", "dead", 10.0, "dead", None)
            first = await db._backend.write(ask)
            second = await db._backend.write(partial(leases.request, "s", "alive", 10.0, "alive", None))
            assert isinstance(first, int)
            assert isinstance(second, int)
            assert second > first
            await db.release_session_turn_lease(held)
            shown = partial(leases.request, "s", "alive", 10.0, "alive", second)
            clock.now += 4
            assert await db._backend.write(shown) == second
            assert await db.try_acquire_session_turn_lease("s", "new", 10) is None
            clock.now += 2
            token = await db._backend.write(shown)
            assert isinstance(token, LeaseToken)
            assert token.holder == "alive"
            await tickets(db, 0)

    asyncio.run(main())


def test_a_dead_waiter_does_not_keep_its_place_for_an_hour_because_the_clock_was_set_back(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        db, clock = store_with_clock(tmp_path / "s.db")
        async with db:
            held = await db.try_acquire_session_turn_lease("s", "holder", 10)
            assert held is not None
            await db._backend.write(partial(leases.request, "s", "dead", 10.0, "dead", None))
            await db.release_session_turn_lease(held)
            assert await db.try_acquire_session_turn_lease("s", "new", 10) is None
            clock.now -= 3600
            token = await db._backend.write(partial(leases.request, "s", "alive", 10.0, "alive", None))
            assert isinstance(token, LeaseToken)
            await tickets(db, 0)

    asyncio.run(main())


def test_the_holder_whose_lease_ran_out_is_followed_by_who_waited(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            old = await db.acquire_session_turn_lease("s", "dead", 0.1)
            new = await db.acquire_session_turn_lease("s", "heir", 60, wait_s=20)
            assert new.number > old.number
            with pytest.raises(LeaseLostError):
                await db.append_message("s", UserMessage("late"), lease=old)

    asyncio.run(main())


def test_a_statement_about_tickets_reads_the_whole_table(tmp_path: Path) -> None:
    """Each finds its one row through an index."""

    def plan(sql: str) -> Operation[list[str]]:
        assert sqlite3.sqlite_version_info >= (3, 37)
        rows = yield Statement(f"EXPLAIN QUERY PLAN {sql}", (0,) * sql.count("?"))
        return [str(row[-1]) for row in rows]

    async def main() -> set[str]:
        async with SessionDB(tmp_path / "s.db") as db:
            found = [await db._backend.write(partial(plan, sql)) for sql in leases.TICKET_STATEMENTS]
        return {step for steps in found for step in steps}

    assert asyncio.run(main()) == {
        "SEARCH lease_tickets USING INDEX lease_tickets_by_lineage (lineage=?)",
        "SEARCH lease_tickets USING INTEGER PRIMARY KEY (rowid=?)",
    }
