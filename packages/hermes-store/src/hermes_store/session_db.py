"""SessionDB: durable, searchable sessions in a file or on a server."""

from __future__ import annotations

import os
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from hermes_messages import ConfigurationError, MissingDependencyError
from hermes_messages.protocols import (
    SessionStore,
    SupportsCompression,
    SupportsLeaseQueue,
    SupportsLeases,
    SupportsSearch,
    SupportsSessionState,
    SupportsSuspension,
)
from hermes_store.backend import Backend, Operation
from hermes_store.lease_lines import Lines
from hermes_store.methods.lineages import LineageMethods
from hermes_store.methods.searching import SearchMethods
from hermes_store.methods.sessions import SessionMethods
from hermes_store.methods.transcripts import TranscriptMethods
from hermes_store.methods.transfers import TransferMethods
from hermes_store.methods.turn_leases import LeaseMethods
from hermes_store.methods.upkeep import UpkeepMethods
from hermes_store.postgres_dsn import is_dsn
from hermes_store.sqlite import SqliteBackend
from hermes_store.sqlite_open import SqliteOptions

__all__ = ["SessionDB"]

Synchronous = Literal["NORMAL", "FULL"]
"""What a commit waits for, in the words of SQLite: `FULL` survives a power cut, `NORMAL` may lose the last
commits to one."""
Journal = Literal["auto", "wal", "delete"]
"""How SQLite keeps a commit whole: with a write-ahead log, with a file that is deleted, or by what the file
system allows."""


class SessionDB(
    SessionMethods,
    TranscriptMethods,
    LineageMethods,
    SearchMethods,
    LeaseMethods,
    UpkeepMethods,
    TransferMethods,
):
    """Sessions in a SQLite file, or on PostgreSQL where `path` is a `postgresql://` address.

    Nothing is opened before the first awaited call. A write that returned is committed: with `synchronous`
    `NORMAL` it survives the death of the process, with `FULL` also that of the machine. A cancelled call has
    happened whole or not at all. `busy_timeout_s` bounds the wait for others' writes and for a connection, in
    seconds. With `read_only` nothing is ever written, and writes raise `StoreReadOnlyError`. Without
    `search_index` searches scan.

    `journal` is SQLite's: `auto` asks for a write-ahead log and takes what the file system can do, `wal`
    insists, `delete` does without. `schema`, `pool_size` and `answer_timeout_s` are PostgreSQL's: the
    schema that holds the tables, how many connections are made at most, and for how many seconds the answer
    to one statement is waited for: a server that stands still is then given up with `StoreConnectionError`.

    One object serves one event loop at a time; a later `asyncio.run` may use it again.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Synchronous = "NORMAL",
        journal: Journal = "auto",
        search_index: bool = True,
        busy_timeout_s: float = 10.0,
        schema: str = "hermes_store",
        pool_size: int = 10,
        answer_timeout_s: float = 120.0,
        read_only: bool = False,
    ) -> None:
        self.path: str = os.fspath(path)
        if not self.path or "\x00" in self.path:
            raise ConfigurationError(f"{self.path!r} can not be the path of a session database")
        if synchronous not in ("NORMAL", "FULL") or journal not in ("auto", "wal", "delete"):
            raise ConfigurationError(
                f"synchronous={synchronous!r}, journal={journal!r}: use NORMAL or FULL; auto, wal or delete"
            )
        if not busy_timeout_s >= 0:
            raise ConfigurationError(f"busy_timeout_s={busy_timeout_s!r} must be a number of seconds from 0")
        options = SqliteOptions(
            synchronous=synchronous, journal=journal, search_index=search_index, read_only=read_only
        )
        self._lines: Lines = Lines()
        self._backend: Backend
        if is_dsn(self.path):
            try:
                from hermes_store.postgres import Dsn, PostgresBackend, PostgresOptions
            except ImportError as error:
                install = "pip install 'hermes-store[postgres]'"
                raise MissingDependencyError("psycopg, PostgreSQL's client,", install) from error

            dsn = Dsn(self.path)
            self.path = dsn.name  # what is shown holds no password
            self._backend = PostgresBackend(
                dsn,
                PostgresOptions(
                    schema=schema,
                    pool_size=pool_size,
                    answer_timeout_s=answer_timeout_s,
                    busy_timeout_s=busy_timeout_s,
                    flushed=synchronous == "FULL",
                    search_index=search_index,
                    read_only=read_only,
                ),
            )
        else:
            self._backend = SqliteBackend(self.path, options, busy_timeout_s=busy_timeout_s)

    def __repr__(self) -> str:
        return f"SessionDB({self.path!r})"

    async def __aenter__(self) -> Self:
        """Open the database now, so that a bad one is found here. Raises `StoreError`."""
        self._backend.reopen()
        try:
            await self._backend.read(_nothing)
        except BaseException:  # nobody will call __aexit__
            await self._backend.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let what was begun end and close. Idempotent; later calls raise `StoreClosedError`, and so do turns
        that wait for a lease."""
        try:
            await self._send_waiters_away()
        finally:
            await self._backend.close()


def _nothing() -> Operation[None]:
    yield from ()


if TYPE_CHECKING:

    def _fits(db: SessionDB) -> tuple[SessionStore, SupportsLeases, SupportsLeaseQueue, SupportsSearch]:
        return db, db, db, db

    def _fits_too(db: SessionDB) -> tuple[SupportsCompression, SupportsSuspension, SupportsSessionState]:
        return db, db, db
