"""Any text may be searched for, and finds what a plain look at the texts would find."""

import asyncio
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from hermes_messages.protocols import NewMessage
from hermes_store import SessionDB
from hermes_store.search_query import Blank, Indexed, Scan, plan_search, snippet

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
