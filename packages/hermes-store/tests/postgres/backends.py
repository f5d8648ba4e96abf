"""The back end alone, and operations that stand still where a test wants to look."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from hermes_messages import StoreError
from hermes_store.backend import Operation, Statement, on_session
from hermes_store.postgres import Dsn, PostgresBackend, PostgresOptions
from postgres.server import Server

T = TypeVar("T")
MakeBackend = Callable[..., PostgresBackend]

ASLEEP = "SELECT count(*) > 0 FROM pg_stat_activity WHERE state = 'active' AND query LIKE %s"
SLEEPING = "SELECT pg_sleep(600)%"
COMMITTING = "COMMIT%"
PATIENCE_S = 300.0


def backend(server: Server, schema: str, **options: object) -> PostgresBackend:
    given: dict[str, object] = {"busy_timeout_s": PATIENCE_S, **options}
    return PostgresBackend(Dsn(server.dsn()), PostgresOptions(schema=schema, **given))  # type: ignore[arg-type]


async def answered(call: Callable[[], Awaitable[T]]) -> T:
    """What `call` gives once the server, which runs, answers it in the short time that the store allows."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with contextlib.suppress(StoreError):
                return await call()


def insert(name: str, *, sleeps: bool = False) -> Operation[object]:
    """Write a counter; then stand still, with the write done and not committed."""
    yield on_session("s")
    rows = yield Statement("INSERT INTO counters (name, value) VALUES (?, 1) RETURNING name", (name,))
    if sleeps:
        yield Statement("SELECT pg_sleep(600)")
    return rows


def sleep() -> Operation[object]:
    return (yield Statement("SELECT pg_sleep(600)"))


def count(name: str) -> Operation[int]:
    [(number,)] = yield Statement("SELECT count(*) FROM counters WHERE name = ?", (name,))
    return int(number)


async def before_commits(server: Server, schema: str, table: str, does: str) -> None:
    """From here on the last of a commit that wrote a row of `table` is a call of an SQL function."""
    await server.ask(
        f"""
        CREATE FUNCTION "{schema}".at_the_end() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM {does}; RETURN NULL; END $$
        """
    )
    await server.ask(
        f"""
        CREATE CONSTRAINT TRIGGER at_the_end AFTER INSERT ON "{schema}".{table}
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION "{schema}".at_the_end()
        """
    )


async def slow_commits(server: Server, schema: str, seconds: float) -> None:
    """From here on a commit that wrote a counter takes its time, at its very end."""
    await before_commits(server, schema, "counters", f"pg_sleep({seconds})")
