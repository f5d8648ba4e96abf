"""Upkeep of a PostgreSQL database: room given back, damage looked for."""

from __future__ import annotations

import psycopg
from psycopg import AsyncConnection

from hermes_store.backend import Row
from hermes_store.migrations.postgres_v1 import COLUMNS
from hermes_store.postgres_dsn import Dsn
from hermes_store.postgres_errors import is_connection_lost

__all__ = ["find_damage", "vacuum"]

_MISSING_FROM_INDEX = """
SELECT count(*) FROM messages AS m
WHERE m.body IS NOT NULL AND m.text <> '' AND m.copy_of IS NULL
AND NOT EXISTS (SELECT 1 FROM message_index AS i WHERE i.seq = m.seq)
AND NOT EXISTS (SELECT 1 FROM unindexed AS u WHERE u.seq = m.seq)
"""
_WITHOUT_SESSION = """
SELECT count(*) FROM messages AS m WHERE m.session IS NOT NULL
AND NOT EXISTS (SELECT 1 FROM sessions AS s WHERE s.key = m.session)
"""
_WITHOUT_PROMPT = """
SELECT count(*) FROM sessions AS s WHERE s.prompt_hash IS NOT NULL
AND NOT EXISTS (SELECT 1 FROM system_prompts AS p WHERE p.hash = s.prompt_hash)
"""
_LOST_ROWS = {
    "messages whose session is not there": _WITHOUT_SESSION,
    "sessions whose system prompt is not there": _WITHOUT_PROMPT,
    "messages that the search index lacks": _MISSING_FROM_INDEX,
}


async def vacuum(connection: AsyncConnection[Row], schema: str) -> None:
    """Let the server reuse the room of deleted rows, and look at what the tables hold. Others go on."""
    await connection.set_autocommit(True)
    for table in COLUMNS:
        await connection.execute(f'VACUUM (ANALYZE) "{schema}".{table}')


async def find_damage(connection: AsyncConnection[Row], schema: str, dsn: Dsn) -> list[str]:
    """What is wrong, one line each: rows that can not be read, references that lead nowhere."""
    await connection.set_autocommit(True)
    await connection.set_read_only(True)
    await connection.execute("SELECT set_config('search_path', %s, false)", (f'"{schema}"',))
    found: list[str] = []
    for table in COLUMNS:  # every value of every row is read
        sql = f"SELECT coalesce(sum(octet_length(CAST(t AS text))), 0) FROM {table} AS t"  # noqa: S608 - ours
        await _look(connection, sql, f"table {table}", found, dsn)
    for what, sql in _LOST_ROWS.items():
        rows = await _look(connection, sql, what, found, dsn)
        if rows and rows[0][0]:
            found.append(f"{rows[0][0]} {what}")
    return found


async def _look(
    connection: AsyncConnection[Row], sql: str, what: str, found: list[str], dsn: Dsn
) -> list[Row]:
    """The answer to `sql`; where the server can not give it, a line in `found` and no rows."""
    try:
        return await (await connection.execute(sql)).fetchall()
    except psycopg.Error as error:
        if is_connection_lost(error):
            raise
        found.append(dsn.mask(f"{what}: {str(error).strip()}"))
        return []
