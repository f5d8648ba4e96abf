"""Schema 1: sessions, messages, system prompts, leases, search.

- `messages.seq` orders a session's messages and is never used twice, also after a deletion: a tool result
  that comes late must not find another round in its place. A message that answers a tool call has `round`,
  the seq of the message that made the call, and `position`, the place of the call in it. Such a row is made
  before the tool runs; while its `body` is NULL it is an open place.
- `sessions.lineage` is the id of the session from which this one was compressed, at the very start of the
  chain; NULL means itself. A turn lease belongs to a lineage.
- `leases.number` comes from one counter for the whole database, so it never repeats and the row of a lease
  can go when the lease is given back.
- `message_index` holds words only; the text it was made from is read through the view. A new message is put
  into `unindexed`, which costs a write next to nothing, and reaches the index later, with many others.
"""

from __future__ import annotations

__all__ = ["COLUMNS", "INDEX_STATEMENTS", "STATEMENTS"]

STATEMENTS = (
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    "INSERT INTO counters (name, value) VALUES ('lease', 0)",
    "CREATE TABLE system_prompts (hash TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID",
    """
    CREATE TABLE sessions (
        key INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        source TEXT NOT NULL,
        title TEXT,
        model TEXT,
        provider TEXT,
        cwd TEXT,
        parent_id TEXT,
        lineage TEXT,
        prompt_hash TEXT REFERENCES system_prompts (hash),
        metadata TEXT NOT NULL DEFAULT '{}',
        created_at REAL NOT NULL,
        updated_at REAL NOT NULL,
        ended_at REAL,
        end_reason TEXT,
        message_count INTEGER NOT NULL DEFAULT 0,
        api_calls INTEGER NOT NULL DEFAULT 0,
        input_tokens INTEGER,
        output_tokens INTEGER,
        cache_read_tokens INTEGER,
        cache_write_tokens INTEGER,
        reasoning_tokens INTEGER,
        cost_usd REAL
    )
    """,
    "CREATE INDEX sessions_by_parent ON sessions (parent_id) WHERE parent_id IS NOT NULL",
    """
    CREATE TABLE messages (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        session INTEGER NOT NULL REFERENCES sessions (key) ON DELETE CASCADE,
        uid TEXT NOT NULL,
        role TEXT NOT NULL,
        round INTEGER,
        position INTEGER,
        shape INTEGER NOT NULL,
        text TEXT NOT NULL,
        body TEXT,
        created_at REAL NOT NULL,
        UNIQUE (session, uid)
    )
    """,
    "CREATE TABLE unindexed (seq INTEGER PRIMARY KEY REFERENCES messages (seq) ON DELETE CASCADE)",
    "CREATE INDEX messages_by_session ON messages (session)",
    "CREATE INDEX messages_by_round ON messages (round) WHERE round IS NOT NULL",
    "CREATE INDEX open_places ON messages (session) WHERE body IS NULL",
    """
    CREATE TABLE leases (
        lineage TEXT PRIMARY KEY,
        holder TEXT NOT NULL,
        number INTEGER NOT NULL,
        expires_at REAL NOT NULL
    ) WITHOUT ROWID
    """,
)

INDEX_STATEMENTS = (
    """
    CREATE VIEW message_index_source AS
    SELECT seq, hermes_index_text(text) AS words FROM messages WHERE body IS NOT NULL AND text <> ''
    """,
    """
    CREATE VIRTUAL TABLE message_index USING fts5 (
        words, content = 'message_index_source', content_rowid = 'seq', tokenize = 'unicode61'
    )
    """,
)

COLUMNS: dict[str, str] = {
    "settings": "name, value",
    "counters": "name, value",
    "system_prompts": "hash, text",
    "sessions": "key, id, source, title, model, provider, cwd, parent_id, lineage, prompt_hash, metadata, "
    "created_at, updated_at, ended_at, end_reason, message_count, api_calls, input_tokens, output_tokens, "
    "cache_read_tokens, cache_write_tokens, reasoning_tokens, cost_usd",
    "messages": "seq, session, uid, role, round, position, shape, text, body, created_at",
    "unindexed": "seq",
    "leases": "lineage, holder, number, expires_at",
}
