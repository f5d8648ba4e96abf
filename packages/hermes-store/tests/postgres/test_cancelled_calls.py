"""A cancelled call has happened whole or not at all, its query ends on the server, no connection leaks."""

import asyncio
import inspect
import random
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import Any, TypeVar

import anyio
import pytest

from hermes_messages import AssistantMessage, StoreBusyError, ToolCall, ToolMessage, UserMessage
from hermes_messages.protocols import NewMessage
from hermes_store import postgres_link
from postgres.backends import (
    ASLEEP,
    COMMITTING,
    PATIENCE_S,
    SLEEPING,
    answered,
    backend,
    count,
    insert,
    sleep,
    slow_commits,
)
from postgres.server import MakeStore, Server

T = TypeVar("T")
ROUND = AssistantMessage(tool_calls=(ToolCall("a", "f", "{}"), ToolCall("b", "f", "{}")))
LOCKS = """
SELECT count(*) FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND a.datname = 'postgres'
"""


async def cancel_after(seconds: float, work: Awaitable[object], *, times: int = 1) -> bool:
    """Cancel `work` some time after it began, `times` over. Whether it was cancelled."""
    task = asyncio.ensure_future(work)
    await asyncio.wait({task}, timeout=seconds)
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    try:
        await task
    except asyncio.CancelledError:
        return True
    return False


def test_cancelled_while_opening_at_any_moment(make_store: MakeStore, schema: str) -> None:
    """Whoever comes next opens again or finds it open; the schema is whole or not there."""
    moments = random.Random(1)

    async def main() -> None:
        for number in range(12):
            db = make_store(schema=f"{schema}_{number}")
            cancelled = await cancel_after(
                moments.uniform(0, 0.1), db.create_session("s"), times=number % 3 + 1
            )
            known = await db.get_session("s")
            assert cancelled or known is not None
            await db.create_session("s")
            await db.append_message("s", UserMessage("x"))
            await db.close()

    asyncio.run(main())


def test_writes_cancelled_at_any_moment(server: Server, make_store: MakeStore) -> None:
    moments = random.Random(2)
    rows = [NewMessage(str(number), UserMessage("x")) for number in range(5)]

    async def main() -> None:
        async with make_store(pool_size=2) as db:
            for number in range(40):
                name, times, longest = f"s{number}", number % 3 + 1, 0.012
                await db.create_session(name)
                append = db.append_messages_batch(name, rows)
                done = not await cancel_after(moments.uniform(0, longest), append, times=times)
                stored = len(await db.get_messages(name))
                assert stored == 5 if done else stored in (0, 5)
                begin = db.begin_tool_round(name, "r", ROUND)
                done = not await cancel_after(moments.uniform(0, longest), begin, times=times)
                rounds = await db.open_rounds(name)
                assert len(rounds) == 1 if done else len(rounds) in (0, 1)
                assert all(len(round_.result_seqs) == 2 for round_ in rounds)
                round_ = await db.begin_tool_round(name, "r", ROUND)
                result = db.set_tool_result(round_, 1, ToolMessage("b", "done"))
                done = not await cancel_after(moments.uniform(0, longest), result, times=times)
                assert not done or ToolMessage("b", "done") in [
                    item.message for item in await db.get_messages(name)
                ]
                assert len(await db.append_messages_batch(name, rows)) == 5
            await asyncio.gather(*(db.append_message("s0", UserMessage("after")) for _ in range(8)))
        assert await server.ask(LOCKS) == [(0,)]

    asyncio.run(main())


@pytest.mark.parametrize("times", [1, 2])
def test_a_cancelled_query_ends_on_the_server(server: Server, schema: str, times: int) -> None:
    async def main() -> None:
        store = backend(server, schema, pool_size=2)
        for work in (store.write(partial(insert, "x", sleeps=True)), store.read(sleep)):
            task = asyncio.create_task(work)
            await server.until(ASLEEP, SLEEPING)
            for _ in range(times):
                task.cancel()
                await asyncio.sleep(0)
            async with asyncio.timeout(120):
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert await server.ask(ASLEEP, SLEEPING) == [(False,)]
            assert await server.ask(LOCKS) == [(0,)]
        assert await store.read(partial(count, "x")) == 0
        await store.close()

    asyncio.run(main())


def test_cancelled_calls_leave_the_pool_whole(server: Server, schema: str) -> None:
    """Two connections, and more cancelled calls than that."""

    async def main() -> None:
        store = backend(server, schema, pool_size=2)
        await store.read(partial(count, "x"))
        for _ in range(3):
            tasks = [asyncio.create_task(store.read(sleep)) for _ in range(5)]
            await server.until("SELECT count(*) = 2 FROM pg_stat_activity WHERE query LIKE %s", SLEEPING)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert all(task.cancelled() for task in tasks)
        async with asyncio.timeout(120):
            assert await asyncio.gather(*(store.read(partial(count, "x")) for _ in range(6))) == [0] * 6
        await store.close()

    asyncio.run(main())


MOST_WAITS = 60
"""More than any call here has."""


class CancelsAt:
    """A task factory: cancels `caller` when the back end's task for it has begun its k-th wait."""

    WATCHED = "PostgresBackend._run"

    def __init__(self, k: int) -> None:
        self.k = k
        self.waits = 0
        self.caller: asyncio.Task[object] | None = None

    def __call__(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Coroutine[Any, Any, T] | Generator[Any, None, T],
        **given: Any,
    ) -> asyncio.Task[T]:
        if inspect.iscoroutine(work) and work.__qualname__ == self.WATCHED:
            return asyncio.Task(self.watch(work), loop=loop, **given)
        assert isinstance(work, Coroutine)
        return asyncio.Task(work, loop=loop, **given)

    async def watch(self, work: Coroutine[Any, Any, T]) -> T:
        return await self.waits_of(work)

    @types.coroutine
    def waits_of(self, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        go_on: Callable[[], object] = partial(work.send, None)
        while True:
            try:
                waits_for = go_on()
            except StopIteration as stop:
                result: T = stop.value
                return result
            self.waits += 1
            if self.waits == self.k and self.caller is not None:
                asyncio.get_running_loop().call_soon(self.caller.cancel)
            try:
                yield waits_for
            except BaseException as error:  # noqa: BLE001 - handed on
                go_on = partial(work.throw, error)
            else:
                go_on = partial(work.send, None)


async def cancel_at(
    k: int, call: Callable[[], Coroutine[Any, Any, object]]
) -> tuple[bool, asyncio.Task[object]]:
    """The ended call, cancelled at the k-th wait of the back end's task. Whether there was such a wait."""
    loop, cancels = asyncio.get_running_loop(), CancelsAt(k)
    caller = cancels.caller = loop.create_task(call())
    loop.set_task_factory(cancels)
    try:
        await asyncio.wait({caller})
    finally:
        loop.set_task_factory(None)
    return cancels.waits >= k, caller


@pytest.mark.parametrize("name", ["append", "append to none", "read", "read none", "delete"])
def test_cancelled_at_every_wait_of_a_call(make_store: MakeStore, name: str) -> None:
    """The rollback of a refused call is one of them. Each time the only connection is there for the next."""

    async def main() -> None:
        async with make_store(pool_size=1) as db:
            rows = [NewMessage(str(number), UserMessage("x")) for number in range(3)]
            calls: dict[str, Callable[[str], Coroutine[Any, Any, object]]] = {
                "append": lambda session: db.append_messages_batch(session, rows),
                "append to none": lambda _: db.append_messages_batch("none", rows),
                "read": db.get_messages,
                "read none": lambda _: db.get_messages("none"),
                "delete": db.delete_session,
            }
            for k in range(1, MOST_WAITS):
                session = f"s{k}"
                await db.create_session(session)
                cancelled, ended = await cancel_at(k, partial(calls[name], session))
                assert ended.cancelled() == cancelled
                if name == "delete":
                    assert cancelled or await db.get_session(session) is None
                else:
                    stored = len(await db.get_messages(session))
                    whole = 3 if name == "append" else 0
                    assert stored == whole or (cancelled and stored == 0)
                if not cancelled:
                    break
            assert 3 < k < MOST_WAITS - 1
            assert (ended.exception() is not None) == ("none" in name)

    asyncio.run(main())


def test_cancelled_while_it_waits_for_a_lock(server: Server, schema: str) -> None:
    async def main() -> None:
        first, second = backend(server, schema), backend(server, schema)
        holder = asyncio.create_task(first.write(partial(insert, "x", sleeps=True)))
        await server.until(ASLEEP, SLEEPING)
        waiter = asyncio.create_task(second.write(partial(insert, "y")))
        await server.until("SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        assert not holder.done()
        holder.cancel()
        with pytest.raises(asyncio.CancelledError):
            await holder
        await second.write(partial(insert, "z"))
        assert [await first.read(partial(count, name)) for name in "xyz"] == [0, 0, 1]
        await first.close()
        await second.close()

    asyncio.run(main())


def test_a_commit_on_its_way_is_awaited(server: Server, schema: str) -> None:
    async def main() -> None:
        store = backend(server, schema)
        await store.read(partial(count, "x"))
        await slow_commits(server, schema, 0.5)
        task = asyncio.create_task(store.write(partial(insert, "x")))
        await server.until(ASLEEP, COMMITTING)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0.01)
        assert not task.done()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await store.read(partial(count, "x")) == 1
        await store.close()

    asyncio.run(main())


def test_a_timeout_and_a_cancel_scope_undo_the_call(server: Server, schema: str) -> None:
    async def main() -> None:
        store = backend(server, schema)
        await store.read(partial(count, "x"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await store.write(partial(insert, "x", sleeps=True))
        with anyio.move_on_after(0.1) as scope:
            await store.write(partial(insert, "y", sleeps=True))
        assert scope.cancelled_caught
        assert [await store.read(partial(count, name)) for name in "xy"] == [0, 0]
        await store.close()

    asyncio.run(main())


def test_one_cancelled_opener_does_not_spoil_the_opening_for_others(make_store: MakeStore) -> None:
    async def main() -> None:
        db = make_store()
        first = asyncio.create_task(db.create_session("a"))
        second = asyncio.create_task(db.create_session("b"))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == "b"
        with pytest.raises(asyncio.CancelledError):
            await first
        await db.close()

    asyncio.run(main())


def test_an_exhausted_pool_is_waited_for_and_not_for_ever(
    server: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        store = backend(server, schema, pool_size=1, busy_timeout_s=0.1)
        holder = asyncio.create_task(store.read(sleep))
        await server.until(ASLEEP, SLEEPING)
        async with asyncio.timeout(120):
            with pytest.raises(StoreBusyError, match="all 1 connections are in use"):
                await store.read(partial(count, "x"))
        monkeypatch.setattr(postgres_link, "LEAST_WAIT_S", PATIENCE_S)
        waiting = asyncio.create_task(store.read(partial(count, "x")))
        await asyncio.sleep(0)
        holder.cancel()
        assert await waiting == 0
        assert (await asyncio.gather(holder, return_exceptions=True))[0] is not None
        await store.close()

    asyncio.run(main())


def test_a_lock_that_others_hold_is_waited_for_and_not_for_ever(server: Server, schema: str) -> None:
    async def main() -> None:
        first, second = backend(server, schema), backend(server, schema, busy_timeout_s=0.2)
        await answered(lambda: second.read(partial(count, "x")))
        holder = asyncio.create_task(first.write(partial(insert, "x", sleeps=True)))
        await server.until(ASLEEP, SLEEPING)
        with pytest.raises(StoreBusyError, match="try again"):
            await second.write(partial(insert, "y"))
        assert await answered(lambda: second.read(partial(count, "y"))) == 0  # reading waits for nobody
        holder.cancel()
        await asyncio.gather(holder, return_exceptions=True)
        await answered(lambda: second.write(partial(insert, "y")))
        await first.close()
        await second.close()

    asyncio.run(main())


def test_loop_shutdown_in_the_middle_leaves_a_whole_database(make_store: MakeStore) -> None:
    db = make_store()

    async def leave(seconds: float) -> None:
        tasks = [asyncio.create_task(db.create_session(f"{seconds}-{number}")) for number in range(4)]
        await asyncio.sleep(seconds)
        raise RuntimeError(f"{len(tasks)} tasks are left behind")

    async def look() -> None:
        async with asyncio.timeout(120):
            await db.create_session("another")
            assert len(await db.list_sessions(limit=1000)) >= 1

    for seconds in (0, 0.001, 0.003, 0.006, 0.01, 0.02, 0.05):
        with pytest.raises(RuntimeError):
            asyncio.run(leave(seconds))
        asyncio.run(look())
    asyncio.run(db.close())
