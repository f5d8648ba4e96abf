"""Sessions as records: what they start with, what is added, how they are found, exported and deleted."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from hermes_messages import (
    AssistantMessage,
    ConfigurationError,
    SessionNotFoundError,
    ToolCall,
    Usage,
    UserMessage,
)
from hermes_messages.protocols import NewMessage, SessionInfo
from hermes_store import SessionDB


def test_a_session_keeps_what_it_was_made_with(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            info = SessionInfo(
                source="batch",
                title="t",
                model="m",
                provider="p",
                cwd="/tmp",
                parent_session_id="root",
                system_prompt="Be brief.",
                metadata={"n": [1, None]},
            )
            made = await db.ensure_session("s", info)
            again = await db.ensure_session("s", SessionInfo(source="other"))
            assert made == again == await db.get_session("s")
            assert (made.source, made.system_prompt, made.metadata) == (
                "batch",
                "Be brief.",
                {"n": [1, None]},
            )
            assert await db.get_session("absent") is None

    asyncio.run(main())


def test_a_system_prompt_is_stored_once_for_all_its_sessions(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            for number in range(5):
                await db.create_session(str(number), system_prompt="The same long prompt.")
            assert prompts(tmp_path) == 1
            await db.update_session_meta("0", system_prompt="Another.")
            for number in range(1, 5):
                await db.delete_session(str(number))
            assert prompts(tmp_path) == 1
            record = await db.get_session("0")
            assert record is not None
            assert record.system_prompt == "Another."

    asyncio.run(main())


def prompts(folder: Path) -> int:
    connection = sqlite3.connect(folder / "s.db")
    try:
        [(count,)] = connection.execute("SELECT count(*) FROM system_prompts")
        return int(count)
    finally:
        connection.close()


def test_metadata_is_merged_and_bad_metadata_changes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s", metadata={"a": 1, "b": 2})
            await db.update_session_meta("s", metadata={"b": 3, "c": None})
            for bad in ({"x": {1, 2}}, {"x": float("nan")}):
                with pytest.raises(ConfigurationError, match="JSON"):
                    await db.update_session_meta("s", metadata=bad)  # type: ignore[arg-type]
            record = await db.get_session("s")
            assert record is not None
            assert record.metadata == {"a": 1, "b": 3, "c": None}
            with pytest.raises(SessionNotFoundError, match="ensure_session"):
                await db.update_session_meta("absent", metadata={})
            with pytest.raises(ConfigurationError):
                await db.create_session("")

    asyncio.run(main())


def test_unknown_figures_stay_unknown(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            await db.update_token_counts("s", None, api_calls=1)
            await db.update_token_counts("s", Usage(input_tokens=5, cost_usd=0.5), api_calls=2)
            await db.update_token_counts("s", Usage(input_tokens=7, output_tokens=0), api_calls=1)
            record = await db.get_session("s")
            assert record is not None
            assert record.usage == Usage(input_tokens=12, output_tokens=0, cost_usd=0.5)
            assert record.api_calls == 4

    asyncio.run(main())


def test_writes_that_share_a_commit_count_once_each(tmp_path: Path) -> None:
    """Also when one of them fails and the others are done again without it."""

    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            calls = [
                db.update_token_counts(
                    "absent" if number % 7 == 3 else "s", Usage(output_tokens=1), api_calls=1
                )
                for number in range(100)
            ]
            results = await asyncio.gather(*calls, return_exceptions=True)
            failed = [number for number, result in enumerate(results) if result is not None]
            assert failed == [number for number in range(100) if number % 7 == 3]
            record = await db.get_session("s")
            assert record is not None
            assert (record.api_calls, record.usage.output_tokens) == (100 - len(failed),) * 2

    asyncio.run(main())


def test_sessions_are_listed_and_found_by_title(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            for name in ("one", "two", "three"):
                await db.create_session(name, source="cli" if name == "two" else "batch")
            await db.set_session_title("one", "100% of the storks")
            assert [record.id for record in await db.list_sessions()] == ["one", "three", "two"]
            assert [record.id for record in await db.list_sessions(source="cli")] == ["two"]
            assert [record.id for record in await db.list_sessions(limit=1, offset=1)] == ["three"]
            assert await db.list_sessions(limit=0) == []
            assert [record.id for record in await db.search_sessions("storks 100%")] == ["one"]
            assert await db.search_sessions("100_") == []
            await db.set_session_title("one", None)
            assert await db.search_sessions("storks") == []

    asyncio.run(main())


def test_ending_reopening_deleting_and_export(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            await db.create_session("child", parent_session_id="s")
            await db.append_message("s", UserMessage("hello stork"))
            await db.end_session("s", "done")
            record = await db.get_session("s")
            assert record is not None
            assert record.end_reason == "done"
            assert record.ended_at is not None
            await db.reopen_session("s")
            exported = await db.export_session("s")
            assert exported is not None
            assert exported["id"] == "s"
            assert exported["ended_at"] is None
            assert exported["messages"] == [{"role": "user", "content": "hello stork"}]
            assert await db.get_messages_as_conversation("s") == exported["messages"]
            assert await db.delete_session("s")
            assert not await db.delete_session("s")
            assert await db.export_session("s") is None
            assert await db.search_messages("stork") == []
            child = await db.get_session("child")
            assert child is not None
            assert child.parent_session_id is None

    asyncio.run(main())


def test_ids_too_long_for_an_index_are_refused_alike_everywhere(tmp_path: Path) -> None:
    """SQLite would take them, and the session could then not move to PostgreSQL."""

    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            for id_ in ("\U0001f9a9" * 500, "\x00" * 285, "s" * 2000):
                await db.create_session(id_, parent_session_id=id_)
                child = id_[:-1]
                await db.append_message(id_, UserMessage("kept"), uid=id_)
                await db.update_token_counts(id_, None, uid=id_)
                await db.set_session_state(id_, id_, 1)
                lease = await db.acquire_session_turn_lease(id_, id_, 60)
                await db.replace_messages(id_, [NewMessage(id_, UserMessage("anew"))], lease=lease)
                calls = AssistantMessage(tool_calls=tuple(ToolCall(str(n), "f", "{}") for n in range(11)))
                await db.begin_tool_round(id_, id_[::-1][:-2], calls, lease=lease)
                await db.close_open_rounds(id_, lease=lease)
                await db.archive_and_compact(id_, [], child_session_id=child, lease=lease)
                assert await db.resolve_resume_session_id(id_) == child
            before = len(await db.list_sessions())
            long = "\U0001f9a9" * 501
            calls_ = [
                db.create_session(long),
                db.create_session("x", parent_session_id=long),
                db.append_message(child, UserMessage("x"), uid=long),
                db.update_token_counts(child, None, uid=long),
                db.set_session_state(child, long, 1),
                db.try_acquire_session_turn_lease(long, "h", 1),
                db.archive_and_compact(child, [], child_session_id=long),
            ]
            for call in calls_:
                with pytest.raises(ConfigurationError, match="2,000 are the most"):
                    await call
            assert len(await db.list_sessions()) == before

    asyncio.run(main())


USAGE_OUT_OF_RANGE: list[tuple[Usage | None, int]] = [
    (Usage(input_tokens=2**63), 1),
    (Usage(output_tokens=-(2**70)), 1),
    (Usage(input_tokens=1.5), 1),  # type: ignore[arg-type]
    (Usage(cost_usd=float("nan")), 1),
    (Usage(cost_usd=float("inf")), 1),
    (None, 2**64),
]


def test_usage_that_no_column_holds_is_refused_and_nothing_counted(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            for usage, api_calls in USAGE_OUT_OF_RANGE:
                with pytest.raises(ConfigurationError, match="nothing was stored"):
                    await db.update_token_counts("s", usage, api_calls=api_calls)
            assert await db.get_calls("s") == []
            assert await db.get_usage_by_model() == []

    asyncio.run(main())
