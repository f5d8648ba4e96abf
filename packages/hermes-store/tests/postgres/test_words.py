"""The words of the index are those that SQLite's tokenizer finds."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_store.postgres_words import contains_phrase, query_text, vector_text, words_of
from hermes_store.search_query import to_index_text

# Letters and signs that Unicode 6.1 had, which is what SQLite's tables know; a newer sign is a letter there.
KNOWN = st.one_of(
    st.sampled_from(
        "aZ09_ -'\"%:,.;!?äÖéÑßçõŵǽøÅİıΩάέςσЖёاب大别山項目한국어カナがｱ🎉€§\u0301\u0308\u00ad\ufeff\u200d"
    ),
    st.characters(min_codepoint=1, max_codepoint=0x2AF),
    st.characters(min_codepoint=0x4E00, max_codepoint=0x9FCC),
)


def sqlite_words(text: str) -> list[str]:
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE t USING fts5 (words, tokenize = 'unicode61')")
        connection.execute("CREATE VIRTUAL TABLE v USING fts5vocab (t, instance)")
        connection.execute("INSERT INTO t (words) VALUES (?)", (to_index_text(text),))
        return [word for (word,) in connection.execute("SELECT term FROM v ORDER BY offset")]
    finally:
        connection.close()


@given(st.text(KNOWN, max_size=30))
def test_words_are_those_of_sqlite(text: str) -> None:
    assert words_of(text) == sqlite_words(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("multi-agent don't 20.04", ["multi", "agent", "don", "t", "20", "04"]),
        ("Grüße aus Köln", ["gruße", "aus", "koln"]),
        ("snake_case grammar::fa", ["snake", "case", "grammar", "fa"]),
        ("用API设计", ["用", "api", "设计"]),
        ("a\x00b\ud800c", ["a", "b", "c"]),
        ("e\u0301te\u0301", ["ete"]),
        ("", []),
        ("🎉 !", []),
    ],
)
def test_what_a_word_is(text: str, words: list[str]) -> None:
    assert words_of(text) == words


def test_a_long_word_is_one_word_and_its_end_counts() -> None:
    [first], [second] = words_of("x" * 60_000 + "a"), words_of("x" * 60_000 + "b")
    assert first != second
    assert len(first.encode()) < 2000


def test_a_vector_stays_within_what_the_server_takes() -> None:
    assert vector_text("b a b") == "'b':1,3 'a':2"
    assert vector_text("") == ""
    many = vector_text("a " * 20_000)
    assert many is not None
    assert many.count(",") == 254
    late = vector_text(" ".join(f"w{number}" for number in range(20_000)))
    assert late is not None
    assert late.endswith("'w19999'")
    assert vector_text(" ".join(f"word{number}" for number in range(200_000))) is None


def test_phrases() -> None:
    assert query_text([["a", "b"], ["b"]]) == "'a' & 'b'"
    assert contains_phrase(["x", "a", "a", "b"], ["a", "b"])
    assert not contains_phrase(["a", "x", "b"], ["a", "b"])
    assert not contains_phrase(["a"], ["a", "b"])
