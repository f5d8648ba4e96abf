"""Opened by the first call, closed by its owner, usable on the next event loop, loud when forgotten."""

import asyncio
import gc
import subprocess
import sys
import warnings

import pytest

from hermes_messages import UserMessage
from hermes_store import StoreClosedError
from hermes_store.postgres import WRITES_BEFORE_INDEXING, PostgresBackend
from postgres.server import MakeStore, Server

CLIENTS = """
SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
"""


def test_construction_opens_nothing_and_closing_leaves_nothing(server: Server, make_store: MakeStore) -> None:
    async def main() -> None:
        gc.collect()  # connections that were being made when an earlier test's loop ended
        db = make_store()
        await server.until(CLIENTS)
        await db.close()
        async with db:
            await asyncio.gather(*(db.create_session(str(number)) for number in range(20)))
        await server.until(CLIENTS)
        with pytest.raises(StoreClosedError):
            await db.get_session("0")
        await asyncio.gather(db.close(), db.close())
        async with db:
            assert await db.get_session("0") is not None
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


def test_closing_lets_what_was_begun_end(make_store: MakeStore) -> None:
    async def main() -> None:
        db = make_store()
        await db.create_session("s")
        writes = [asyncio.create_task(db.append_message("s", UserMessage(str(n)))) for n in range(20)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await db.close()
        results = await asyncio.gather(*writes, return_exceptions=True)
        assert all(isinstance(result, int | StoreClosedError) for result in results)
        kept = sum(isinstance(result, int) for result in results)
        async with db:
            assert len(await db.get_messages("s")) == kept

    asyncio.run(main())


def test_the_next_event_loop_may_use_it(server: Server, make_store: MakeStore) -> None:
    """The connections of the loop that is gone are dropped, also where nobody closed."""
    db = make_store()
    asyncio.run(db.create_session("s"))
    asyncio.run(db.create_session("t"))

    async def look() -> None:
        assert len(await db.list_sessions()) == 2
        await db.close()
        await server.until(CLIENTS)

    asyncio.run(look())


def test_a_store_left_unclosed_warns_and_lets_go(server: Server, make_store: MakeStore) -> None:
    async def use() -> None:
        await make_store().create_session("s")

    async def look() -> None:
        await server.until(CLIENTS)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(use())
        gc.collect()
    assert [item.category for item in caught] == [ResourceWarning]
    assert "was not closed" in str(caught[0].message)
    assert "s3cret" not in str(caught[0].message)
    asyncio.run(look())


def test_a_store_forgotten_while_its_loop_goes_on_ends_its_tasks(
    server: Server, make_store: MakeStore
) -> None:
    async def main() -> None:
        with pytest.warns(ResourceWarning, match="was not closed"):
            await make_store().create_session("s")
        await server.until(CLIENTS)
        async with asyncio.timeout(120):
            while len(asyncio.all_tasks()) > 1:  # noqa: ASYNC110 - whatever tasks there are
                await asyncio.sleep(0.01)

    asyncio.run(main())


FORGETFUL = """
import asyncio, sys
from hermes_store import SessionDB

db = SessionDB(sys.argv[1], schema=sys.argv[2])

async def main():
    await asyncio.gather(*(db.create_session(str(number)) for number in range(5)))

asyncio.run(main())
print("done")
"""


def test_a_program_that_forgets_to_close_ends(server: Server, schema: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", FORGETFUL, server.dsn(), schema],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert "was not closed" in done.stderr
    assert "s3cret" not in done.stderr


def test_the_index_takes_new_messages_in_without_a_search(
    server: Server, make_store: MakeStore, schema: str
) -> None:
    async def main() -> None:
        async with make_store() as db:
            await db.create_session("s")
            for start in range(0, WRITES_BEFORE_INDEXING, 32):
                await asyncio.gather(
                    *(db.append_message("s", UserMessage(f"stork {start + n}")) for n in range(32))
                )
            await server.until(
                f'SELECT count(*) >= {WRITES_BEFORE_INDEXING} - 1 FROM "{schema}".message_index'
            )
            assert len(await db.search_messages("stork", limit=1000)) == WRITES_BEFORE_INDEXING

    asyncio.run(main())


def test_texts_too_long_for_the_index_are_found(make_store: MakeStore) -> None:
    async def main() -> None:
        async with make_store() as db:
            await db.create_session("s")
            long = " ".join(f"word{number}" for number in range(60_000))
            await db.append_message("s", UserMessage(f"{long} heron"))
            await db.append_message("s", UserMessage("a heron"))
            await db.append_message("s", UserMessage("no bird " * 20_000))
            assert len(await db.search_messages("heron")) == 2
            assert len(await db.search_messages("heron word59999")) == 1
            assert len(await db.search_messages("heron", limit=1)) == 1

    asyncio.run(main())


def test_phrases_are_found_behind_many_that_only_have_the_words(make_store: MakeStore) -> None:
    async def main() -> None:
        async with make_store() as db:
            await db.create_session("s")
            for number in range(150):
                await db.append_message("s", UserMessage(f"agent {number} is not multi"))
            await db.append_message("s", UserMessage("in a multi-agent system"))
            assert len(await db.search_messages("multi-agent")) == 1

    asyncio.run(main())


def test_a_store_whose_closing_was_cancelled_before_its_first_step_keeps_its_connections(
    make_store: MakeStore,
) -> None:
    async def main() -> None:
        db = make_store()
        assert await db.list_sessions() == []
        assert isinstance(db._backend, PostgresBackend)
        assert db._backend._link is not None
        connections = list(db._backend._link.connections)
        closing = asyncio.create_task(db.close())
        await asyncio.sleep(0)  # it has made the task that closes
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert connections
        assert all(connection.closed for connection in connections)

    asyncio.run(main())
