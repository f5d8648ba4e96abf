"""Schema 1: sessions, messages, system prompts, leases, search.

- `messages.seq` orders a session's messages and is never used twice, also after a deletion: a tool result
  that comes late must not find another round in its place. So where the highest goes, a row without a session
  takes the next; AUTOINCREMENT would cost every append another page. A message that answers a tool call has
  `round`, the seq of the message that made the call, and `position`, the place of the call in it. Such a row
  is made before the tool runs; while its `body` is NULL it is an open place.
- A message with `archived_at` belongs to the history, no longer to the conversation: a compression or a
  replacement put others in its place. `copy_of` marks a message that such a step carried over: the seq of the
  original. Originals and copies together are the display history, without the copies.
- `sessions.lineage` is the id of the session from which this one was compressed, at the very start of the
  chain; NULL means itself. A turn lease belongs to a lineage. `lease_tickets` holds the stores in which turns
  wait for one, in the order of their numbers; `holder` is a name that such a store gave itself.
- A round in `suspended_rounds` waits for a decision of a person: nobody closes it.
- How many messages a session has and when the last one came is read from the index `live_messages`, so that
  an append changes no row of `sessions`.
- `calls` has one row for each report of usage; the totals in `sessions` are their sums.
- `leases.number` comes from one counter for the whole database, so it never repeats and the row of a lease
  can go when the lease is given back.
- `message_index` holds words only; the text it was made from is read through the view. Texts above 200,000
  characters are kept out of it, for to make words of 50 MB holds up every writer for many seconds; searches
  look through them, and find them by `long_messages`. New messages reach it later, many at a time: the
  counter `indexed` is the last seq that did, and `unindexed` names those before it whose text came
  afterwards, in a place that was kept.
"""

from __future__ import annotations

__all__ = ["COLUMNS", "INDEX_STATEMENTS", "STATEMENTS"]

STATEMENTS = (
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    "INSERT INTO counters (name, value) VALUES ('lease', 0), ('ticket', 0), ('indexed', 0)",
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
        archived_at REAL,
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
    "CREATE INDEX sessions_by_lineage ON sessions (lineage) WHERE lineage IS NOT NULL",
    """
    CREATE TABLE messages (
        seq INTEGER PRIMARY KEY,
        session INTEGER REFERENCES sessions (key) ON DELETE CASCADE,
        uid TEXT NOT NULL,
        role TEXT NOT NULL,
        round INTEGER,
        position INTEGER,
        shape INTEGER NOT NULL,
        text TEXT NOT NULL,
        body TEXT,
        created_at REAL NOT NULL,
        archived_at REAL,
        copy_of INTEGER,
        UNIQUE (session, uid)
    )
    """,
    """
    CREATE TRIGGER keep_highest_seq BEFORE DELETE ON messages
    WHEN old.session IS NOT NULL AND old.seq = (SELECT max(seq) FROM messages)
    BEGIN
        DELETE FROM messages WHERE session IS NULL;
        INSERT INTO messages (uid, role, shape, text, created_at) VALUES ('', '', 0, '', 0);
    END
    """,
    "CREATE TABLE unindexed (seq INTEGER PRIMARY KEY REFERENCES messages (seq) ON DELETE CASCADE)",
    "CREATE INDEX live_messages ON messages (session) WHERE body IS NOT NULL AND archived_at IS NULL",
    "CREATE INDEX messages_by_round ON messages (round) WHERE round IS NOT NULL",
    "CREATE INDEX messages_by_original ON messages (copy_of) WHERE copy_of IS NOT NULL",
    "CREATE INDEX open_places ON messages (session) WHERE body IS NULL",
    """
    CREATE TABLE suspended_rounds (
        round INTEGER PRIMARY KEY REFERENCES messages (seq) ON DELETE CASCADE,
        session INTEGER NOT NULL REFERENCES sessions (key) ON DELETE CASCADE,
        pending TEXT NOT NULL,
        created_at REAL NOT NULL
    )
    """,
    "CREATE INDEX suspended_rounds_by_session ON suspended_rounds (session)",
    """
    CREATE TABLE session_state (
        session INTEGER NOT NULL REFERENCES sessions (key) ON DELETE CASCADE,
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        updated_at REAL NOT NULL,
        PRIMARY KEY (session, name)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE calls (
        number INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES sessions (key) ON DELETE CASCADE,
        uid TEXT,
        model TEXT,
        provider TEXT,
        api_calls INTEGER NOT NULL,
        input_tokens INTEGER,
        output_tokens INTEGER,
        cache_read_tokens INTEGER,
        cache_write_tokens INTEGER,
        reasoning_tokens INTEGER,
        cost_usd REAL,
        created_at REAL NOT NULL,
        UNIQUE (session, uid)
    )
    """,
    """
    CREATE TABLE leases (
        lineage TEXT PRIMARY KEY,
        holder TEXT NOT NULL,
        number INTEGER NOT NULL,
        expires_at REAL NOT NULL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE lease_tickets (
        number INTEGER PRIMARY KEY,
        lineage TEXT NOT NULL,
        holder TEXT NOT NULL,
        expires_at REAL NOT NULL
    )
    """,
)

INDEX_STATEMENTS = (
    """
    CREATE VIEW message_index_source AS
    SELECT seq, hermes_index_text(text) AS words FROM messages
    WHERE body IS NOT NULL AND text <> '' AND copy_of IS NULL AND length(text) <= 200000
    """,
    "CREATE INDEX long_messages ON messages (seq) WHERE length(text) > 200000",
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
    "created_at, updated_at, ended_at, end_reason, archived_at, api_calls, input_tokens, output_tokens, "
    "cache_read_tokens, cache_write_tokens, reasoning_tokens, cost_usd",
    "messages": "seq, session, uid, role, round, position, shape, text, body, created_at, "
    "archived_at, copy_of",
    "unindexed": "seq",
    "suspended_rounds": "round, session, pending, created_at",
    "session_state": "session, name, value, updated_at",
    "calls": "number, session, uid, model, provider, api_calls, input_tokens, output_tokens, "
    "cache_read_tokens, cache_write_tokens, reasoning_tokens, cost_usd, created_at",
    "lease_tickets": "number, lineage, holder, expires_at",
    "leases": "lineage, holder, number, expires_at",
}
