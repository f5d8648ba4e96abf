"""A server that stands still: what is sent to it is taken, and nothing ever answers."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from hermes_messages import ConfigurationError, StoreError, UserMessage
from hermes_store import SessionDB
from hermes_store.errors import StoreConnectionError
from postgres.backends import ASLEEP, COMMITTING, backend, count, insert, slow_commits
from postgres.server import MakeStore, Server

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to find processes")


def test_a_server_that_stands_still_is_given_up_in_time(server: Server, make_store: MakeStore) -> None:
    async def main() -> None:
        async with make_store(answer_timeout_s=0.5, busy_timeout_s=0.5) as db:
            await db.create_session("s")
            await db.append_message("s", UserMessage("kept"), uid="1")
            with server.standing_still():
                async with asyncio.timeout(30):
                    with pytest.raises(
                        StoreConnectionError, match=r"no answer within 0.5 s.*Nothing of this call"
                    ):
                        await db.append_message("s", UserMessage("not kept"), uid="2")
                    with pytest.raises(StoreError):
                        await db.get_messages("s")
            async with asyncio.timeout(30):
                assert [item.uid for item in await db.get_messages("s")] == ["1"]
                await db.append_message("s", UserMessage("kept too"), uid="3")
                assert [item.uid for item in await db.get_messages("s")] == ["1", "3"]

    asyncio.run(main())


def test_a_server_that_stands_still_during_a_commit_leaves_a_doubt_that_is_told(
    server: Server, schema: str
) -> None:
    async def main() -> None:
        store = backend(server, schema, answer_timeout_s=1.0, busy_timeout_s=0.5)
        await store.write(partial(insert, "first"))
        await slow_commits(server, schema, 0.5)
        write = asyncio.create_task(store.write(partial(insert, "second")))
        await server.until(ASLEEP, COMMITTING)
        with server.standing_still():
            async with asyncio.timeout(30):
                with pytest.raises(StoreConnectionError, match="Whether this write was kept is not known"):
                    await write
        async with asyncio.timeout(30):
            assert await store.read(partial(count, "first")) == 1
            await store.close()

    asyncio.run(main())


def test_a_server_that_stands_still_lets_nobody_wait_to_open(server: Server, make_store: MakeStore) -> None:
    async def main() -> None:
        db = make_store(answer_timeout_s=0.5, busy_timeout_s=0.5)
        with server.standing_still():
            async with asyncio.timeout(30):
                with pytest.raises(StoreError):
                    await db.create_session("s")
        await db.create_session("s")
        await db.close()

    asyncio.run(main())


def test_no_time_for_an_answer_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="answer_timeout_s"):
        SessionDB("postgresql://h/d", answer_timeout_s=0)
