"""The back end alone, and operations that stand still where a test wants to look."""

from __future__ import annotations

from collections.abc import Callable

from hermes_store.backend import Operation, Statement, on_session
from hermes_store.postgres import Dsn, PostgresBackend, PostgresOptions
from postgres.server import Server

MakeBackend = Callable[..., PostgresBackend]

ASLEEP = "SELECT count(*) > 0 FROM pg_stat_activity WHERE state = 'active' AND query LIKE %s"
SLEEPING = "SELECT pg_sleep(60)%"
COMMITTING = "COMMIT%"


def backend(server: Server, schema: str, **options: object) -> PostgresBackend:
    return PostgresBackend(Dsn(server.dsn()), PostgresOptions(schema=schema, **options))  # type: ignore[arg-type]


def insert(name: str, *, sleeps: bool = False) -> Operation[object]:
    """Write a counter; then stand still, with the write done and not committed."""
    yield on_session("s")
    rows = yield Statement("INSERT INTO counters (name, value) VALUES (?, 1) RETURNING name", (name,))
    if sleeps:
        yield Statement("SELECT pg_sleep(60)")
    return rows


def sleep() -> Operation[object]:
    return (yield Statement("SELECT pg_sleep(60)"))


def count(name: str) -> Operation[int]:
    [(number,)] = yield Statement("SELECT count(*) FROM counters WHERE name = ?", (name,))
    return int(number)


async def slow_commits(server: Server, schema: str, seconds: float) -> None:
    """From here on a commit that wrote a counter takes its time, at its very end."""
    await server.ask(
        f"""
        CREATE FUNCTION "{schema}".stand_still() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_sleep({seconds}); RETURN NULL; END $$
        """
    )
    await server.ask(
        f"""
        CREATE CONSTRAINT TRIGGER stand_still AFTER INSERT ON "{schema}".counters
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION "{schema}".stand_still()
        """
    )
