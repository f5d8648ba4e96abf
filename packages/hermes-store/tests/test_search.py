"""Any text may be searched for, and finds what a plain look at the texts would find."""

import asyncio
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_messages import AssistantMessage, ToolCall, ToolMessage, UserMessage, encode_message
from hermes_messages.protocols import NewMessage
from hermes_store import SessionDB
from hermes_store.operations.search import take_in
from hermes_store.search_query import Blank, Indexed, Scan, plan_search, snippet, to_index_text
from hermes_store.sqlite import SqliteBackend
from hermes_store.units import WRITES_BEFORE_INDEXING

TEXTS = [
    "a multi-agent system",
    "I don't know",
    "ubuntu 20.04 is installed",
    "use grammar::fa here",
    "pass --flag to it",
    "大别山项目进展",
    "한국어를 공부합니다",
    "用API设计模式",
    "100% sure_thing",
    'say "cheese"',
    "Grüße aus Köln",
    "a 🎉 party",
]


def with_texts(folder: Path, check: Callable[[SessionDB], Awaitable[None]]) -> None:
    async def main() -> None:
        async with SessionDB(folder / "s.db") as db:
            await db.create_session("s")
            rows = [NewMessage(str(number), UserMessage(text)) for number, text in enumerate(TEXTS)]
            await db.append_messages_batch("s", rows)
            await check(db)

    asyncio.run(main())


def test_what_people_type_is_no_query_language(tmp_path: Path) -> None:
    async def check(db: SessionDB) -> None:
        for query, found in {
            "multi-agent": 1,
            "don't": 1,
            "ubuntu 20.04": 1,
            "grammar::fa": 1,
            '"--flag"': 1,
            "--flag": 1,
            "a AND": 0,
            "NEAR(": 0,
            "*": 0,
            '""': 0,
            "   ": 0,
            "": 0,
            "words: x": 0,
            '"cheese"': 1,
            "%": 1,
            "sure_thing": 1,
            "e_thing": 1,
            "^a": 2,
            "grusse": 0,
            "GRÜSSE": 0,
            "grüße": 1,
            "koln": 1,
            "🎉": 1,
        }.items():
            assert len(await db.search_messages(query)) == found, query

    with_texts(tmp_path, check)


def test_chinese_japanese_and_korean_are_found_inside_a_run(tmp_path: Path) -> None:
    """A word index sees one word where a reader sees many."""

    async def check(db: SessionDB) -> None:
        for query in ("大别山项目", "别山", "山", "한국", "국어", "API 设计", "API设计", "设计模式", "计模"):
            assert len(await db.search_messages(query)) == 1, query
        for query in ("大山", "山别", "한어", "模设"):
            assert await db.search_messages(query) == [], query

    with_texts(tmp_path, check)


@pytest.mark.parametrize(
    ("query", "texts"),
    [
        ("大别", ("大别", "大别山项目")),
        ("山", ("山", "大别山项目")),
        ("한국", ("한국", "한국어를 공부합니다")),
        ("กข", ("กข", "กขค")),  # no spaces between words there, and no pairs in the index
    ],
)
def test_a_run_that_is_a_whole_word_somewhere_hides_no_other_place(
    tmp_path: Path, query: str, texts: tuple[str, ...]
) -> None:
    """A look at the texts themselves only where the index finds nothing would miss the longer run."""

    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            for text in texts:
                await db.append_message("s", UserMessage(text))
            assert len(await db.search_messages(query)) == len(texts)

    asyncio.run(main())


def test_short_terms_and_parts_of_words_are_found(tmp_path: Path) -> None:
    async def check(db: SessionDB) -> None:
        for query in ("gramm", "ubun", "20.0", "stall", "Grü"):
            assert len(await db.search_messages(query)) == 1, query

    with_texts(tmp_path, check)


def test_very_long_queries_are_answered(tmp_path: Path) -> None:
    """SQLite bounds the length of a pattern and the depth of a condition."""
    words = " ".join(f"w{number}" for number in range(3000))

    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s", title=words)
            await db.append_message("s", UserMessage(words))
            await db.append_message("s", UserMessage("y" + "X" * 60_000 + "z 大"))
            assert len(await db.search_messages(words)) == 1
            assert len(await db.search_messages(f"{words} absent")) == 0
            assert len(await db.search_messages("x" * 60_000)) == 1
            assert len(await db.search_messages("大 " + "x" * 55_000)) == 1
            assert len(await db.search_sessions(words)) == 1

    asyncio.run(main())


def test_filters_limit_and_rank(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            for session in ("s", "t"):
                await db.create_session(session, source=session)
                await db.append_message(session, UserMessage("a stork among many other words here"))
                await db.append_message(session, AssistantMessage("stork stork"))
            assert len(await db.search_messages("stork")) == 4
            best = await db.search_messages("stork", session_id="t", limit=1)
            assert [(hit.session_id, hit.role, hit.snippet) for hit in best] == [
                ("t", "assistant", ">>>stork<<< >>>stork<<<")
            ]
            assert {hit.role for hit in await db.search_messages("stork", role="user")} == {"user"}
            assert {hit.session_id for hit in await db.search_messages("tork", source="s")} == {"s"}
            assert await db.search_messages("stork", limit=0) == []
            assert await db.search_messages("stork", limit=-1) == []

    asyncio.run(main())


def test_tool_arguments_are_not_indexed_and_results_are(tmp_path: Path) -> None:
    """The JSON of calls would make the index outgrow what it indexes."""

    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            call = AssistantMessage(tool_calls=(ToolCall("a", "read_file", '{"path": "heron.txt"}'),))
            round_ = await db.begin_tool_round("s", "r", call)
            await db.set_tool_result(round_, 0, ToolMessage("a", "a bittern"))
            assert await db.search_messages("heron") == []
            assert [hit.seq for hit in await db.search_messages("bittern")] == list(round_.result_seqs)

    asyncio.run(main())


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


@settings(max_examples=200, deadline=None)
@given(query=st.text(st.characters(exclude_categories=())) | st.text('"*:^-+(){}AND OR\x00\ud800大山ก'))
def test_no_text_is_an_error(query: str) -> None:
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE t USING fts5 (words, tokenize = 'unicode61')")
        match plan_search(query):
            case Indexed(match=match):
                connection.execute("SELECT rowid FROM t WHERE t MATCH ?", (match,)).fetchall()
            case Scan(words=words):
                assert words == tuple(dict.fromkeys(query.split()))
            case Blank():
                assert not query.split()
    finally:
        connection.close()


ALPHABET = "大别山 ab한국"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(ALPHABET, max_size=8), max_size=8), st.text(ALPHABET, min_size=1, max_size=3))
def test_a_paired_run_is_found_wherever_it_is_a_substring(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], query: str
) -> None:
    words = query.split()
    expected = {number for number, text in enumerate(texts) if words and all(word in text for word in words)}

    async def main() -> None:
        async with SessionDB(tmp_path_factory.mktemp("cjk") / "s.db") as db:
            await db.create_session("s")
            rows = [NewMessage(str(number), UserMessage(text)) for number, text in enumerate(texts)]
            seqs = await db.append_messages_batch("s", rows)
            found = {seqs.index(hit.seq) for hit in await db.search_messages(query)}
            assert found <= expected
            if not any(character in "ab" for character in query):
                assert found == expected
            assert bool(found) == bool(expected)

    asyncio.run(main())


def test_snippets_show_the_place() -> None:
    text = "x" * 500 + " the Stork came " + "y" * 500
    shown = snippet(text, ("stork",))
    assert ">>>Stork<<<" in shown
    assert shown.startswith("...")
    assert shown.endswith("...")
    assert len(shown) < 250
    assert snippet("short", ("absent",)) == "short"


def test_index_text_keeps_other_scripts_and_pairs_runs() -> None:
    assert to_index_text("plain text") == "plain text"
    assert to_index_text("用API设计模式").split() == ["用", "API", "设计", "计模", "模式"]
    assert to_index_text("a\x00b\ud800c") == "a b c"


def test_a_damaged_index_never_blocks_a_write(tmp_path: Path) -> None:
    """The index can be built again, the messages can not."""

    async def main() -> None:
        path = tmp_path / "s.db"
        async with SessionDB(path) as db:
            await db.create_session("s")
            await db.append_message("s", UserMessage("the first stork"))
            assert len(await db.search_messages("stork")) == 1
        damage(path)
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


def damage(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("UPDATE message_index_data SET block = x'00ff00ff'")
    connection.commit()
    connection.close()


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
        async with SessionDB(path) as db:
            await db.create_session("s")
            await db.append_message("s", UserMessage("the first stork"))
            assert len(await db.search_messages("stork")) == 1
        damage(path)
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


def test_filters_and_limits_of_any_value_are_answered(tmp_path: Path) -> None:
    """An odd filter finds nothing, and a limit that no column holds means all."""

    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            await db.append_message("s", UserMessage("a stork"))
            for odd in ("a\x00b", "\ud800", "\uf8ff", "'", ""):
                for name in ("session_id", "role", "source", "model"):
                    assert await db.search_messages("stork", **{name: odd}) == []  # type: ignore[arg-type]
            for many in (10**20, 2**63, sys.maxsize):
                assert len(await db.search_messages("stork", limit=many)) == 1
                assert len(await db.search_messages("stork", after=-many, before=many)) == 1
                assert len(await db.get_messages("s", limit=many, before=many)) == 1
                assert len(await db.list_sessions(limit=many)) == 1
                assert await db.list_sessions(offset=many) == []
                assert await db.get_messages("s", before=-many) == []

    asyncio.run(main())
