"""The index of the search: what it takes in and when, and that none, or a damaged one, costs no answer."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from hermes_messages import AssistantMessage, ToolCall, ToolMessage, UserMessage, encode_message
from hermes_messages.protocols import NewMessage
from hermes_store import SessionDB
from hermes_store.operations.search import take_in
from hermes_store.search_query import to_index_text
from hermes_store.sqlite import SqliteBackend
from hermes_store.units import WRITES_BEFORE_INDEXING


def test_the_index_stays_small_beside_what_it_indexes(tmp_path: Path) -> None:
    """Long arguments of calls, which models repeat, would make it outgrow the messages."""

    async def main() -> int:
        size = 0
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            rows: list[NewMessage] = []
            for number in range(1500):
                arguments = f'{{"path": "src/{number}.py", "content": "{"heron " * 60}{number}"}}'
                call = AssistantMessage(f"stork {number}", (ToolCall(f"c{number}", "write_file", arguments),))
                rows += [NewMessage(f"a{number}", call), NewMessage(f"r{number}", UserMessage("a bittern"))]
            size = sum(len(encode_message(row.message)) for row in rows)
            await db.append_messages_batch("s", rows)
            assert len(await db.search_messages("stork", limit=2000)) == 1500
            await db.vacuum()
        return size

    text = asyncio.run(main())
    connection = sqlite3.connect(tmp_path / "s.db")
    pages = "SELECT sum(length(block)) FROM message_index_data"
    [(index,)] = connection.execute(pages)
    connection.close()
    assert index < text / 10
    assert (tmp_path / "s.db").stat().st_size < 2 * text


def test_index_text_keeps_other_scripts_and_pairs_runs() -> None:
    assert to_index_text("plain text") == "plain text"
    assert to_index_text("用API设计模式").split() == ["用", "API", "设计", "计模", "模式"]
    assert to_index_text("a\x00b\ud800c") == "a b c"


def damage(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("UPDATE message_index_data SET block = x'00ff00ff'")
    connection.commit()
    connection.close()


async def make_damaged(path: Path) -> None:
    """A store with a session, one message in it, and an index that is damaged."""
    async with SessionDB(path) as db:
        await db.create_session("s")
        await db.append_message("s", UserMessage("the first stork"))
        assert len(await db.search_messages("stork")) == 1
    damage(path)


def test_a_damaged_index_never_blocks_a_write(tmp_path: Path) -> None:
    """The index can be built again, the messages can not."""

    async def main() -> None:
        path = tmp_path / "s.db"
        await make_damaged(path)
        async with SessionDB(path) as db:
            await db.append_message("s", UserMessage("the second stork"))
            await asyncio.gather(*(db.append_message("s", UserMessage(f"stork {n}")) for n in range(8)))
            assert len(await db.search_messages("stork")) == 10
        async with SessionDB(path) as db:
            await db.append_message("s", UserMessage("another stork"))
            assert len(await db.search_messages("stork")) == 11
            await db.rebuild_search_index()
            assert len(await db.search_messages("stork")) == 11
            await db.append_message("s", UserMessage("the last stork"))
            assert len(await db.search_messages("stork")) == 12
            assert await db.delete_session("s")
        connection = sqlite3.connect(path)
        assert connection.execute("SELECT value FROM settings WHERE name = 'index'").fetchall() == [
            ("ready",)
        ]
        assert connection.execute("SELECT count(*) FROM message_index_docsize").fetchall() == [(0,)]
        connection.close()

    asyncio.run(main())


def test_an_index_found_damaged_in_a_group_of_writes_does_none_of_them_twice(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "s.db"
        async with SessionDB(path) as db:
            for name in ("s", "t"):
                await db.create_session(name)
                await db.append_message(name, UserMessage("a stork"))
            assert await db.search_messages("stork")
        damage(path)
        async with SessionDB(path) as db:
            await asyncio.gather(
                *(db.update_token_counts("s", None, api_calls=1) for _ in range(20)),
                db.delete_session("t"),
                db.update_token_counts("absent", None, api_calls=1),
                *(db.update_token_counts("s", None, api_calls=1) for _ in range(20)),
                return_exceptions=True,
            )
            record = await db.get_session("s")
            assert record is not None
            assert record.api_calls == 40
            assert await db.get_session("t") is None

    asyncio.run(main())


def test_deleting_what_the_index_never_took_in_leaves_it_whole(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            for name in "ab":
                await db.create_session(name)
            await db.append_message("a", UserMessage("a stork"))
            assert await db.search_messages("stork")
            await db.append_message("b", UserMessage("another stork"))
            await db.delete_session("b")
            assert len(await db.search_messages("stork")) == 1
        connection = sqlite3.connect(tmp_path / "s.db")
        connection.create_function("hermes_index_text", 1, lambda text: text, deterministic=True)
        connection.execute("INSERT INTO message_index (message_index) VALUES ('integrity-check')")
        assert connection.execute("SELECT count(*) FROM unindexed").fetchall() == [(0,)]
        # The index's own count of its rows, by which it ranks: the first number of this record.
        [(totals,)] = connection.execute("SELECT block FROM message_index_data WHERE id = 1")
        assert totals[0] == 1
        connection.close()

    asyncio.run(main())


def test_a_text_of_many_megabytes_is_found_and_holds_nobody_up(tmp_path: Path) -> None:
    """Making words of 50 MB stopped every other call for twenty seconds, and its deletion once more."""
    huge = "a heron " * 6_000_000 + "and one bittern"

    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            await db.append_message("s", UserMessage(huge), uid="huge")
            await db.append_message("s", UserMessage("a heron"), uid="short")
            round_ = await db.begin_tool_round(
                "s", "r", AssistantMessage(tool_calls=(ToolCall("c", "f", "{}"),))
            )
            await db.search_messages("heron")
            await db.set_tool_result(round_, 0, ToolMessage("c", huge[-300_000:]))
            found = [hit.seq for hit in await db.search_messages("heron")]
            short = next(item.seq for item in await db.get_messages("s") if item.uid == "short")
            assert (len(found), found[0]) == (3, short)
            assert len(await db.search_messages("heron", limit=2)) == 2
            assert len(await db.search_messages("bittern")) == 2
            assert len(await db.search_messages("itter")) == 2
            await db.rebuild_search_index()
            assert len(await db.search_messages("heron")) == 3
            assert await db.check_integrity() == []
        connection = sqlite3.connect(tmp_path / "s.db")
        connection.create_function("hermes_index_text", 1, to_index_text, deterministic=True)
        connection.execute("INSERT INTO message_index (message_index) VALUES ('integrity-check')")
        assert connection.execute("SELECT count(*) FROM message_index_docsize").fetchall() == [(1,)]
        plan = connection.execute("EXPLAIN QUERY PLAN SELECT seq FROM messages WHERE length(text) > 200000")
        assert "long_messages" in str(plan.fetchall())
        connection.close()
        async with SessionDB(tmp_path / "s.db") as db:
            assert await db.delete_session("s")
            assert await db.search_messages("heron") == []

    asyncio.run(main())


def test_the_index_takes_texts_in_by_their_size_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            texts = [NewMessage(str(n), UserMessage(f"stork{n} " * 20_000)) for n in range(12)]
            await db.append_messages_batch("s", texts)
            assert isinstance(db._backend, SqliteBackend)
            assert await db._backend.write(take_in)
            assert not await db._backend.write(take_in)
            for number in range(12):
                assert len(await db.search_messages(f"stork{number}")) == 1

    asyncio.run(main())


def test_the_index_takes_new_messages_in_when_a_pause_comes(tmp_path: Path) -> None:
    """Else the first search after a long day would pay for all of it."""

    async def main() -> None:
        path = tmp_path / "s.db"
        async with SessionDB(path) as db:
            await db.create_session("s")
            for number in range(WRITES_BEFORE_INDEXING + 10):
                await db.append_message("s", UserMessage(f"stork {number}"))
            async with asyncio.timeout(120):
                while indexed_in(path) <= WRITES_BEFORE_INDEXING:  # noqa: ASYNC110 - a file tells nobody
                    await asyncio.sleep(0.01)

    asyncio.run(main())


def test_the_index_takes_new_messages_in_although_no_pause_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes_store.sqlite.PAUSE_S", 3600.0)
    monkeypatch.setattr("hermes_store.units.MOST_WRITES_BEFORE_INDEXING", 50)

    async def main() -> None:
        path = tmp_path / "s.db"
        async with SessionDB(path) as db:
            await db.create_session("s")
            for number in range(60):
                await db.append_message("s", UserMessage(f"stork {number}"))
        assert indexed_in(path) >= 49

    asyncio.run(main())


def indexed_in(path: Path) -> int:
    """How many messages the index of the file holds; its counter says the same."""
    connection = sqlite3.connect(path)
    [(counter,)] = connection.execute("SELECT value FROM counters WHERE name = 'indexed'")
    [(indexed,)] = connection.execute("SELECT count(*) FROM message_index_docsize")
    connection.close()
    assert indexed == counter
    return int(indexed)


def test_a_search_while_another_process_writes_scans_what_the_index_lacks(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "s.db"
        async with SessionDB(path, busy_timeout_s=0.1) as db:
            await db.create_session("s")
            await db.append_message("s", UserMessage("a stork"))
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            assert len(await db.search_messages("stork")) == 1
            other.execute("ROLLBACK")
            other.close()

    asyncio.run(main())


def test_a_damaged_index_found_by_a_search_gives_way_to_a_scan(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "s.db"
        await make_damaged(path)
        async with SessionDB(path) as db:
            assert len(await db.search_messages("stork")) == 1

    asyncio.run(main())


def test_the_index_can_be_left_out_and_built_later(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "s.db"
        async with SessionDB(path, search_index=False) as db:
            await db.create_session("s")
            await db.append_message("s", UserMessage("a stork"))
            assert len(await db.search_messages("stork")) == 1
        connection = sqlite3.connect(path)
        assert connection.execute("SELECT count(*) FROM message_index_docsize").fetchall() == [(0,)]
        connection.close()
        async with SessionDB(path) as db:
            await db.append_message("s", UserMessage("one more stork"))
            assert len(await db.search_messages("stork")) == 2
            await db.rebuild_search_index()
            assert len(await db.search_messages("stork")) == 2

    asyncio.run(main())
