"""Retention, vacuum, integrity check, backup: what an owner does with a store now and then."""

import asyncio
import os
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_messages import ConfigurationError, StoreError, StoreSchemaError, UserMessage
from hermes_messages.protocols import NewMessage
from hermes_store import SessionDB, set_aside
from hermes_store.retention import Candidate, RetentionRule, choose

DAY = 86_400.0


def candidate(
    id_: str, *, lineage: str = "", age: float = 0.0, size: int = 10, ended: bool = True, held: bool = False
) -> Candidate:
    return Candidate(
        id=id_,
        lineage=lineage or id_,
        source="cli",
        last_change=1000.0 - age,
        ended=ended,
        archived=False,
        held=held,
        messages=1,
        characters=size,
    )


def ids(chosen: list[list[Candidate]]) -> list[str]:
    return [item.id for group in chosen for item in group]


def test_the_rule_takes_whole_lineages_by_age_and_then_by_size() -> None:
    everything = [
        candidate("a", age=50),
        candidate("root", age=90),
        candidate("tip", lineage="root", age=10),
        candidate("running", age=99, ended=False),
        candidate("held", age=99, held=True),
        candidate("b", age=40),
    ]
    assert ids(choose(everything, RetentionRule(before=970.0))) == ["a", "b"]
    assert ids(choose(everything, RetentionRule(before=970.0, open_too=True))) == ["running", "a", "b"]
    assert ids(choose(everything, RetentionRule(before=995.0))) == ["a", "b", "root", "tip"]
    assert ids(choose(everything, RetentionRule(most_characters=60))) == []
    assert ids(choose(everything, RetentionRule(most_characters=45))) == ["a", "b"]
    assert ids(choose(everything, RetentionRule(before=955.0, most_characters=41))) == ["a", "b"]
    assert ids(choose(everything, RetentionRule(before=0.0, source="web"))) == []


@given(
    st.lists(
        st.builds(
            candidate,
            st.text("abcdefgh", min_size=1, max_size=3),
            lineage=st.sampled_from(["", "x", "y"]),
            age=st.integers(0, 900).map(float),
            size=st.integers(0, 50),
            ended=st.booleans(),
            held=st.booleans(),
        ),
        unique_by=lambda item: item.id,
    ),
    st.integers(0, 300),
)
def test_the_rule_never_takes_more_than_it_must(everything: list[Candidate], most: int) -> None:
    chosen = choose(everything, RetentionRule(most_characters=most))
    taken = [item for group in chosen for item in group]
    left = sum(item.characters for item in everything) - sum(item.characters for item in taken)
    assert not any(item.held for item in taken)
    if chosen:
        assert left + sum(item.characters for item in chosen[-1]) > most
    for group in chosen:
        assert {item.id for item in everything if item.lineage == group[0].lineage} == {i.id for i in group}


async def fill(db: SessionDB) -> None:
    for number in range(4):
        await db.create_session(f"s{number}", source="cli" if number % 2 else "web")
        await db.append_message(f"s{number}", UserMessage("a stork " + "x" * 1000))
        await db.end_session(f"s{number}", "done")
    await db.create_session("open")
    await db.append_message("open", UserMessage("a stork"))


def test_pruning_tells_first_and_then_does_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await fill(db)
            told = await db.prune_sessions(older_than_days=0, source="cli", dry_run=True)
            assert (told.session_ids, told.messages) == (("s1", "s3"), 2)
            assert told.characters > 2000
            assert len(await db.list_sessions()) == 5
            lease = await db.try_acquire_session_turn_lease("s3", "me", 60)
            assert lease is not None
            assert (await db.prune_sessions(older_than_days=0, source="cli")).session_ids == ("s1",)
            await db.release_session_turn_lease(lease)
            assert (await db.prune_sessions(max_characters=2500)).session_ids == ("s0",)
            assert {record.id for record in await db.list_sessions()} == {"s2", "s3", "open"}
            assert len(await db.search_messages("stork")) == 3
            assert (await db.prune_sessions(older_than_days=1)).session_ids == ()
            done = await db.prune_sessions(older_than_days=0, include_open=True)
            assert set(done.session_ids) == {"s2", "s3", "open"}
            assert await db.search_messages("stork") == []
            assert await db.check_integrity() == []
            with pytest.raises(ConfigurationError, match="older_than_days"):
                await db.prune_sessions()
            with pytest.raises(ConfigurationError):
                await db.prune_sessions(older_than_days=-1)

    asyncio.run(main())


def test_a_compressed_conversation_goes_as_a_whole(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("root")
            await db.append_message("root", UserMessage("x"), uid="x")
            await db.archive_and_compact("root", [NewMessage("x", UserMessage("x"))], child_session_id="tip")
            assert (await db.prune_sessions(older_than_days=0)).session_ids == ()
            await db.end_session("tip", "done")
            assert (await db.prune_sessions(older_than_days=0)).session_ids == ("root", "tip")
            assert await db.list_sessions() == []

    asyncio.run(main())


def test_archived_sessions_leave_the_lists_and_nothing_else(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await fill(db)
            told = await db.archive_sessions(older_than_days=0, source="web", dry_run=True)
            assert told.session_ids == ("s0", "s2")
            assert len(await db.list_sessions()) == 5
            await db.archive_sessions(older_than_days=0, source="web")
            assert (await db.archive_sessions(older_than_days=0, source="web")).session_ids == ()
            assert (await db.archive_sessions(["s1", "absent"])).session_ids == ("s1",)
            assert {record.id for record in await db.list_sessions()} == {"s3", "open"}
            assert len(await db.list_sessions(include_archived=True)) == 5
            assert len(await db.search_sessions("s", include_archived=True)) == 4
            assert len(await db.search_messages("stork")) == 5
            assert (await db.archive_sessions(["s1", "s3"], restore=True)).session_ids == ("s1",)
            assert {record.id for record in await db.list_sessions()} == {"s1", "s3", "open"}
            with pytest.raises(ConfigurationError):
                await db.archive_sessions()

    asyncio.run(main())


def test_the_room_of_deleted_messages_is_given_back(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "s.db"
        async with SessionDB(path) as db:
            await db.create_session("s")
            rows = [NewMessage(str(n), UserMessage(f"stork {n} " + "x" * 2000)) for n in range(300)]
            await db.append_messages_batch("s", rows)
            await db.search_messages("stork")
            await db.create_session("kept")
            await db.append_message("kept", UserMessage("a heron"))
            await db.delete_session("s")
            await db.vacuum()
            assert path.stat().st_size < 300_000
            assert len(await db.search_messages("heron")) == 1
            assert await db.append_message("kept", UserMessage("after it")) > 301

    asyncio.run(main())


def test_a_number_is_never_given_twice_although_the_highest_was_deleted(tmp_path: Path) -> None:
    """A result that comes late must not find another round in its place."""

    async def main() -> None:
        path = tmp_path / "s.db"
        given: list[int] = []
        for _ in range(3):
            async with SessionDB(path) as db:
                await db.create_session("s")
                given += [await db.append_message("s", UserMessage("x")) for _ in range(3)]
                await db.delete_session("s")
                await db.vacuum()
        assert given == sorted(set(given))
        connection = sqlite3.connect(path)
        assert connection.execute("SELECT count(*) FROM messages").fetchall() == [(1,)]
        connection.close()

    asyncio.run(main())


def test_a_backup_is_whole_while_others_write(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            stop = False
            acknowledged = 0

            async def write() -> None:
                nonlocal acknowledged
                while not stop:
                    await db.append_message("s", UserMessage(f"stork {acknowledged} " + "x" * 500))
                    acknowledged += 1

            writer = asyncio.create_task(write())
            kept: list[int] = []
            for number in range(3):
                before = acknowledged
                await db.backup(tmp_path / f"copy{number}.db")
                kept.append(before)
            stop = True
            await writer
            with pytest.raises(ConfigurationError, match="exists"):
                await db.backup(tmp_path / "copy0.db")
        for number, before in enumerate(kept):
            async with SessionDB(tmp_path / f"copy{number}.db") as copy:
                count = len(await copy.get_messages("s"))
                assert count >= before
                assert len(await copy.search_messages("stork", limit=10_000)) == count
                assert await copy.check_integrity() == []

    asyncio.run(main())
    assert not [entry for entry in tmp_path.iterdir() if "partial" in entry.name]


def test_a_cancelled_backup_leaves_no_file(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            rows = [NewMessage(str(n), UserMessage("x" * 1000)) for n in range(2000)]
            await db.append_messages_batch("s", rows)
            folder = tmp_path / "out"
            folder.mkdir()
            for steps in range(0, 30, 3):
                task = asyncio.create_task(db.backup(folder / "copy.db"))
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                assert not [entry for entry in folder.iterdir() if entry.name != "copy.db"]
            assert await db.append_message("s", UserMessage("and on"))

    asyncio.run(main())


def test_damage_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def make() -> None:
        async with SessionDB(path) as db:
            assert await db.check_integrity() == []
            await db.create_session("s")
            rows = [NewMessage(str(n), UserMessage(f"{n} " + "x" * 300)) for n in range(200)]
            await db.append_messages_batch("s", rows)

    asyncio.run(make())
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size - 3 * 4096)
        file.write(b"\xff" * 8192)

    async def look() -> None:
        async with SessionDB(path) as db:
            assert await db.check_integrity()

    asyncio.run(look())


def test_a_damaged_database_can_be_set_aside_and_nothing_is_deleted(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def main() -> None:
        for number in (1, 2):
            path.write_bytes(b"no database" * 100)
            (tmp_path / "s.db-wal").write_bytes(b"its log")
            assert await set_aside(os.fspath(path)) == f"{path}.damaged-{number}"
            assert (tmp_path / f"s.db.damaged-{number}").read_bytes() == b"no database" * 100
            assert (tmp_path / f"s.db.damaged-{number}-wal").read_bytes() == b"its log"
            assert not (tmp_path / "s.db-wal").exists()
        path.write_bytes(b"no database" * 100)
        with pytest.raises(StoreSchemaError):
            await SessionDB(path).list_sessions()
        await set_aside(os.fspath(path))
        async with SessionDB(path) as db:
            await db.create_session("s")
        with pytest.raises(StoreError, match="could not be set aside"):
            await set_aside(os.fspath(tmp_path / "absent.db"))

    asyncio.run(main())
