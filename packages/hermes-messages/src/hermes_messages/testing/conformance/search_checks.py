"""Search over stored messages."""

# ruff: noqa: D102 - each check is named after the promise that it checks

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

from hermes_messages.abilities import supports
from hermes_messages.messages import AssistantMessage, UserMessage
from hermes_messages.protocols.store import NewMessage, SupportsSearch
from hermes_messages.testing.conformance.report import UnmetError, expect
from hermes_messages.testing.conformance.store_samples import (
    ODD_TEXTS,
    MakeStore,
    Opened,
    SearchStore,
    with_session,
)

__all__ = ["SearchChecks"]

_ODD_QUERIES = (
    "", "   ", "multi-agent", "don't", "ubuntu 20.04", "grammar::fa", '"--flag"', "a AND", "NEAR(", "*", '""',
    "(", "a OR", "NOT", "^x", "col:val", "%", "_", "\\", "\x00", "\U0001f600", "'; --", "{a b}", "a + b",
)  # fmt: skip


class SearchChecks:
    """The promises of `SupportsSearch`."""

    def __init__(self, make_store: MakeStore) -> None:
        self._make = make_store

    @asynccontextmanager
    async def _store(self) -> AsyncIterator[SearchStore]:
        async with Opened(self._make) as store:
            if not supports(store, SupportsSearch):
                raise UnmetError("this store has no search, the one before had")
            yield store

    async def all_words_must_be_there(self) -> None:
        word = f"w{uuid4().hex}"
        async with self._store() as store:
            session_id = await with_session(store)
            seqs = await store.append_messages_batch(
                session_id,
                [
                    NewMessage("a", UserMessage(f"The {word} jumps over")),
                    NewMessage("b", AssistantMessage(f"A {word} sleeps")),
                    NewMessage("c", UserMessage("Something jumps")),
                ],
            )
            both = await store.search_messages(f"JUMPS {word}", session_id=session_id)
            one = await store.search_messages(word)
            said = await store.search_messages(word, role="assistant")
            limited = await store.search_messages(word, limit=1)
        expect([hit.seq for hit in both] == [seqs[0]], f"both words found: {both!r:.300}")
        expect({hit.seq for hit in one} == {seqs[0], seqs[1]}, f"one word found: {one!r:.300}")
        expect([(hit.seq, hit.role) for hit in said] == [(seqs[1], "assistant")], "role is not respected")
        expect(len(limited) == 1, "limit is not respected")
        expect(all(">>>" in hit.snippet and "<<<" in hit.snippet for hit in one), "snippets show no place")

    async def only_the_session_asked_for(self) -> None:
        word = f"w{uuid4().hex}"
        async with self._store() as store:
            one, two = await with_session(store), await with_session(store)
            for session_id in (one, two):
                await store.append_messages_batch(session_id, [NewMessage("a", UserMessage(word))])
            hits = await store.search_messages(word, session_id=two)
        expect([hit.session_id for hit in hits] == [two], f"found in {[hit.session_id for hit in hits]}")

    async def any_text_is_a_query(self) -> None:
        async with self._store() as store:
            session_id = await with_session(store)
            await store.append_messages_batch(session_id, [NewMessage("a", UserMessage("a b c 20.04"))])
            for query in (*_ODD_QUERIES, *ODD_TEXTS):
                try:
                    hits = await store.search_messages(query)
                except Exception as error:  # no query may raise anything
                    raise UnmetError(f"the query {query!r:.60} raised {error!r}") from error
                expect(bool(query.strip()) or hits == [], f"the blank query {query!r} found something")

    async def words_without_spaces_are_found(self) -> None:
        async with self._store() as store:
            session_id = await with_session(store)
            text = "\u6211\u4eec\u5728\u5927\u522b\u5c71\u9879\u76ee\u91cc API \u8bbe\u8ba1"
            await store.append_messages_batch(session_id, [NewMessage("a", UserMessage(text))])
            for query in ("\u5927\u522b\u5c71\u9879\u76ee", "\u9879\u76ee", "API \u8bbe\u8ba1"):
                hits = await store.search_messages(query, session_id=session_id)
                expect(len(hits) == 1, f"{query!r} was found {len(hits)} times instead of once")
