"""The schema: made once, refused when it is not ours or newer, beside whatever else the database holds."""

import asyncio

import psycopg
import pytest

from hermes_messages import StoreError, StoreSchemaError, UserMessage
from hermes_store import SessionDB, StoreConnectionError
from hermes_store.migrations import ADDITIONS
from hermes_store.postgres_schema import VERSION
from postgres.server import MakeStore, Server

TABLES = """
SELECT c.relname, a.attname, t.typname FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
JOIN pg_namespace AS n ON n.oid = c.relnamespace JOIN pg_type AS t ON t.oid = a.atttypid
WHERE n.nspname = %s AND a.attnum > 0 ORDER BY 1, 2
"""


async def refused(server: Server, make_store: MakeStore, schema: str, match: str) -> None:
    """The store refuses the schema, again and again, and leaves it as it was."""
    before = await server.ask(TABLES, schema)
    db = make_store()
    for _ in range(2):
        with pytest.raises(StoreSchemaError, match=match):
            await db.create_session("s")
    await db.close()
    assert await server.ask(TABLES, schema) == before


def test_a_newer_or_malformed_schema_is_refused_untouched(
    server: Server, make_store: MakeStore, schema: str
) -> None:
    async def main() -> None:
        async with make_store() as db:
            await db.create_session("s")
        await server.ask(f'UPDATE "{schema}".schema_version SET version = {VERSION + 1}')
        await refused(server, make_store, schema, "newer hermes-store")
        await server.ask(f'UPDATE "{schema}".schema_version SET version = {VERSION}')
        await server.ask(f'ALTER TABLE "{schema}".leases RENAME COLUMN number TO n')
        await refused(server, make_store, schema, "'leases' lacks number")
        await server.ask(f'DELETE FROM "{schema}".schema_version')
        await refused(server, make_store, schema, "0 version numbers")

    asyncio.run(main())


def test_a_schema_of_another_program_is_refused_untouched(
    server: Server, make_store: MakeStore, schema: str
) -> None:
    async def main() -> None:
        await server.ask(f'CREATE SCHEMA "{schema}"')
        await server.ask(f'CREATE TABLE "{schema}".sessions (id text)')
        await refused(server, make_store, schema, "another program")

    asyncio.run(main())


def test_many_that_come_first_at_once_make_one_schema(make_store: MakeStore) -> None:
    async def main() -> None:
        stores = [make_store(pool_size=2) for _ in range(6)]
        await asyncio.gather(*(db.create_session(str(number)) for number, db in enumerate(stores)))
        assert len(await stores[0].list_sessions()) == 6
        for db in stores:
            await db.close()

    asyncio.run(main())


def test_an_empty_schema_that_somebody_made_for_us_is_used(
    server: Server, make_store: MakeStore, schema: str
) -> None:
    """Whoever may not make schemas can be given one."""

    async def main() -> None:
        await server.ask(f"CREATE ROLE owner_{schema} LOGIN PASSWORD 'pw'")
        await server.ask(f'CREATE SCHEMA "{schema}" AUTHORIZATION owner_{schema}')
        address = f"postgresql://owner_{schema}:pw@127.0.0.1:{server.port}/postgres"
        async with SessionDB(address, schema=schema) as db:
            await db.create_session("s")
            await db.append_message("s", UserMessage("a stork"))
            assert len(await db.search_messages("stork")) == 1
        with pytest.raises(StoreSchemaError, match="open it once for writing"):
            async with SessionDB(server.dsn(), schema=f"{schema}_absent", read_only=True):
                pass

    asyncio.run(main())


def test_two_schemas_of_one_database_know_nothing_of_each_other(make_store: MakeStore, schema: str) -> None:
    async def main() -> None:
        async with make_store() as one, make_store(schema=f"{schema}_two") as two:
            await one.create_session("s")
            assert await two.get_session("s") is None

    asyncio.run(main())


def test_a_database_that_is_not_in_utf8_is_refused(server: Server) -> None:
    async def main() -> None:
        await server.ask("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
        with pytest.raises(StoreError, match="LATIN1") as caught:
            async with SessionDB(server.dsn("latin")):
                pass
        assert not isinstance(caught.value, StoreConnectionError)

    asyncio.run(main())


def test_a_schema_that_became_newer_while_it_was_open_is_no_longer_written(
    server: Server, make_store: MakeStore, schema: str
) -> None:
    async def main() -> None:
        async with make_store() as db:
            await db.create_session("s")
            await server.ask(f'UPDATE "{schema}".schema_version SET version = version + 1')
            with pytest.raises(StoreSchemaError, match="newer hermes-store"):
                await db.append_message("s", UserMessage("after"))
            assert await db.get_messages("s") == []

    asyncio.run(main())


def test_a_write_that_waited_while_the_schema_became_newer_is_refused(
    server: Server, make_store: MakeStore, schema: str
) -> None:
    """Its first statement began before the migration was committed, and must not trust what it saw then."""

    async def main() -> None:
        async with make_store() as db:
            await db.create_session("s")
            async with await psycopg.AsyncConnection.connect(server.dsn()) as other:
                await other.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (schema,))
                await other.execute(f'UPDATE "{schema}".schema_version SET version = version + 1')
                writes = [
                    asyncio.create_task(db.append_message("s", UserMessage("one lineage"))),
                    asyncio.create_task(db.archive_sessions(["s"])),
                ]
                await server.until(
                    "SELECT count(*) = 2 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
                )
                await other.commit()
            for write in writes:
                with pytest.raises(StoreSchemaError, match="newer hermes-store"):
                    await write
            assert await db.get_messages("s") == []

    asyncio.run(main())


ADDED = "SELECT indexname FROM pg_indexes WHERE schemaname = %s AND indexname = ANY (%s)"


async def added(server: Server, schema: str) -> set[str]:
    return {name for (name,) in await server.ask(ADDED, schema, list(ADDITIONS))}


def test_an_index_that_came_later_is_missing_or_makes_a_new_version(
    server: Server, make_store: MakeStore, schema: str
) -> None:
    """Whoever owns the tables makes it, one of many at once; nobody waits long for it, and earlier releases
    go on."""

    async def use() -> None:
        async with make_store() as db:
            await db.create_session("s")

    async def main() -> None:
        await use()
        assert await added(server, schema) == ADDITIONS.keys()
        for name in ADDITIONS:
            await server.ask(f'DROP INDEX "{schema}".{name}')
        async with make_store(read_only=True) as db:
            assert await db.get_session("s") is not None
        await server.ask(f"CREATE ROLE user_{schema} LOGIN PASSWORD 'pw'")
        await server.ask(f'GRANT USAGE ON SCHEMA "{schema}" TO user_{schema}')
        await server.ask(f'GRANT ALL ON ALL TABLES IN SCHEMA "{schema}" TO user_{schema}')
        address = f"postgresql://user_{schema}:pw@127.0.0.1:{server.port}/postgres"
        async with SessionDB(address, schema=schema) as db:
            await db.append_message("s", UserMessage("by one who may not make indexes"))
        async with await psycopg.AsyncConnection.connect(server.dsn()) as other:
            await other.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (schema,))
            async with make_store() as db:
                assert await db.get_session("s") is not None
            assert await added(server, schema) == set()
        await asyncio.gather(*(use() for _ in range(4)))
        await use()  # where those before were in each other's way for too long
        assert await added(server, schema) == ADDITIONS.keys()
        assert await server.ask(f'SELECT version FROM "{schema}".schema_version') == [(1,)]

    asyncio.run(main())
