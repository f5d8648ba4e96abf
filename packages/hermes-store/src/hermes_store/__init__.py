"""Durable, searchable agent sessions in a SQLite file or on PostgreSQL, native async.

The smallest program:

    import asyncio
    from hermes_messages import UserMessage
    from hermes_store import SessionDB

    async def main() -> None:
        async with SessionDB("state.db") as db:
            session_id = await db.create_session(source="example")
            await db.append_message(session_id, UserMessage("Where do the storks go in winter?"))
            for hit in await db.search_messages("storks"):
                print(hit.session_id, hit.snippet)

    asyncio.run(main())
"""

from hermes_store.errors import (
    StoreClosedError,
    StoreConnectionError,
    StoreCorruptError,
    StoreFileChangedError,
    StoreFullError,
    StoreReadOnlyError,
)
from hermes_store.files import set_aside
from hermes_store.records import (
    CallRecord,
    Conversations,
    ImportReport,
    InterruptedCall,
    ModelUsage,
    RetentionReport,
)
from hermes_store.session_db import Journal, SessionDB, Synchronous

__all__ = [
    "CallRecord",
    "Conversations",
    "ImportReport",
    "InterruptedCall",
    "Journal",
    "ModelUsage",
    "RetentionReport",
    "SessionDB",
    "StoreClosedError",
    "StoreConnectionError",
    "StoreCorruptError",
    "StoreFileChangedError",
    "StoreFullError",
    "StoreReadOnlyError",
    "Synchronous",
    "set_aside",
]
