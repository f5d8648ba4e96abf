"""Several processes on one file, and processes that are killed."""

import asyncio
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_messages import ToolMessage
from hermes_messages.protocols import LeaseToken
from hermes_store import SessionDB
from hermes_store.backend import Operation, Statement

NIGHTLY = os.environ.get("HERMES_TEST_PROFILE") == "nightly"
KILLS = 200 if NIGHTLY else 20
WRITERS = (2, 8)
ROWS = 200 if NIGHTLY else 40

APPENDER = """
import asyncio, sys
from hermes_messages import UserMessage
from hermes_store import SessionDB

async def main(path, name, rows):
    async with SessionDB(path, busy_timeout_s=300) as db:
        await db.create_session("s")
        for number in range(rows):
            await db.append_message("s", UserMessage(f"{name} {number}"), uid=f"{name}-{number}")

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def test_processes_that_append_to_one_session_lose_and_repeat_nothing(tmp_path: Path) -> None:
    for writers in WRITERS:
        path = tmp_path / f"{writers}.db"
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", APPENDER, str(path), str(number), str(ROWS)],
                stderr=subprocess.PIPE,
                text=True,
            )
            for number in range(writers)
        ]
        for process in processes:
            _, errors = process.communicate(timeout=6000)
            assert process.returncode == 0, errors
        uids = asyncio.run(stored_uids(path))
        for number in range(writers):
            own = [uid for uid in uids if uid.startswith(f"{number}-")]
            assert own == [f"{number}-{row}" for row in range(ROWS)]
        assert len(uids) == writers * ROWS


async def stored_uids(path: Path) -> list[str]:
    async with SessionDB(path) as db:
        return [item.uid for item in await db.get_messages("s")]


KILLED = """
import asyncio, os, sys
from hermes_messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from hermes_store import SessionDB

path, run = sys.argv[1:]

def tell(line):
    os.write(1, (line + "\\n").encode())

async def main():
    db = SessionDB(path)
    await db.create_session("s")
    tell("open")
    lease = None
    while lease is None:
        lease = await db.try_acquire_session_turn_lease("s", run, 0.05)
    number = 0
    while True:
        uid = f"{run}-{number}"
        lease = await db.refresh_session_turn_lease(lease, 0.05)
        await db.append_message("s", UserMessage(uid), uid=uid, lease=lease)
        tell(uid)
        calls = tuple(ToolCall(f"{uid}-{i}", "f", "{}") for i in range(2))
        made = await db.begin_tool_round("s", f"{uid}-r", AssistantMessage(tool_calls=calls), lease=lease)
        tell(f"{uid}-r")
        await asyncio.gather(*(
            db.set_tool_result(made, i, ToolMessage(call.id, "done"), lease=lease)
            for i, call in enumerate(calls)
        ))
        tell(f"{uid}-r/result/0")
        tell(f"{uid}-r/result/1")
        number += 1

asyncio.run(main())
"""


@pytest.mark.timeout(1200)
def test_a_process_killed_at_any_moment_keeps_all_it_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    moments = random.Random(11)
    acknowledged: list[str] = []
    for run in range(KILLS):
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, str(path), str(run)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            wanted = moments.randint(0, 30)
            acknowledged += [process.stdout.readline().strip() for _ in range(wanted)]
            process.kill()
            acknowledged += [line.strip() for line in process.stdout if line.endswith("\n")]
        check_file(path)
        uids = asyncio.run(stored_uids(path))
        assert len(uids) == len(set(uids))
        assert set(acknowledged) <= set(uids)
    assert len(acknowledged) > KILLS
    asyncio.run(check_resumable(path))


def check_file(path: Path) -> None:
    connection = sqlite3.connect(path)
    try:
        connection.create_function("hermes_index_text", 1, lambda text: text, deterministic=True)
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        connection.close()


async def check_resumable(path: Path) -> None:
    """The lease of the dead expires, open rounds are closed once, and the index knows every text."""
    async with SessionDB(path) as db:
        lease = await take_over(db)
        known = {item.seq for item in await db.get_messages("s")}
        missing = sum(len(set(round_.result_seqs) - known) for round_ in await db.open_rounds("s"))
        assert await db.close_open_rounds("s", lease=lease) == missing
        unknown = [
            item
            for item in await db.get_messages("s")
            if isinstance(item.message, ToolMessage) and item.message.status == "unknown"
        ]
        assert len(unknown) == missing
        results = [item for item in await db.get_messages("s") if isinstance(item.message, ToolMessage)]
        found = await db.search_messages("done", limit=100_000)
        assert len(found) == len(results) - missing


async def take_over(db: SessionDB) -> LeaseToken:
    """Ask until the lease of the process that was killed is over."""
    async with asyncio.timeout(300):
        while True:
            lease = await db.try_acquire_session_turn_lease("s", "heir", 30)
            if lease is not None:
                return lease
            await asyncio.sleep(0.02)


WAITER = """
import asyncio, os, sys
from hermes_messages import UserMessage
from hermes_store import SessionDB

path, name = sys.argv[1:]

def tell(line):
    os.write(1, (line + "\\n").encode())

async def main():
    async with SessionDB(path, busy_timeout_s=300) as db:
        await db.create_session("s")
        tell("open")
        lease = await db.acquire_session_turn_lease("s", name, 3600)
        for number in range(3):
            await db.append_message("s", UserMessage(name), uid=f"{name}-{number}", lease=lease)
        await db.release_session_turn_lease(lease)

asyncio.run(main())
"""


def test_processes_that_start_a_turn_at_once_take_turns_and_the_dead_lose_their_place(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    processes: list[subprocess.Popen[str]] = []

    async def main() -> None:
        async with SessionDB(path) as db:
            held = await db.acquire_session_turn_lease("s", "here", 3600)
            for number in range(4):
                processes.append(start_waiter(path, number))
                await waiting(db, number + 1)
            processes[1].kill()
            await db.release_session_turn_lease(held)
            for number in (0, 2, 3):
                _, errors = processes[number].communicate(timeout=600)
                assert processes[number].returncode == 0, errors
            processes[1].communicate()
            uids = [item.uid for item in await db.get_messages("s")]
            # One that stands still may lose its place; no turn is mixed with another.
            turns = dict.fromkeys(uid[0] for uid in uids)
            assert sorted(turns) == ["0", "2", "3"]
            assert uids == [f"{number}-{row}" for number in turns for row in range(3)]

    asyncio.run(main())


def start_waiter(path: Path, number: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WAITER, str(path), str(number)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process


async def waiting(db: SessionDB, count: int) -> None:
    """Wait until so many stand in the queue for the lease."""

    def tickets() -> Operation[int]:
        rows = yield Statement("SELECT count(*) FROM lease_tickets")
        return int(rows[0][0])

    async with asyncio.timeout(300):
        while await db._backend.read(tickets) != count:  # noqa: ASYNC110 - it changes in a database
            await asyncio.sleep(0.01)


LINE = """
import asyncio, os, sys
from hermes_messages import UserMessage
from hermes_store import SessionDB
from hermes_store.operations import leases

path, name, turns = sys.argv[1:]
leases.TICKET_TTL_S = 3600.0

def tell(line):
    os.write(1, (line + "\\n").encode())

async def turn(db, number):
    lease = await db.acquire_session_turn_lease("s", f"{name}{number}", 3600)
    tell(f"has it {number}")
    if name == "holder":
        await asyncio.sleep(3600)
    while (line := db._lines.get("s")) and line.ticket is None:  # the next turn here stands in the queue
        await asyncio.sleep(0.005)
    for row in range(3):
        await db.append_message("s", UserMessage(name), uid=f"{name}{number}-{row}", lease=lease)
    await db.release_session_turn_lease(lease)

async def main():
    async with SessionDB(path, busy_timeout_s=300) as db:
        await db.create_session("s")
        tell("open")
        await asyncio.gather(*(turn(db, number) for number in range(int(turns))))

asyncio.run(main())
"""
"""A process in which several turns wait for one session."""


def start_line(path: Path | str, name: str, turns: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", LINE, str(path), name, str(turns)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process


def change(sql: str) -> Callable[[], Operation[None]]:
    def work() -> Operation[None]:
        yield Statement(sql)

    return work


def test_a_killed_holder_or_waiter_mixes_the_turns_of_the_others(tmp_path: Path) -> None:
    asyncio.run(kill_holder_and_waiter(tmp_path / "s.db"))


async def kill_holder_and_waiter(path: Path | str) -> None:
    """Four processes: one holds the lease, one has the first place in the queue of all; both are killed."""
    started: list[subprocess.Popen[str]] = []
    async with SessionDB(path) as db:
        await db.create_session("s")
        try:
            for tickets, (name, turns) in enumerate((("holder", 1), ("first", 3), ("a", 3), ("b", 2))):
                started.append(start_line(path, name, turns))
                if name == "holder":
                    assert started[0].stdout is not None
                    assert started[0].stdout.readline() == "has it 0\n"
                await waiting(db, tickets)  # one for each process, however many turns wait there
            for process in started[:2]:
                process.kill()
                process.wait(300)
            # What the dead have left expires.
            first = "(SELECT min(number) FROM lease_tickets)"
            await db._backend.write(change(f"UPDATE lease_tickets SET expires_at = 0 WHERE number = {first}"))
            await db._backend.write(change("UPDATE leases SET expires_at = 0"))
            for process in started[2:]:
                _, errors = process.communicate(timeout=300)
                assert process.returncode == 0, errors
        finally:
            for process in started:
                process.kill()
                process.communicate()
        uids = [item.uid for item in await db.get_messages("s")]
        # Processes have it in turns, and the turns of each come in their order.
        assert uids == [f"{turn}-{row}" for turn in ("a0", "b0", "a1", "b1", "a2") for row in range(3)]
        await waiting(db, 0)
