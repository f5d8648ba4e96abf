"""Searching messages."""

from __future__ import annotations

import logging
from functools import partial

from hermes_messages import StoreError
from hermes_messages.protocols import MessageHit
from hermes_store.methods.base import StoreMethods
from hermes_store.operations import search
from hermes_store.rows import within_rows
from hermes_store.search_query import Indexed, Scan, plan_search

__all__ = ["SearchMethods"]

logger: logging.Logger = logging.getLogger(__name__)


class SearchMethods(StoreMethods):
    """Full-text search and its index."""

    async def search_messages(
        self,
        query: str,
        *,
        session_id: str | None = None,
        role: str | None = None,
        source: str | None = None,
        model: str | None = None,
        after: float | None = None,
        before: float | None = None,
        limit: int = 20,
    ) -> list[MessageHit]:
        """Messages that contain all words of `query`, best first, archived ones too. Any text is a valid
        query. `after` and `before` are seconds since the epoch; `source` and `model` are the session's."""
        where = search.SearchFilter(
            session_id=session_id,
            role=role,
            source=source,
            model=model,
            after=None if after is None else float(after),
            before=None if before is None else float(before),
            limit=within_rows(limit),
        )
        plan = plan_search(query)
        if isinstance(plan, Indexed) and not await self._catch_up():
            plan = Scan(plan.words)
        return await self._backend.read(partial(search.search, plan, where))

    async def _catch_up(self) -> bool:
        """Put the newest messages into the index. False when the database can not be written now."""
        try:
            if await self._backend.read(search.has_unindexed):
                if self._backend.read_only:
                    return False
                while await self._backend.write(search.take_in):
                    pass
        except StoreError as error:
            logger.warning(
                "the search index could not be brought up to date, searching without it: %s", error
            )
            return False
        return True

    async def rebuild_search_index(self) -> None:
        """Build the search index anew, after it was switched off or found damaged. Raises `StoreError`."""
        await self._backend.rebuild_search_index()
