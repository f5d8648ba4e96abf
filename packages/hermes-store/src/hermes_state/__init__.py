"""SessionDB: durable, searchable agent sessions on SQLite, native async."""
