"""Retention and upkeep: old sessions, room on disk, health, copies."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import partial

from hermes_messages import ConfigurationError
from hermes_store.methods.base import StoreMethods
from hermes_store.operations import retention as rows
from hermes_store.records import RetentionReport
from hermes_store.retention import Candidate, RetentionRule, choose

__all__ = ["UpkeepMethods"]

_DAY_S = 86_400.0


class UpkeepMethods(StoreMethods):
    """What an owner does with a store now and then."""

    async def prune_sessions(
        self,
        *,
        older_than_days: float | None = None,
        max_characters: int | None = None,
        source: str | None = None,
        include_open: bool = False,
        dry_run: bool = False,
    ) -> RetentionReport:
        """Delete ended conversations by age, and the oldest until at most `max_characters` of text remain.

        A lineage goes as a whole or stays; one whose turn lease is held stays. `include_open` takes sessions
        that were never ended too. `dry_run` only tells. Each lineage is a transaction of its own; one that
        changed since it was chosen is left alone. Raises `ConfigurationError` without any limit.
        """
        rule = RetentionRule(
            before=_before(older_than_days),
            most_characters=max_characters,
            source=source,
            open_too=include_open,
        )
        if rule.before is None and max_characters is None:
            raise ConfigurationError("say older_than_days or max_characters; nothing was deleted")
        chosen = choose(await self._backend.read(rows.candidates), rule)
        if not dry_run:
            chosen = [
                group for group in chosen if await self._backend.write(partial(rows.delete_lineage, group))
            ]
        return _report(chosen)

    async def archive_sessions(
        self,
        session_ids: Sequence[str] | None = None,
        *,
        older_than_days: float | None = None,
        source: str | None = None,
        restore: bool = False,
        dry_run: bool = False,
    ) -> RetentionReport:
        """Take sessions out of the lists, those named or those ended and older; they stay readable and are
        found by searches. `restore` takes named ones back in. Raises `ConfigurationError` for neither."""
        if session_ids is None and (older_than_days is None or restore):
            raise ConfigurationError("say session_ids or older_than_days; nothing was archived")
        known = await self._backend.read(rows.candidates)
        if session_ids is not None:
            wanted = set(session_ids)
            chosen = [[item] for item in known if item.id in wanted and item.archived == restore]
        else:
            chosen = choose(
                known, RetentionRule(before=_before(older_than_days), source=source, archived=False)
            )
        report = _report(chosen)
        if not dry_run:
            await self._backend.write(partial(rows.archive, report.session_ids, restore=restore))
        return report

    async def vacuum(self) -> None:
        """Give the room of deleted rows back to the file system. Other writers wait meanwhile."""
        await self._backend.vacuum()

    async def check_integrity(self) -> list[str]:
        """What is wrong with the database, one line each; an empty list when nothing is. Changes nothing."""
        return await self._backend.check_integrity()

    async def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the database, as it is at this moment, to the new file `path`; writers go on meanwhile.

        It is a SQLite file that `SessionDB(path)` opens, also where the sessions are on PostgreSQL, and it
        appears when it is whole. Raises `ConfigurationError` when there is one of that name, `StoreError`.
        """
        await self._backend.backup(os.fspath(path))


def _before(days: float | None) -> float | None:
    if days is None:
        return None
    if not days >= 0:
        raise ConfigurationError(f"older_than_days={days!r} must be a number from 0; nothing was changed")
    return time.time() - days * _DAY_S


def _report(chosen: Sequence[Sequence[Candidate]]) -> RetentionReport:
    items = [item for group in chosen for item in group]
    return RetentionReport(
        tuple(item.id for item in items),
        sum(item.messages for item in items),
        sum(item.characters for item in items),
    )
