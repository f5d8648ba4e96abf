"""Several processes on one database, and processes that are killed."""

import asyncio
import os
import random
import subprocess
import sys
from itertools import count

import pytest

from hermes_store import SessionDB
from postgres.server import Server
from postgres.test_both_back_ends import load

NIGHTLY = os.environ.get("HERMES_TEST_PROFILE") == "nightly"
KILLS = 200 if NIGHTLY else 8
ROWS = 200 if NIGHTLY else 25

scripts = load("test_processes")
_numbers = count()


@pytest.fixture
def address(server: Server) -> str:
    """A database of its own, since the scripts know no schema."""
    name = f"processes_{next(_numbers)}"
    asyncio.run(server.ask(f"CREATE DATABASE {name}"))
    return server.dsn(name)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("writers", [2, 8])
def test_processes_that_append_to_one_session_lose_and_repeat_nothing(address: str, writers: int) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", scripts.APPENDER, address, str(number), str(ROWS)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(writers)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=900)
        assert process.returncode == 0, errors

    async def main() -> None:
        async with SessionDB(address) as db:
            stored = await db.get_messages("s")
            assert [item.seq for item in stored] == sorted({item.seq for item in stored})
            for number in range(writers):
                own = [item.uid for item in stored if item.uid.startswith(f"{number}-")]
                assert own == [f"{number}-{row}" for row in range(ROWS)]
            assert len(stored) == writers * ROWS

    asyncio.run(main())


@pytest.mark.timeout(3600)
def test_a_process_killed_at_any_moment_keeps_all_it_acknowledged(address: str) -> None:
    moments = random.Random(11)
    acknowledged: list[str] = []
    for run in range(KILLS):
        with subprocess.Popen(
            [sys.executable, "-c", scripts.KILLED, address, str(run)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            wanted = moments.randint(0, 30)
            acknowledged += [process.stdout.readline().strip() for _ in range(wanted)]
            process.kill()
            acknowledged += [line.strip() for line in process.stdout if line.endswith("\n")]
        uids = asyncio.run(scripts.stored_uids(address))
        assert len(uids) == len(set(uids))
        assert set(acknowledged) <= set(uids)
    assert len(acknowledged) > KILLS
    asyncio.run(scripts.check_resumable(address))


if NIGHTLY:  # its statements are those of SQLite, where it is tried always

    @pytest.mark.timeout(3600)
    def test_a_killed_holder_or_waiter_mixes_the_turns_of_the_others(address: str) -> None:
        asyncio.run(scripts.kill_holder_and_waiter(address))
