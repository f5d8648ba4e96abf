"""From what a person types to what the index can be asked, and the text that the index holds.

The index splits text into words, which finds nothing inside a run of Chinese, Japanese or Korean. Such runs
are indexed as overlapping pairs of characters instead: a search for two or more of them is a search for
their pairs in a row. What the index can not answer exactly (one such character, a script without spaces,
punctuation alone) is a plain scan.
"""

from __future__ import annotations

import re

from msgspec import Struct

from hermes_store.escaping import escape

__all__ = [
    "Blank",
    "Indexed",
    "Plan",
    "Scan",
    "contains_all",
    "plan_search",
    "snippet",
    "split_words",
    "to_index_text",
]

# Han, Hiragana, Katakana (half width too) and Hangul, as far as the tokenizer's Unicode 6.1 tables know them.
_PAIRED = (
    "\u1100-\u11ff\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312d"
    "\u3131-\u318e\u31a0-\u31ba\u31f0-\u31ff\u3400-\u4db5\u4e00-\u9fcc\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb"
    "\uf900-\ufad9\uff66-\uffdc\U00020000-\U0002a6d6\U0002a700-\U0002b734\U0002b740-\U0002b81d"
)
_RUN = re.compile(f"[{_PAIRED}]+")
# Letters that stand without spaces between words, and those newer than the tokenizer's tables.
_UNINDEXABLE = re.compile(
    "[\ud800-\udfff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u9fcd-\u9fff\U0001d173-\U0001d17a]"
)
_UNBINDABLE = re.compile("[\x00\ud800-\udfff]")
_FIRST_UNKNOWN = "\U0002b81e"
_SNIPPET_BEFORE = 60
_SNIPPET_WIDTH = 200
_SNIPPET_WORDS = 16
MOST_WORDS = 5000
_LONGEST_LIKE = 40_000
"""Bytes of a LIKE pattern; SQLite refuses 50,000."""


class Blank(Struct, frozen=True, tag=True):
    """Nothing to search for."""


class Scan(Struct, frozen=True, tag=True):
    """Look for the words as plain substrings."""

    words: tuple[str, ...]


class Indexed(Struct, frozen=True, tag=True):
    """Ask the index `match`; the same words serve a scan when it finds nothing."""

    match: str
    words: tuple[str, ...]


Plan = Blank | Scan | Indexed


def plan_search(query: str) -> Plan:
    """How to answer `query`: all its words must occur. Any text is a valid query."""
    words = split_words(query)
    if not words:
        return Blank()
    phrases = [_phrase(word) for word in words]
    if any(phrase is None for phrase in phrases):
        return Scan(words)
    return Indexed(" AND ".join(phrase for phrase in phrases if phrase is not None), words)


def split_words(query: str) -> tuple[str, ...]:
    """The different words of `query`, at most `MOST_WORDS`: more than anybody types."""
    return tuple(dict.fromkeys(query.split()))[:MOST_WORDS]


def to_index_text(text: str) -> str:
    """`text` as the index holds it: the same, with every paired run replaced by its pairs.

    NUL and lone surrogates, which are part of no word, become spaces.
    """
    if text.isascii() and "\x00" not in text:
        return text
    return _UNBINDABLE.sub(" ", _RUN.sub(lambda match: f" {_pairs(match[0])} ", text))


def contains_all(column: str, words: tuple[str, ...]) -> tuple[str, list[str]]:
    """The SQL condition that `column` contains every one of `words`, and its values.

    The ANDs are nested evenly, since SQLite allows a thousand levels (https://www.sqlite.org/limits.html).
    """
    tests = [_contains(column, escape(word)) for word in words]
    conditions = [sql for sql, _ in tests]
    while len(conditions) > 1:
        groups = [conditions[start : start + 50] for start in range(0, len(conditions), 50)]
        conditions = [f"({' AND '.join(group)})" for group in groups]
    return "".join(conditions) or "1 = 1", [value for _, value in tests]


def snippet(text: str, words: tuple[str, ...]) -> str:
    """The place of `text` where the first of `words` stands, with all of them between `>>>` and `<<<`."""
    shown = sorted(words[:_SNIPPET_WORDS], key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, shown)), re.IGNORECASE)
    found = pattern.search(text)
    start = max(0, found.start() - _SNIPPET_BEFORE) if found else 0
    end = start + _SNIPPET_WIDTH
    marked = pattern.sub(lambda match: f">>>{match[0]}<<<", text[start:end])
    return f"{'...' if start else ''}{marked}{'...' if end < len(text) else ''}"


def _contains(column: str, word: str) -> tuple[str, str]:
    """Whether `column` contains `word`, in either case of the letters A to Z."""
    pattern = "%" + re.sub(r"([\\%_])", r"\\\1", word) + "%"
    if len(pattern.encode()) <= _LONGEST_LIKE:
        return f"{column} LIKE ? ESCAPE '\\'", pattern
    return f"instr(lower({column}), lower(?)) > 0", word


def _phrase(word: str) -> str | None:
    """`word` as a quoted phrase of the index, or None when the index can not answer it exactly."""
    if not any(letter.isalnum() for letter in word) or _UNINDEXABLE.search(word):
        return None
    if any(letter >= _FIRST_UNKNOWN for letter in word):
        return None
    if any(len(run) == 1 for run in _RUN.findall(word)):
        return None
    quoted = to_index_text(word).replace('"', '""').strip()
    return f'"{quoted}"'


def _pairs(run: str) -> str:
    if len(run) == 1:
        return run
    return " ".join(run[place : place + 2] for place in range(len(run) - 1))
