"""Replacement and compression: another conversation goes on, nothing of the old one is lost."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from hermes_messages import (
    AssistantMessage,
    ConfigurationError,
    JsonObject,
    JsonValue,
    LeaseLostError,
    SessionNotFoundError,
    StoreError,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_messages.protocols import NewMessage
from hermes_store import SessionDB

CALLS = AssistantMessage(tool_calls=(ToolCall("a", "f", "{}"), ToolCall("b", "f", "{}")))


def user(uid: str, text: str | None = None) -> NewMessage:
    return NewMessage(uid, UserMessage(text or f"text of {uid}"))


async def uids(db: SessionDB, session_id: str) -> list[str]:
    return [item.uid for item in await db.get_messages(session_id)]


def texts(conversation: list[JsonObject]) -> list[JsonValue]:
    return [message["content"] for message in conversation]


def test_a_replaced_conversation_is_archived_and_still_read_and_found(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            await db.append_messages_batch("s", [user(f"u{n}", f"word{n} stork") for n in range(6)])
            kept = [user("u4", "word4 stork"), user("u5", "word5 stork")]
            new = [user("summary", "a summary"), *kept]
            seqs = await db.replace_messages("s", new)
            assert await db.replace_messages("s", new) == seqs
            assert await uids(db, "s") == ["summary", "u4", "u5"]
            record = await db.get_session("s")
            assert record is not None
            assert record.message_count == 3
            conversation, display = await db.get_resume_conversations("s")
            assert texts(conversation) == ["a summary", "word4 stork", "word5 stork"]
            assert texts(display) == [*(f"word{n} stork" for n in range(6)), "a summary"]
            assert await db.get_messages_as_conversation("s", include_ancestors=True) == display
            assert len(await db.search_messages("stork")) == 6
            # A second flush of what was archived, and of what was carried over, adds nothing.
            await db.append_messages_batch("s", [user("u1", "word1 stork"), user("u5", "word5 stork")])
            assert await uids(db, "s") == ["summary", "u4", "u5"]
            # Once more: what was carried over before is still shown once.
            await db.replace_messages("s", [user("second", "another summary"), user("u5", "word5 stork")])
            _, display = await db.get_resume_conversations("s")
            assert texts(display) == [*(f"word{n} stork" for n in range(6)), "a summary", "another summary"]
            await db.replace_messages("s", [])
            assert await db.get_messages("s") == []
            assert len((await db.get_resume_conversations("s")).display) == 8

    asyncio.run(main())


def test_a_changed_message_with_a_known_identity_is_a_replacement(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            await db.append_messages_batch("s", [user("a", "long"), user("b")])
            await db.replace_messages("s", [user("a", "short"), user("b")])
            assert [item.message for item in await db.get_messages("s")] == [
                UserMessage("short"),
                UserMessage("text of b"),
            ]
            assert texts((await db.get_resume_conversations("s")).display) == ["long", "text of b"]

    asyncio.run(main())


def test_a_replacement_that_can_not_be_made_changes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            await db.append_messages_batch("s", [user("a"), user("b")])
            with pytest.raises(ConfigurationError, match="same uid"):
                await db.replace_messages("s", [user("x"), user("x")])
            with pytest.raises(SessionNotFoundError):
                await db.replace_messages("absent", [])
            lease = await db.try_acquire_session_turn_lease("s", "me", 60)
            with pytest.raises(LeaseLostError):
                await db.replace_messages("s", [])
            with pytest.raises(LeaseLostError):
                await db.archive_and_compact("s", [], child_session_id="c")
            round_ = await db.begin_tool_round("s", "r", CALLS, lease=lease)
            for child in (None, "c"):
                with pytest.raises(StoreError, match="inside a round"):
                    await db.archive_and_compact("s", [user("x")], child_session_id=child, lease=lease)
            assert await uids(db, "s") == ["a", "b", "r"]
            assert await db.get_session("c") is None
            for position in range(2):
                await db.set_tool_result(round_, position, ToolMessage("ab"[position], "x"), lease=lease)
            await db.replace_messages("s", [user("x")], lease=lease)
            assert await uids(db, "s") == ["x"]

    asyncio.run(main())


def test_a_replacement_that_fails_half_way_changes_nothing(tmp_path: Path) -> None:
    """The old conversation is put away and the new one stored in one transaction."""

    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            await db.append_message("s", UserMessage("first"), uid="a")
            await db.append_message("s", UserMessage("second"), uid="b")
            connection = sqlite3.connect(tmp_path / "s.db")
            connection.execute(
                "CREATE TRIGGER fails BEFORE INSERT ON messages WHEN new.uid = 'd'"
                " BEGIN SELECT RAISE(ABORT, 'no more'); END"
            )
            connection.close()
            new = [user("c"), user("d")]
            with pytest.raises(StoreError, match="no more"):
                await db.replace_messages("s", new)
            with pytest.raises(StoreError, match="no more"):
                await db.archive_and_compact("s", new, child_session_id="child")
            assert await uids(db, "s") == ["a", "b"]
            assert await db.get_session("child") is None
            assert await db.check_integrity() == []

    asyncio.run(main())


def test_a_child_goes_on_and_the_history_is_the_whole_lineage(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("root", title="Storks", model="m", system_prompt="Be brief.", cwd="/w")
            await db.set_session_state("root", "todos", [{"task": "look"}])
            await db.append_messages_batch("root", [user(f"u{n}") for n in range(4)])
            first = [user("s1", "summary one"), user("u3")]
            assert await db.archive_and_compact("root", first, child_session_id="c1") == "c1"
            assert await db.archive_and_compact("root", first, child_session_id="c1") == "c1"
            await db.append_message("c1", UserMessage("more"), uid="m")
            await db.archive_and_compact("c1", [user("s2", "summary two"), user("m", "more")])
            await db.archive_and_compact(
                "c1", [user("s3", "summary three"), user("m", "more")], child_session_id="c2"
            )
            for id_ in ("root", "c1", "c2"):
                assert await db.resolve_resume_session_id(id_) == "c2"
                chain = await db.get_compression_lineage(id_)
                assert [record.id for record in chain] == ["root", "c1", "c2"]
                conversation, display = await db.get_resume_conversations(id_)
                assert texts(conversation) == ["summary three", "more"]
                assert texts(display) == [
                    *(f"text of u{n}" for n in range(4)),
                    "summary one",
                    "more",
                    "summary two",
                    "summary three",
                ]
            root, _, tip = chain
            assert (root.end_reason, tip.ended_at) == ("compression", None)
            assert (tip.title, tip.model, tip.system_prompt, tip.cwd) == ("Storks", "m", "Be brief.", "/w")
            assert tip.parent_session_id == "c1"
            assert await db.get_session_state("c2", "todos") == [{"task": "look"}]
            with pytest.raises(StoreError, match="compressed into 'c1' before"):
                await db.archive_and_compact("root", first, child_session_id="other")
            await db.create_session("taken")
            with pytest.raises(StoreError, match="can not become 'taken'"):
                await db.archive_and_compact("c2", first, child_session_id="taken")
            assert await db.resolve_resume_session_id("absent") == "absent"
            assert await db.get_compression_lineage("absent") == []

    asyncio.run(main())


def test_the_lease_of_the_root_holds_for_the_child(tmp_path: Path) -> None:
    """A turn that compresses its session goes on writing under the token that it has."""

    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("root")
            lease = await db.try_acquire_session_turn_lease("root", "me", 60)
            await db.archive_and_compact("root", [user("s")], child_session_id="c", lease=lease)
            assert await db.try_acquire_session_turn_lease("c", "you", 60) is None
            with pytest.raises(LeaseLostError):
                await db.append_message("c", UserMessage("x"))
            await db.append_message("c", UserMessage("x"), lease=lease)
            assert lease is not None
            await db.release_session_turn_lease(lease)
            assert await db.try_acquire_session_turn_lease("c", "you", 60) is not None

    asyncio.run(main())


def test_a_child_by_delegation_has_a_lease_and_a_history_of_its_own(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("root")
            assert await db.try_acquire_session_turn_lease("root", "me", 60) is not None
            await db.create_session("helper", parent_session_id="root")
            assert await db.try_acquire_session_turn_lease("helper", "you", 60) is not None
            assert await db.resolve_resume_session_id("root") == "root"

    asyncio.run(main())


def test_what_a_child_carried_over_survives_the_deletion_of_its_parent(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("root")
            await db.append_messages_batch("root", [user("u0", "a stork"), user("u1", "a heron")])
            await db.archive_and_compact("root", [user("u1", "a heron")], child_session_id="c")
            assert [hit.session_id for hit in await db.search_messages("heron")] == ["root"]
            await db.delete_session("root")
            assert [hit.session_id for hit in await db.search_messages("heron")] == ["c"]
            assert await db.search_messages("stork") == []
            assert texts((await db.get_resume_conversations("c")).display) == ["a heron"]
            assert await db.check_integrity() == []

    asyncio.run(main())


def test_copies_of_copies_stand_in_the_history_once_when_the_first_is_deleted(tmp_path: Path) -> None:
    """Also in what is exported then: the copy that became the original is the original of the others."""

    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db, SessionDB(tmp_path / "t.db") as other:
            await db.create_session("1")
            kept = [NewMessage(f"m{n}", UserMessage(f"kept {n}")) for n in range(3)]
            await db.append_messages_batch("1", kept)
            for parent in (1, 2, 3):
                await db.archive_and_compact(str(parent), kept, child_session_id=str(parent + 1))
            expected = await db.get_messages_as_conversation("4", include_ancestors=True)
            assert len(expected) == 3
            for first in ("1", "2"):
                await db.delete_session(first)
                assert await db.get_messages_as_conversation("4", include_ancestors=True) == expected
            await db.export_to_file(tmp_path / "x.jsonl")
            await other.import_sessions(tmp_path / "x.jsonl")
            assert await other.get_messages_as_conversation("4", include_ancestors=True) == expected
            assert len(await other.search_messages("kept")) == 3

    asyncio.run(main())


def test_a_cancelled_replacement_leaves_the_old_or_the_new_conversation(tmp_path: Path) -> None:
    """Cancelled once or twice, at any step: never half of both, and no lock is left behind."""

    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            for steps in range(8):
                for times in (1, 2):
                    id_ = f"{steps}-{times}"
                    await db.create_session(id_)
                    old = [user(f"u{n}") for n in range(5)]
                    await db.append_messages_batch(id_, old)
                    for child in (None, f"{id_}-child"):
                        before = await uids(db, id_)
                        new = [user(f"s{child}"), user("u4")]
                        task = asyncio.create_task(db.archive_and_compact(id_, new, child_session_id=child))
                        for _ in range(steps):
                            await asyncio.sleep(0)
                        for _ in range(times):
                            task.cancel()
                            await asyncio.sleep(0)
                        await asyncio.gather(task, return_exceptions=True)
                        tip = await db.resolve_resume_session_id(id_)
                        after = [f"s{child}", "u4"]
                        assert await uids(db, tip) in (before, after)
                        assert await db.archive_and_compact(id_, new, child_session_id=child)
                        assert await uids(db, await db.resolve_resume_session_id(id_)) == after
                    display = (await db.get_resume_conversations(id_)).display
                    assert texts(display)[:5] == [f"text of u{n}" for n in range(5)]
            assert await db.check_integrity() == []

    asyncio.run(main())


def test_windows_never_begin_inside_a_round(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            await db.append_message("s", UserMessage("go"), uid="u")
            round_ = await db.begin_tool_round("s", "r", CALLS)
            for position in (1, 0):
                await db.set_tool_result(round_, position, ToolMessage("ab"[position], "x"))
            await db.append_message("s", AssistantMessage("done"), uid="d")
            everything = await db.get_messages("s")
            assert await db.get_messages("s", limit=0) == []
            assert await db.get_messages("s", limit=-1) == []
            assert await db.get_messages("s", limit=1) == everything[-1:]
            for limit in (2, 3, 4):
                assert await db.get_messages("s", limit=limit) == everything[1:]
            for limit in (5, 99):
                assert await db.get_messages("s", limit=limit) == everything
            assert await db.get_messages("s", limit=1, before=everything[1].seq) == everything[:1]
            assert await db.get_messages("s", before=everything[-1].seq) == everything[:-1]
            shown = await db.get_messages_as_conversation("s", limit=1)
            assert texts(shown) == ["done"]

    asyncio.run(main())
