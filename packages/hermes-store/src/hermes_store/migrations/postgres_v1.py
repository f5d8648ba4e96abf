"""Schema 1 on PostgreSQL: the same tables, and what only this database needs.

- `schema_version` has one row with the version of the schema. `current_version()` reads it as it is at that
  moment, not as it was when the statement began: a statement may first wait for a lock while others migrate.
- SQLite's triggers are left out: they keep a sequence number from being given twice, which an identity
  column never does.
- A trigger notes in `unindexed` each message that has or gets a text for the index: sequence numbers do not
  become visible in their order here, so no counter can tell up to where the index reaches.
- `message_index.words` is NULL for a text that is too long for the index; searches look into it.
"""

from __future__ import annotations

from hermes_store.migrations import v1
from hermes_store.postgres_dialect import to_postgres_schema
from hermes_store.postgres_search import INDEX_TABLE

__all__ = ["COLUMNS", "STATEMENTS"]

_INDEX_STATEMENTS = (
    """
    CREATE FUNCTION note_unindexed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO unindexed (seq) VALUES (NEW.seq) ON CONFLICT (seq) DO NOTHING;
        RETURN NULL;
    END
    $$
    """,
    """
    CREATE TRIGGER note_unindexed AFTER INSERT OR UPDATE OF text, body, copy_of ON messages
    FOR EACH ROW WHEN (NEW.body IS NOT NULL AND NEW.text <> '' AND NEW.copy_of IS NULL)
    EXECUTE FUNCTION note_unindexed()
    """,
    *INDEX_TABLE,
)

STATEMENTS = (
    "CREATE TABLE schema_version (version bigint NOT NULL)",
    # VOLATILE: each query of such a function sees what is committed when that query begins.
    # https://www.postgresql.org/docs/current/xfunc-volatility.html
    """
    CREATE FUNCTION current_version() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
    BEGIN
        RETURN (SELECT max(version) FROM schema_version);
    END
    $$
    """,
    *(to_postgres_schema(statement) for statement in v1.STATEMENTS if "CREATE TRIGGER" not in statement),
    *_INDEX_STATEMENTS,
    "INSERT INTO schema_version (version) VALUES (1)",
)

COLUMNS: dict[str, str] = {**v1.COLUMNS, "schema_version": "version", "message_index": "seq, words"}
