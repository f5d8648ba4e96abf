"""Schema versions: what each step adds, and how a database is brought to the newest.

The version stands in `PRAGMA user_version`, beside an application id that tells our files from others. All
steps that a database lacks run in one transaction. Released steps never change.

What only makes a database faster is no step: a release that does not know it can go on using the database.
Whoever opens one for writing adds it, if that can be done at once.
"""

from __future__ import annotations

from hermes_store.migrations import v1

__all__ = [
    "ADDITIONS",
    "APPLICATION_ID",
    "COLUMNS",
    "INDEX_STATEMENTS",
    "MARK_INDEX_READY",
    "MARK_INDEX_STALE",
    "STEPS",
    "VERSION",
]

APPLICATION_ID = 0x48_4C_53_44
"""The letters HLSD, as `file` and `PRAGMA application_id` show them."""

STEPS: dict[int, tuple[str, ...]] = {1: v1.STATEMENTS}
"""From the version before to this one."""

VERSION = max(STEPS)

ADDITIONS: dict[str, str] = {
    "lease_tickets_by_lineage": (
        "CREATE INDEX IF NOT EXISTS lease_tickets_by_lineage ON lease_tickets (lineage, number)"
    ),
}
"""Indexes that came after their tables were released, by name."""

COLUMNS = v1.COLUMNS
"""Tables and columns of the newest version; a database without one of them is malformed."""

INDEX_STATEMENTS = v1.INDEX_STATEMENTS
"""The search index, which is left out where SQLite has no FTS5."""

MARK_INDEX_READY = "INSERT OR REPLACE INTO settings (name, value) VALUES ('index', 'ready')"
MARK_INDEX_STALE = "INSERT OR REPLACE INTO settings (name, value) VALUES ('index', 'stale')"
"""A stale index lacks messages: it is neither asked nor kept up to date until it is rebuilt."""
