"""Ratios for hermes-store against the bare thing in the same run: append, group commit, read, search, size.

Run with `uv run benchmarks/bench_store.py`; with the word `append`, that figure alone is given, as JSON.
Where PostgreSQL is installed the same is measured on a server of this program's own, against bare
psycopg on a table of the same columns and indexes. Rounds of the sides alternate and the median counts,
so that a busy machine slows all; appends alternate in slices of about ten milliseconds each, in random
order, each to a file of its own, and the least and the mean are shown too (the mean holds what comes
seldom: the log's move into the database, the search index). Everything on SQLite runs on one core where
the system allows: a hop to another core costs as much as a commit, and the system leaves one side's
thread there and not the other's, for as long as it lives.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import aiosqlite
import psycopg

from hermes_messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
    decode_message,
    encode_message,
)
from hermes_messages.protocols import NewMessage
from hermes_store import SessionDB
from hermes_store.sqlite_open import LOG_PAGES

SERVER_OF_THE_TESTS = Path(__file__).parents[1] / "packages/hermes-store/tests/postgres/server.py"
APPENDS = 200
APPEND_ROUNDS = 35
SLICE = 200
APPENDERS = 64
SLICES = 120
ROUNDS = 7
READ_MESSAGES = 4_000
SEARCH_MESSAGES = 100_000
WORDS = [
    f"{start}{end}" for start in ("stor", "hero", "bitter", "plove", "cran") for end in map(str, range(400))
]


def conversation(count: int, seed: int = 1) -> list[Message]:
    """`count` messages in rounds of four, with text of ordinary length and different words."""
    chance = random.Random(seed)

    def text(length: int) -> str:
        return " ".join(chance.choice(WORDS) for _ in range(length))

    messages: list[Message] = []
    for number in range(count // 4):
        call = ToolCall(f"call_{number}", "read_file", '{"path": "src/main.py", "limit": 200}')
        messages += [
            UserMessage(text(20)),
            AssistantMessage(text(5), (call,), reasoning=text(20)),
            ToolMessage(call.id, text(60), "read_file"),
            AssistantMessage(text(25), finish_reason="stop"),
        ]
    return messages


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    """Seconds that `work` takes."""
    started = time.perf_counter()
    await work()
    return time.perf_counter() - started


async def compare(
    ours: Callable[[], Awaitable[object]], bare: Callable[[], Awaitable[object]], rounds: int = ROUNDS
) -> tuple[float, float]:
    """The median seconds of both sides, over rounds that alternate."""
    both = [(await timed(ours), await timed(bare)) for _ in range(rounds)]
    return statistics.median(mine for mine, _ in both), statistics.median(other for _, other in both)


class Bare:
    """A table of messages on bare aiosqlite: the floor."""

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self.connection = connection
        self.number = 0

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path) -> AsyncIterator[Bare]:
        """With the store's own pragmas."""
        async with aiosqlite.connect(path) as connection:
            await connection.execute("PRAGMA journal_mode = WAL")
            await connection.execute("PRAGMA synchronous = NORMAL")
            await connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
            await connection.execute(
                "CREATE TABLE messages (seq INTEGER PRIMARY KEY, session TEXT, uid TEXT, body TEXT, at REAL)"
            )
            await connection.commit()
            yield cls(connection)

    async def insert(self, messages: Sequence[Message]) -> None:
        """One commit for each message."""
        for message in messages:
            self.number += 1
            body = encode_message(message).decode()
            await self.connection.execute(
                "INSERT INTO messages (session, uid, body, at) VALUES ('s', ?, ?, ?)",
                (str(self.number), body, time.time()),
            )
            await self.connection.commit()

    async def read(self) -> list[Message]:
        """All of it, decoded."""
        rows = await self.connection.execute_fetchall("SELECT seq, uid, body, at FROM messages ORDER BY seq")
        return [decode_message(row[2]) for row in rows]


class Slices:
    """Microseconds for each row of what is measured in slices that alternate."""

    def __init__(self, times: dict[str, list[float]]) -> None:
        self._times = times

    @classmethod
    async def measure(
        cls, works: dict[str, tuple[Callable[[Sequence[Message]], Awaitable[object]], int]]
    ) -> Slices:
        """Each work, given so many messages, once in each of many rounds, in an order that differs."""
        messages = conversation(max(rows for _, rows in works.values()))
        chance = random.Random(3)
        times: dict[str, list[float]] = {name: [] for name in works}
        for _ in range(SLICES):
            for name in chance.sample(list(works), len(works)):
                work, rows = works[name]
                taken = await timed(lambda: work(messages[:rows]))  # noqa: B023 - awaited here
                times[name].append(taken / rows * 1e6)
        return cls(times)

    def ratio(self, one: str, other: str) -> str:
        """How many times longer `one` takes for a row: median, least, mean."""
        found = [f"{mean(self._times[one]) / mean(self._times[other]):.2f}" for mean in _MEANS]
        return "median {}, least {}, mean {}".format(*found)

    def medians(self) -> dict[str, float]:
        """In microseconds."""
        return {name: statistics.median(times) for name, times in self._times.items()}

    def each(self) -> str:
        """The medians as text."""
        return ", ".join(f"{name} {median:.0f}" for name, median in self.medians().items())


_MEANS: tuple[Callable[[list[float]], float], ...] = (statistics.median, min, statistics.mean)


async def appending(folder: Path) -> None:
    async with (
        Bare.open(folder / "bare.db") as bare,
        SessionDB(folder / "ours.db") as db,
        SessionDB(folder / "plain.db", search_index=False) as plain,
        SessionDB(folder / "crowd.db") as crowd,
    ):
        for store in (db, plain, crowd):
            await store.create_session("s")

        async def one_by_one(store: SessionDB, messages: Sequence[Message]) -> None:
            for message in messages:
                await store.append_message("s", message)

        async def together(messages: Sequence[Message]) -> None:
            rows = iter(messages)

            async def appender() -> None:
                for message in rows:
                    await crowd.append_message("s", message)

            await asyncio.gather(*(appender() for _ in range(APPENDERS)))

        slices = await Slices.measure(
            {
                "bare": (bare.insert, SLICE),
                "indexed": (lambda messages: one_by_one(db, messages), SLICE),
                "plain": (lambda messages: one_by_one(plain, messages), SLICE),
                "64 appenders": (together, APPENDERS * 16),
            }
        )
        print(f"single append: {slices.ratio('indexed', 'bare')} of bare insert+commit (median at most 1.50)")
        print(f"single append, search_index=False: {slices.ratio('plain', 'bare')} (median at most 1.50)")
        faster = slices.ratio("indexed", "64 appenders")
        print(f"64 appenders: {faster} times the throughput of one commit per row (median at least 5)")
        print(f"microseconds for a row: {slices.each()}")


async def one_append(folder: Path) -> dict[str, float]:
    """Seconds for one awaited append, of the bare table and of the store, for the table of the contest."""
    async with Bare.open(folder / "bare.db") as bare, SessionDB(folder / "ours.db") as db:
        await db.create_session("s")

        async def ours(messages: Sequence[Message]) -> None:
            for message in messages:
                await db.append_message("s", message)

        slices = await Slices.measure({"bare": (bare.insert, SLICE), "ours": (ours, SLICE)})
        return {name: microseconds / 1e6 for name, microseconds in slices.medians().items()}


async def reading(folder: Path) -> None:
    messages = conversation(READ_MESSAGES)
    async with Bare.open(folder / "bare-read.db") as bare, SessionDB(folder / "ours-read.db") as db:
        await bare.insert(messages)
        await db.create_session("s")
        await db.append_messages_batch("s", [NewMessage(str(n), item) for n, item in enumerate(messages)])
        ours, floor = await compare(lambda: db.get_messages("s"), bare.read)
        show(f"get_messages of {READ_MESSAGES}", ours, floor, 1, "SELECT and decode", bar=2.0)
    text = sum(len(encode_message(message)) for message in messages)
    size = (folder / "ours-read.db").stat().st_size
    print(f"size on disk: {size / text:.2f} of the JSON text (at most 2.00)")


async def searching(folder: Path) -> None:
    async with SessionDB(folder / "search.db") as db:
        await search_in(db, "search")
        sql = "SELECT seq FROM messages WHERE text LIKE '%absent!%'"
        async with aiosqlite.connect(folder / "search.db") as like:
            ours, floor = await compare(
                lambda: db.search_messages("!absent!"), lambda: like.execute_fetchall(sql)
            )
        show("search that scans", ours, floor, 1, "bare LIKE scan", bar=1.5)


class Server(Protocol):
    """A PostgreSQL server of this program's own."""

    def dsn(self) -> str:
        """Its address."""
        ...

    def start(self) -> None:
        """Start it."""
        ...

    def stop(self) -> None:
        """End it."""
        ...


class BarePostgres:
    """A table like the store's on bare psycopg: the floor."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self.connection = connection
        self.number = 0

    @classmethod
    @asynccontextmanager
    async def open(cls, server: Server) -> AsyncIterator[BarePostgres]:
        """A copy of the table that the store has made, with its indexes."""
        async with await psycopg.AsyncConnection.connect(server.dsn()) as connection:
            await connection.execute("CREATE TABLE bare_messages (LIKE hermes_store.messages INCLUDING ALL)")
            await connection.commit()
            yield cls(connection)

    async def insert(self, messages: Sequence[Message]) -> None:
        """One commit for each message."""
        for message in messages:
            self.number += 1
            body = encode_message(message).decode()
            await self.connection.execute(
                "INSERT INTO bare_messages (session, uid, role, shape, text, body, created_at) "
                "VALUES (1, %s, 'user', 1, '', %s, %s) RETURNING seq",
                (str(self.number), body, time.time()),
            )
            await self.connection.commit()

    async def read(self) -> list[Message]:
        """All of it, decoded."""
        cursor = await self.connection.execute(
            "SELECT seq, uid, body, created_at FROM bare_messages ORDER BY seq"
        )
        rows = await cursor.fetchall()
        await self.connection.commit()
        return [decode_message(row[2]) for row in rows]


async def on_postgres(server: Server) -> None:
    """The same rows as on SQLite, where they mean something."""
    async with SessionDB(server.dsn()) as db:
        await db.create_session("s")
        async with BarePostgres.open(server) as bare:
            messages = conversation(APPENDS)

            async def one_by_one() -> None:
                for message in messages:
                    await db.append_message("s", message)

            async def together(*sessions: str) -> None:
                rows = iter(messages)

                async def appender(session: str) -> None:
                    for message in rows:
                        await db.append_message(session, message)

                await asyncio.gather(*(appender(sessions[n % len(sessions)]) for n in range(64)))

            ours, floor = await compare(one_by_one, lambda: bare.insert(messages), APPEND_ROUNDS // 3)
            show("PostgreSQL, single append", ours, floor, APPENDS, "bare insert+commit")
            many = [await db.create_session() for _ in range(64)]
            for what, sessions in (("one session", ["s"]), ("a session each", many)):
                grouped, single = await compare(
                    lambda names=sessions: together(*names),  # type: ignore[misc]
                    one_by_one,
                    APPEND_ROUNDS // 3,
                )
                print(f"PostgreSQL, 64 appenders to {what}: {single / grouped:.1f} times one after the other")
            await bare.connection.execute("TRUNCATE bare_messages")
            messages = conversation(READ_MESSAGES)
            await bare.insert(messages)
            await db.create_session("read")
            rows = [NewMessage(str(n), item) for n, item in enumerate(messages)]
            await db.append_messages_batch("read", rows)
            ours, floor = await compare(lambda: db.get_messages("read"), bare.read)
            show(f"PostgreSQL, get_messages of {READ_MESSAGES}", ours, floor, 1, "SELECT and decode")
        await search_in(db, "PostgreSQL, search")


async def search_in(db: SessionDB, what: str) -> None:
    """The median time of searches for one or two words over many messages, once these are indexed."""
    messages = conversation(SEARCH_MESSAGES)
    chance = random.Random(2)
    for start in range(0, SEARCH_MESSAGES, 1000):
        session = await db.create_session()
        rows = [NewMessage(str(n), item) for n, item in enumerate(messages[start : start + 1000])]
        await db.append_messages_batch(session, rows)
    await db.search_messages(WORDS[0])
    queries = [" ".join(chance.sample(WORDS, chance.randint(1, 2))) for _ in range(60)]
    times = [await timed(lambda words=query: db.search_messages(words)) for query in queries]  # type: ignore[misc]
    print(f"{what} over {SEARCH_MESSAGES}: median {statistics.median(times) * 1e3:.1f} ms (at most 50)")


def show(what: str, ours: float, floor: float, count: int, against: str, bar: float | None = None) -> None:
    """One line: the ratio, its bar, and the two times."""
    limit = "" if bar is None else f" (at most {bar:.2f})"
    print(
        f"{what}: {ours / floor:.2f} of {against}{limit}; "
        f"{ours / count * 1e6:,.0f} against {floor / count * 1e6:,.0f} microseconds"
    )


async def main() -> None:
    """Everything, in folders that go away."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_setaffinity") else set()
    if cores:
        os.sched_setaffinity(0, {min(cores)})
    if sys.argv[1:] == ["append"]:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(await one_append(Path(folder))))
        return
    with tempfile.TemporaryDirectory() as folder:
        await appending(Path(folder))
        await reading(Path(folder))
        await searching(Path(folder))
    if cores:
        os.sched_setaffinity(0, cores)
    with tempfile.TemporaryDirectory() as folder:
        server = start_server(Path(folder))
        if server is None:
            print("PostgreSQL: not measured, it is not installed here")
            return
        try:
            await on_postgres(server)
        finally:
            server.stop()


def start_server(folder: Path) -> Server | None:
    """A server on files in `folder`, as the tests start it; None where there is none to start."""
    spec = importlib.util.spec_from_file_location("server_of_the_tests", SERVER_OF_THE_TESTS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    binaries = module.find_binaries()
    if binaries is None:
        return None
    folder.chmod(0o755)  # it runs as somebody else where we are root
    server: Server = module.Server(binaries, folder)
    server.start()
    return server


if __name__ == "__main__":
    asyncio.run(main())
