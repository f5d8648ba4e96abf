"""The store's schema in a PostgreSQL database: checked first, then brought to the newest version.

All tables stand in one schema of the database (`hermes_store` unless told otherwise), beside whatever else
the database is used for. Nothing is changed before the check has found the schema to be ours, or empty.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import psycopg
from psycopg import AsyncConnection

from hermes_messages import StoreError, StoreSchemaError
from hermes_store.backend import Row
from hermes_store.migrations import ADDITIONS, postgres_v1

__all__ = ["SERVER_VERSION", "STEPS", "VERSION", "prepare"]

logger: logging.Logger = logging.getLogger(__name__)

SERVER_VERSION = 130000
"""The oldest server that has what the store asks for: PostgreSQL 13."""

STEPS: Mapping[int, tuple[str, ...]] = {1: postgres_v1.STATEMENTS}
"""From the version before to this one. Released steps never change."""

VERSION = max(STEPS)

_COLUMNS = """
SELECT c.relname, a.attname FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE n.nspname = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
"""
_MISSING_ADDITIONS = """
SELECT a.name FROM unnest(%s::text[]) AS a(name), pg_catalog.pg_namespace AS n
JOIN pg_catalog.pg_class AS t ON t.relnamespace = n.oid AND t.relname = 'schema_version'
WHERE n.nspname = %s AND pg_has_role(t.relowner, 'USAGE')
AND NOT EXISTS (SELECT FROM pg_catalog.pg_class AS i WHERE i.relnamespace = n.oid AND i.relname = a.name)
"""
"""Of those that this user may make."""
_ADDITION_WAIT_MS = 100
"""How long an index that nobody needs at once may hold up those who open the database."""
_SCHEMA_EXISTS = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %s"


async def prepare(connection: AsyncConnection[Row], name: str, schema: str, *, read_only: bool) -> None:
    """Make the schema ready. Raises `StoreSchemaError`, `StoreError`, `psycopg.Error`."""
    if connection.info.server_version < SERVER_VERSION:
        raise StoreError(
            f"{name}: PostgreSQL 13 or newer is needed, this is {connection.info.server_version // 10000}"
        )
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreError(
            f"{name}: the database has the encoding {encoding}, UTF8 is needed; nothing was done"
        )
    version = await _known_version(connection, name, schema)
    if version < VERSION and read_only:
        raise StoreSchemaError(
            f"{name}, schema {schema!r}, has version {version}, older than {VERSION}, and may only be read; "
            "open it once for writing to bring it up to date"
        )
    if version < VERSION:
        await _migrate(connection, name, schema)
    await connection.commit()
    if version == VERSION and not read_only:
        await _add_what_is_new(connection, name, schema)


async def _known_version(connection: AsyncConnection[Row], name: str, schema: str) -> int:
    """The schema's version, 0 for an empty one. Raises `StoreSchemaError` for everything unknown."""
    cursor = await connection.execute(_COLUMNS, (schema,))
    found: dict[str, set[str]] = {}
    for table, column in await cursor.fetchall():
        found.setdefault(table, set()).add(column)
    if not found:
        return 0
    where = f"{name}, schema {schema!r},"
    if "version" not in found.get("schema_version", ()):
        raise StoreSchemaError(
            f"{where} holds tables of another program; it was not touched. Name another schema"
        )
    cursor = await connection.execute(f'SELECT version FROM "{schema}".schema_version')  # noqa: S608 - a plain word
    rows = await cursor.fetchall()
    if len(rows) != 1:
        raise StoreSchemaError(f"{where} has {len(rows)} version numbers instead of one; it was not touched")
    version = int(rows[0][0])
    if version > VERSION:
        raise StoreSchemaError(
            f"{where} has version {version}, this hermes-store knows {VERSION}; it was not touched. "
            "Install a newer hermes-store"
        )
    if version == VERSION:
        _check_columns(found, where)
    return version


def _check_columns(found: Mapping[str, set[str]], where: str) -> None:
    for table, columns in postgres_v1.COLUMNS.items():
        missing = set(columns.split(", ")) - found.get(table, set())
        if missing:
            raise StoreSchemaError(
                f"{where} says version {VERSION} but its table {table!r} lacks {', '.join(sorted(missing))}; "
                "it was not touched"
            )


async def _migrate(connection: AsyncConnection[Row], name: str, schema: str) -> None:
    """Bring the schema to the newest version, in one transaction. Another process may have been faster."""
    # The same lock as that of an operation that works alone: nobody writes meanwhile.
    await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (schema,))
    version = await _known_version(connection, name, schema)
    cursor = await connection.execute(_SCHEMA_EXISTS, (schema,))
    if not await cursor.fetchall():  # asked first: who may not make schemas may still use this one
        await connection.execute(f'CREATE SCHEMA "{schema}"')
    await connection.execute(f'SET LOCAL search_path = "{schema}"')
    for step in range(version + 1, VERSION + 1):
        for statement in STEPS[step]:
            await connection.execute(statement)
    for statement in ADDITIONS.values():
        await connection.execute(statement)


async def _add_what_is_new(connection: AsyncConnection[Row], name: str, schema: str) -> None:
    """The indexes that an earlier release did not make. Where they can not be made now, another time."""
    cursor = await connection.execute(_MISSING_ADDITIONS, (list(ADDITIONS), schema))
    missing = await cursor.fetchall()
    try:
        if missing:
            await connection.execute(f"SET LOCAL lock_timeout = {_ADDITION_WAIT_MS}")
            # As for an operation that works alone: nobody writes meanwhile, or makes the same index.
            await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (schema,))
            await connection.execute(f'SET LOCAL search_path = "{schema}"')
        for (index,) in missing:
            await connection.execute(ADDITIONS[index])
        await connection.commit()
    except psycopg.Error as error:
        logger.debug("%s: the indexes %s are made another time: %s", name, missing, error)
        await connection.rollback()
