"""Ratios for hermes-store against the bare thing in the same run: append, group commit, read, search, size.

Run with `uv run benchmarks/bench_store.py`. Rounds of the two sides alternate and the median counts, so that
a busy machine slows both. Everything runs on one core where the system allows: a hop to another core costs as
much as a commit, and the system leaves one side's thread there and not the other's, for as long as it lives.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiosqlite

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

APPENDS = 200
APPEND_ROUNDS = 35
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


async def appending(folder: Path) -> None:
    messages = conversation(APPENDS)
    async with (
        Bare.open(folder / "bare.db") as bare,
        SessionDB(folder / "ours.db") as db,
        SessionDB(folder / "plain.db", search_index=False) as plain,
    ):
        await db.create_session("s")
        await plain.create_session("s")

        async def one_by_one(store: SessionDB) -> None:
            for message in messages:
                await store.append_message("s", message)

        async def together() -> None:
            rows = iter(messages)

            async def appender() -> None:
                for message in rows:
                    await db.append_message("s", message)

            await asyncio.gather(*(appender() for _ in range(64)))

        ours, floor = await compare(lambda: one_by_one(db), lambda: bare.insert(messages), APPEND_ROUNDS)
        show("single append, indexed", ours, floor, APPENDS, "bare insert+commit", bar=1.5)
        ours, floor = await compare(lambda: one_by_one(plain), lambda: bare.insert(messages), APPEND_ROUNDS)
        show("single append, search_index=False", ours, floor, APPENDS, "bare insert+commit", bar=1.5)
        grouped, single = await compare(together, lambda: one_by_one(db), APPEND_ROUNDS)
        print(f"64 appenders: {single / grouped:.1f} times the throughput of one commit per row (at least 5)")


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
    messages = conversation(SEARCH_MESSAGES)
    chance = random.Random(2)
    async with SessionDB(folder / "search.db") as db:
        for start in range(0, SEARCH_MESSAGES, 1000):
            session = await db.create_session()
            rows = [NewMessage(str(n), item) for n, item in enumerate(messages[start : start + 1000])]
            await db.append_messages_batch(session, rows)
        times = [
            await timed(lambda words=query: db.search_messages(words))  # type: ignore[misc]
            for query in (" ".join(chance.sample(WORDS, chance.randint(1, 2))) for _ in range(60))
        ]
        print(f"search over {SEARCH_MESSAGES}: median {statistics.median(times) * 1e3:.1f} ms (at most 50)")
        sql = "SELECT seq FROM messages WHERE text LIKE '%absent!%'"
        async with aiosqlite.connect(folder / "search.db") as like:
            ours, floor = await compare(
                lambda: db.search_messages("!absent!"), lambda: like.execute_fetchall(sql)
            )
        show("search that scans", ours, floor, 1, "bare LIKE scan", bar=1.5)


def show(what: str, ours: float, floor: float, count: int, against: str, bar: float) -> None:
    """One line: the ratio, its bar, and the two times."""
    print(
        f"{what}: {ours / floor:.2f} of {against} (at most {bar:.2f}); "
        f"{ours / count * 1e6:,.0f} against {floor / count * 1e6:,.0f} microseconds"
    )


async def main() -> None:
    """Everything, in a folder that goes away."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        await appending(Path(folder))
        await reading(Path(folder))
        await searching(Path(folder))


if __name__ == "__main__":
    asyncio.run(main())
