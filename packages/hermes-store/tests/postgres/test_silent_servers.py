"""A server that stands still: what is sent to it is taken, and nothing ever answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest

from hermes_messages import ConfigurationError, StoreError, UserMessage
from hermes_store import SessionDB
from hermes_store.errors import StoreConnectionError
from postgres.backends import ASLEEP, COMMITTING, backend, before_commits, count, insert, slow_commits
from postgres.server import MakeStore, Server

T = TypeVar("T")

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to find processes")

LIMITS_S = (1.0, 10.0, 100.0)
LONG_S = 50.0
"""A bound that only a wait for ever passes."""
END_THOSE_ASLEEP = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'active' AND query LIKE %s
"""


async def answered(call: Callable[[], Awaitable[T]]) -> T:
    """What `call` gives once the server, which runs, answers it in the short time that the store allows."""
    async with asyncio.timeout(LONG_S):
        while True:
            with contextlib.suppress(StoreError):
                return await call()


async def reaching_its_commit(
    server: Server, write: Callable[[], Awaitable[object]]
) -> asyncio.Future[object]:
    """`write`, made again where the server was too slow for it, once it waits in its commit."""
    task = asyncio.ensure_future(write())
    async with asyncio.timeout(LONG_S):
        while not (await server.ask(ASLEEP, COMMITTING))[0][0]:
            if task.done():
                assert "Nothing of this call" in str(task.exception())
                task = asyncio.ensure_future(write())
    return task


@contextlib.asynccontextmanager
async def gated_commits(server: Server, schema: str) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """During the block, or until what it gives is called, a commit that wrote a message stands at its end."""
    gate = "hashtextextended('gate', 0)"
    await before_commits(server, schema, "messages", f"pg_advisory_xact_lock({gate})")
    connection = await psycopg.AsyncConnection.connect(server.dsn())
    try:
        await connection.execute(f"SELECT pg_advisory_xact_lock({gate})")
        yield connection.commit
    finally:
        await connection.close()


def test_a_server_that_stands_still_is_given_up_in_time(server: Server, make_store: MakeStore) -> None:
    async def main(limit_s: float) -> str:
        db = make_store(answer_timeout_s=limit_s, busy_timeout_s=limit_s)
        await answered(lambda: db.create_session("s"))
        await answered(lambda: db.append_message("s", UserMessage("kept"), uid="1"))
        with server.standing_still():
            async with asyncio.timeout(LONG_S + 2 * limit_s):
                with pytest.raises(StoreError) as told:
                    await db.append_message("s", UserMessage("not kept"), uid="2")
                with pytest.raises(StoreError):
                    await db.get_messages("s")
        assert [item.uid for item in await answered(lambda: db.get_messages("s"))] == ["1"]
        await answered(lambda: db.append_message("s", UserMessage("kept too"), uid=f"after {limit_s}"))
        assert [item.uid for item in await answered(lambda: db.get_messages("s"))] == [
            "1",
            f"after {limit_s}",
        ]
        await db.delete_session("s")
        await db.close()
        return str(told.value)

    told = [""]
    for limit_s in LIMITS_S:  # with a short one it may have no connection any more to send anything on
        if "no answer within" not in told[-1]:
            told.append(asyncio.run(main(limit_s)))
    assert "no answer within" in told[-1], told
    assert "Nothing of this call" in told[-1]


def test_a_server_that_stands_still_during_a_commit_leaves_a_doubt_that_is_told(
    server: Server, schema: str
) -> None:
    async def doubt(limit_s: float) -> str:
        store = backend(server, schema, answer_timeout_s=limit_s, busy_timeout_s=0.5)
        await answered(lambda: store.read(partial(count, "first")))
        write = await reaching_its_commit(server, lambda: store.write(partial(insert, "second")))
        with server.standing_still():
            async with asyncio.timeout(LONG_S + 2 * limit_s):
                with pytest.raises(StoreConnectionError) as told:
                    await write
        assert await answered(lambda: store.read(partial(count, "first"))) == 1
        await store.close()
        await server.ask(END_THOSE_ASLEEP, COMMITTING)
        return str(told.value)

    async def main() -> None:
        patient = backend(server, schema)
        await patient.write(partial(insert, "first"))
        await slow_commits(server, schema, 600)
        told = [""]
        for limit_s in LIMITS_S:  # a short one may be over before the server stands still
            if "is not known" not in told[-1]:
                told.append(await doubt(limit_s))
        assert "Whether this write was kept is not known" in told[-1], told
        await patient.close()

    asyncio.run(main())


def test_a_commit_that_nobody_waits_for_any_more_is_known_to_the_next_writer(
    server: Server, make_store: MakeStore, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that was sent can not be called back. Whoever writes to the session next waits for its end."""
    for module in ("postgres", "postgres_appends"):
        monkeypatch.setattr(f"hermes_store.{module}.SETTLE_S", 0.2)

    async def main() -> None:
        async with make_store(pool_size=2, busy_timeout_s=LONG_S) as db:
            await db.create_session("s")
            async with gated_commits(server, schema) as open_gate:
                first = asyncio.create_task(db.append_message("s", UserMessage("x"), uid="1"))
                await server.until(ASLEEP, COMMITTING)
                with server.standing_still():
                    first.cancel()
                    async with asyncio.timeout(LONG_S):
                        with pytest.raises(asyncio.CancelledError):
                            await first
                again = asyncio.create_task(db.append_message("s", UserMessage("x"), uid="1"))
                title = asyncio.create_task(db.set_session_title("s", "after it"))
                await server.until("SELECT count(*) > 1 FROM pg_locks WHERE NOT granted")
                assert not again.done()
                await open_gate()
                seq = await again
                await title
            assert [(item.uid, item.seq) for item in await db.get_messages("s")] == [("1", seq)]

    asyncio.run(main())


def test_a_server_that_stands_still_lets_nobody_wait_to_open(server: Server, make_store: MakeStore) -> None:
    async def main() -> None:
        db = make_store(answer_timeout_s=0.5, busy_timeout_s=0.5)
        with server.standing_still():
            async with asyncio.timeout(LONG_S):
                with pytest.raises(StoreError):
                    await db.create_session("s")
        await answered(lambda: db.create_session("s"))
        await db.close()

    asyncio.run(main())


def test_no_time_for_an_answer_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="answer_timeout_s"):
        SessionDB("postgresql://h/d", answer_timeout_s=0)
