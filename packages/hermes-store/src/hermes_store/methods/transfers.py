"""Export and import."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from functools import partial

import msgspec

from hermes_messages import JsonObject, JsonValue, SessionNotFoundError, StoreError
from hermes_store.escaping import unescape
from hermes_store.files import new_file, read_lines
from hermes_store.hermes_state_import import read_hermes_state
from hermes_store.methods.base import StoreMethods
from hermes_store.methods.decoding import as_dicts
from hermes_store.operations import reading, sessions, transfer
from hermes_store.records import ImportReport
from hermes_store.transfer_checks import find_faults
from hermes_store.transfer_dicts import dump_from_dict
from hermes_store.transfer_format import HEADER, Reader, SessionDump, dump_lines
from hermes_store.transfer_numbers import FileNumbers

__all__ = ["TransferMethods"]

LINES_AT_ONCE = 100
"""Lines of an import that are looked at before others may go on."""
logger: logging.Logger = logging.getLogger(__name__)


class TransferMethods(StoreMethods):
    """Sessions out of the store and into it."""

    async def export_session(self, session_id: str) -> JsonObject | None:
        """The session and its messages as one JSON object, messages in OpenAI shape; None without one."""
        record = await self._backend.read(partial(sessions.get_session, session_id))
        if record is None:
            return None
        rows = await self._backend.read(partial(reading.get_messages, session_id, None, None))
        exported: JsonObject = msgspec.to_builtins(record)
        exported["messages"] = list(await as_dicts(rows, full=True))
        return exported

    async def export_all(self, *, source: str | None = None) -> list[JsonObject]:
        """`export_session` for all sessions, oldest first. For much data see `export_to_file`."""
        ids = await self._backend.read(partial(transfer.session_ids, source))
        exported = [await self.export_session(id_) for id_ in ids]
        return [session for session in exported if session is not None]

    async def export_to_file(self, path: str | os.PathLike[str], *, source: str | None = None) -> int:
        """Write everything about the sessions to the JSON lines file `path`; how many sessions.

        Lossless, for `import_sessions` here or on another back end. The file appears when it is whole and
        replaces one of that name. A session is one snapshot; one that is deleted meanwhile is left out.
        """
        ids = await self._backend.read(partial(transfer.session_ids, source))
        written, numbers = 0, FileNumbers()
        async with new_file(os.fspath(path)) as file:
            await file.write(HEADER)
            for id_ in ids:
                try:
                    dump = await self._backend.read(partial(transfer.read_session, id_))
                except SessionNotFoundError:
                    continue
                await file.write(dump_lines(numbers.renumbered(dump)))
                written += 1
        return written

    async def import_sessions(
        self, exported: str | os.PathLike[str] | Iterable[Mapping[str, JsonValue]]
    ) -> ImportReport:
        """Add sessions from a file of `export_to_file`, or from what `export_all` returned.

        Each is one transaction. A session whose id is there already is left alone, so an import may be
        repeated. Raises `StoreError` for a file that is no such export, with what came before it imported.
        """
        tally = _Tally()
        if not isinstance(exported, str | os.PathLike):
            for session in exported:
                await self._import(dump_from_dict(session), tally)
            return tally.report()
        name = os.fspath(exported)
        reader = Reader(name)
        async with aclosing(read_lines(name)) as lines:
            async for line in lines:
                for dump in reader.feed(line):
                    await self._import(dump, tally)
        reader.finish()
        return tally.report()

    async def import_hermes_state(self, path: str | os.PathLike[str]) -> ImportReport:
        """Add the sessions of a `state.db` of Hermes Agent, which is only read.

        What has no place here is kept in the session's metadata under `hermes`. Rows that are no messages,
        and those of a session that can not be stored, are counted in `unreadable_rows`. Raises `StoreError`
        for a file that is no such database.
        """
        tally = _Tally()
        async with aclosing(read_hermes_state(os.fspath(path))) as found:
            async for dump, unreadable in found:
                fault = await _first_fault(dump)
                if fault is None:
                    await self._add(dump, tally)
                    tally.unreadable += unreadable
                else:
                    logger.warning("a session of %s was left out, it %s", os.fspath(path), fault)
                    tally.unreadable += unreadable + len(dump.messages) + 1
        return tally.report()

    async def _import(self, dump: SessionDump, tally: _Tally) -> None:
        fault = await _first_fault(dump)
        if fault is not None:
            raise StoreError(
                f"session {unescape(dump.session.id)!r} {fault}. It and the rest were not imported, the "
                "sessions before it were"
            )
        await self._add(dump, tally)

    async def _add(self, dump: SessionDump, tally: _Tally) -> None:
        inserted = await self._backend.write(partial(transfer.insert_session, dump, tally.seqs))
        tally.seqs.update(inserted.seqs)
        if not inserted.is_new:
            tally.skipped.append(unescape(dump.session.id))
            return
        tally.sessions += 1
        tally.messages += sum(message.body is not None for message in dump.messages)


async def _first_fault(dump: SessionDump) -> str | None:
    for number, fault in enumerate(find_faults(dump)):
        if fault is not None:
            return fault
        if number % LINES_AT_ONCE == 0:
            await asyncio.sleep(0)
    return None


class _Tally:
    def __init__(self) -> None:
        self.sessions = self.messages = self.unreadable = 0
        self.skipped: list[str] = []
        self.seqs: dict[int, int] = {}

    def report(self) -> ImportReport:
        return ImportReport(self.sessions, self.messages, tuple(self.skipped), self.unreadable)
