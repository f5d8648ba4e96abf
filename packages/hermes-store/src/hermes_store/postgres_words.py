"""The words of a text, as SQLite's tokenizer `unicode61` finds them, for an index that PostgreSQL keeps.

PostgreSQL's own parsers treat numbers, addresses, hyphens and file names each in a way of their own, so the
same search would find other messages in each database. Here the words are made in the same way for both:
letters and digits of any script, case folded, accents taken off plain Latin letters, everything else a
separator; runs of Chinese, Japanese and Korean as pairs (`search_query.to_index_text`).
https://www.sqlite.org/fts5.html#unicode61_tokenizer
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence

from hermes_store.search_query import to_index_text

__all__ = ["contains_phrase", "query_text", "vector_text", "words_of"]

_ASCII_WORD = re.compile("[0-9a-z]+")
_DROPPED = "\u0300-\u0304\u0306-\u030c\u030f\u0311\u031b\u0323-\u0328\u032d\u032e\u0330\u0331"
"""Combining marks that belong to a word and are left out of it."""
_WORD = re.compile(f"(?:[^\\W_]|[{_DROPPED}\ue000-\uf8ff])+")
_MARKS = re.compile(f"[{_DROPPED}]")

_LONGEST_WORD = 500
"""Characters; tsvector refuses words of 2 KB. A longer one is known by its beginning and its hash."""
_MOST_POSITIONS = 255
_LAST_POSITION = 16_383
"""Limits of tsvector: https://www.postgresql.org/docs/current/textsearch-limitations.html"""
_LARGEST_VECTOR = 900_000
"""Bytes, estimated from above; tsvector refuses 1 MB."""


class _Folds(dict[int, str]):
    """What each character becomes, found out when it is first met."""

    def __missing__(self, code: int) -> str:
        folded = _fold(chr(code))
        self[code] = folded
        return folded


_FOLDS = _Folds()


def words_of(text: str) -> list[str]:
    """The words of `text` in order."""
    if text.isascii():
        words = _ASCII_WORD.findall(text.lower())
    else:
        folded = to_index_text(text).translate(_FOLDS)
        words = [_MARKS.sub("", word) for word in _WORD.findall(folded)]
    return [word if len(word) <= _LONGEST_WORD else _shortened(word) for word in words if word]


def vector_text(text: str) -> str | None:
    """The words of `text` with their places, as the text of a tsvector; None where it would be too large."""
    places: dict[str, list[int]] = {}
    for place, word in enumerate(words_of(text), 1):
        known = places.setdefault(word, [])
        if len(known) < _MOST_POSITIONS and place <= _LAST_POSITION:
            known.append(place)
    if sum(len(word.encode()) + 6 + 2 * len(known) for word, known in places.items()) > _LARGEST_VECTOR:
        return None
    return " ".join(
        f"'{word}':{','.join(map(str, known))}" if known else f"'{word}'" for word, known in places.items()
    )


def query_text(phrases: Sequence[Sequence[str]]) -> str:
    """The text of a tsquery: every word of every phrase occurs, in any order."""
    return " & ".join(f"'{word}'" for word in dict.fromkeys(word for phrase in phrases for word in phrase))


def contains_phrase(words: Sequence[str], phrase: Sequence[str]) -> bool:
    """Whether the words of `phrase` stand in `words` one after the other."""
    length, first = len(phrase), phrase[0]
    return any(
        word == first and list(words[place : place + length]) == list(phrase)
        for place, word in enumerate(words)
    )


def _fold(character: str) -> str:
    """`character` without its case, and without its accent if it is a plain Latin letter with one."""
    parts = unicodedata.normalize("NFD", character)
    if len(parts) == 2 and parts[0].isascii() and parts[0].isalpha() and unicodedata.combining(parts[1]):
        return parts[0].lower()
    folded = character.casefold()
    if len(folded) != 1:
        folded = character.lower()
    return folded if len(folded) == 1 else character


def _shortened(word: str) -> str:
    return word[:_LONGEST_WORD] + hashlib.sha256(word.encode("utf-8", "surrogatepass")).hexdigest()
