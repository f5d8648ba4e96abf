"""A program on hermes-store: a session, a tool round, a search, a lease, and what a fence refuses."""

import asyncio
import tempfile
from pathlib import Path

from hermes_messages import AssistantMessage, LeaseLostError, StoreError, ToolCall, ToolMessage, UserMessage
from hermes_messages.protocols import (
    LeaseToken,
    MessageHit,
    NewMessage,
    SessionInfo,
    SessionStore,
    SupportsLeases,
    SupportsSearch,
)
from hermes_store import ImportReport, InterruptedCall, SessionDB


async def fill(store: SessionStore, session_id: str) -> int:
    await store.ensure_session(session_id, SessionInfo(source="example", title="Storks"))
    await store.append_messages_batch(session_id, [NewMessage("m1", UserMessage("Where are the storks?"))])
    call = ToolCall("c1", "look_up", '{"topic": "storks"}')
    round_ = await store.begin_tool_round(session_id, "m2", AssistantMessage(tool_calls=(call,)))
    await store.set_tool_result(round_, 0, ToolMessage("c1", "South of the Sahara."))
    return len(await store.get_messages(session_id))


async def fenced(store: SupportsLeases, writer: SessionStore, session_id: str) -> bool:
    lease: LeaseToken | None = await store.try_acquire_session_turn_lease(session_id, "me", 30.0)
    assert lease is not None
    try:
        await writer.append_messages_batch(session_id, [NewMessage("m3", UserMessage("And now?"))])
    except LeaseLostError:
        return True
    finally:
        await store.release_session_turn_lease(lease)
    return False


async def main(folder: Path) -> None:
    async with SessionDB(folder / "state.db", synchronous="FULL") as db:
        searchable: SupportsSearch = db
        assert await fill(db, "storks") == 3
        hits: list[MessageHit] = await searchable.search_messages("sahara")
        print([hit.snippet for hit in hits])
        assert await fenced(db, db, "storks")
        waiting: list[InterruptedCall] = await db.interrupted_calls("storks")
        assert waiting == []
        await db.export_to_file(folder / "all.jsonl")
    async with SessionDB(folder / "other.db") as other:
        report: ImportReport = await other.import_sessions(folder / "all.jsonl")
        print(report.sessions, report.messages)
    try:
        await SessionDB(folder / "missing" / "x.db", read_only=True).get_session("storks")
    except StoreError as error:
        print(error)


with tempfile.TemporaryDirectory() as place:
    asyncio.run(main(Path(place)))
