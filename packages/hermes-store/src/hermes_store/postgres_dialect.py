"""Where PostgreSQL's SQL differs from SQLite's: the one place.

Operations are written for both. What differs is small enough to be replaced in their text:

| SQLite                          | PostgreSQL                                                     |
| ------------------------------- | -------------------------------------------------------------- |
| `?`                             | `%s`, and a literal `%` doubled                                |
| LIKE ignores the case of A to Z | ILIKE; columns have the collation "C", which knows A to Z only |
| `instr(a, b)`                   | `strpos(a, b)`                                                 |
| `lower(?)`                      | the same under the collation "C"                               |
| INTEGER PRIMARY KEY             | an identity column                                             |
| INTEGER, REAL, TEXT             | bigint, double precision, text under the collation "C"         |
| WITHOUT ROWID                   | nothing                                                        |
| BEGIN IMMEDIATE                 | the advisory locks below                                       |
| the machine's clock             | `clock_timestamp()`, once the locks are held                   |

RETURNING, ON CONFLICT and `excluded` are the same in both. JSON is text in both, so nothing is rewritten.
"""

# ruff: noqa: S608 - the statements are put together from constants of this package

from __future__ import annotations

import re
from functools import lru_cache

from hermes_store.operations.messages import FREE_TO_WRITE, WRITES_UNDER_LEASE

__all__ = [
    "ALONE",
    "APPEND_ALL",
    "BEGIN",
    "BESIDE_OTHERS",
    "CLOCK",
    "LINEAGE",
    "LINEAGES_IF_FREE",
    "to_postgres",
    "to_postgres_schema",
]

_NOW = "extract(epoch FROM clock_timestamp())::double precision"

BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
"""Begins a write, whose statements see what is committed when each of them begins."""

CLOCK = f"SELECT {_NOW}"
"""The database's time in seconds since the epoch."""

# Two levels of locks, held until the transaction ends. An operation that says which session it changes
# shares the first and has the second, its lineage's, for itself; any other has the first for itself, as in
# SQLite. Everybody takes them in this order and before anything else, so no two wait for each other. Time,
# transaction number and the schema's version are read once the locks are held, in the same round trip.
_EVERYTHING = "hashtextextended(current_schema(), 0)"
_LINEAGE_OF = (
    "hashtextextended(current_schema() || '.' || "
    "coalesce((SELECT coalesce(s.lineage, s.id) FROM sessions AS s WHERE s.id = {id}), {id}), 0)"
)
_ONE_LINEAGE = _LINEAGE_OF.format(id="%s")
_FACTS = f"{_NOW}, pg_current_xact_id()::text, current_version()"
_ANSWER = f"SELECT {_FACTS} FROM"

_ALL_ALONE = f"everything AS MATERIALIZED (SELECT pg_advisory_xact_lock({_EVERYTHING}))"
_ALL_SHARED = f"everything AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared({_EVERYTHING}))"
_LINEAGE_ALONE = f"lineage AS MATERIALIZED (SELECT pg_advisory_xact_lock({_ONE_LINEAGE}) FROM everything)"

ALONE = f"WITH {_ALL_ALONE} {_ANSWER} everything"
"""Takes the lock for an operation that may change anything."""

BESIDE_OTHERS = f"WITH {_ALL_SHARED} {_ANSWER} everything"
"""Takes the lock for an operation that only needs that nobody works alone meanwhile."""

LINEAGE = f"WITH {_ALL_SHARED}, {_LINEAGE_ALONE} {_ANSWER} lineage"
"""Takes the locks for an operation on one lineage; values: the session's id, twice."""

# Appends to several sessions. To wait for several locks would be to wait for each other, so those are taken
# that are free. Which these are has to reach the INSERT, which is on its way already, so it stands in a
# setting of the transaction. One statement would not do: it would see the leases as they were before it had
# the locks.
_FREE = "hermes_store.free"

LINEAGES_IF_FREE = f"""
WITH everything AS MATERIALIZED (SELECT pg_try_advisory_xact_lock_shared({_EVERYTHING}) AS free),
wanted AS MATERIALIZED (
    SELECT a.n, {_LINEAGE_OF.format(id="a.id")} AS lock FROM unnest(%s::text[]) WITH ORDINALITY AS a(id, n)
),
tried AS MATERIALIZED (
    SELECT w.n, pg_try_advisory_xact_lock(w.lock) AS free FROM wanted AS w, everything AS e WHERE e.free
),
found AS MATERIALIZED (SELECT coalesce(array_agg(t.n), '{{}}') AS numbers FROM tried AS t WHERE t.free)
SELECT {_FACTS}, f.numbers, set_config('{_FREE}', f.numbers::text, true) FROM found AS f
"""
"""Takes the locks for appends, where they are free; value: their session ids. Answers besides the numbers of
those that may go on, from 1."""

APPEND_ALL = f"""
INSERT INTO messages (session, uid, role, shape, text, body, created_at)
SELECT s.key, a.uid, a.role, a.shape, a.text, a.body, t.now
FROM (SELECT {_NOW} AS now, nullif(current_setting('{_FREE}', true), '')::bigint[] AS free) AS t,
unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::text[], %s::bigint[])
    WITH ORDINALITY AS a(id, uid, role, shape, text, body, token, n)
JOIN sessions AS s ON s.id = a.id
WHERE (t.free IS NULL OR a.n = ANY (t.free)) AND CASE WHEN a.token IS NULL
    THEN {FREE_TO_WRITE.format(now="t.now")} ELSE {WRITES_UNDER_LEASE.format(lease="a.token")} END
ORDER BY a.n
ON CONFLICT (session, uid) DO NOTHING
RETURNING seq, (SELECT s.id FROM sessions AS s WHERE s.key = messages.session), uid
"""
"""The guarded INSERT of appends whose locks are held, in their order; values: a list for each column, and the
numbers of their leases. Answers the rows that were inserted."""


@lru_cache(maxsize=512)
def to_postgres(sql: str) -> str:
    """The text of an operation's statement as PostgreSQL and psycopg read it."""
    sql = sql.replace("%", "%%").replace(" LIKE ?", " ILIKE ?").replace("instr(", "strpos(")
    return sql.replace("lower(?)", 'lower(? COLLATE "C")').replace("?", "%s")


_TYPES = (
    (r"\bINTEGER PRIMARY KEY AUTOINCREMENT\b", "bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"),
    (r"\bINTEGER PRIMARY KEY(?! REFERENCES)\b", "bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"),
    (r"\bINTEGER\b", "bigint"),
    (r"\bREAL\b", "double precision"),
    (r"\bTEXT\b", 'text COLLATE "C"'),
    (r"\)\s*WITHOUT ROWID\b", ")"),
)


def to_postgres_schema(statement: str) -> str:
    """A statement of the schema in PostgreSQL's types."""
    for pattern, replacement in _TYPES:
        statement = re.sub(pattern, replacement, statement)
    return statement
