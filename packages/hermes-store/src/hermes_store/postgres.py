"""The store's back end on PostgreSQL: operations in transactions, retries, cancellation.

Every call is one task of its own, which the caller awaits and, when cancelled, stops: the query that runs is
cancelled on the server and the transaction rolled back before CancelledError is raised. Once the commit is on
its way it is awaited instead. So a cancelled call has happened whole or not at all.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import uuid
import weakref
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar, cast

import psycopg
from psycopg import AsyncConnection

from hermes_messages import StoreBusyError, StoreError
from hermes_store import postgres_search
from hermes_store.backend import Operation, Row
from hermes_store.errors import StoreClosedError, StoreConnectionError, StoreReadOnlyError
from hermes_store.files import publish, refuse_existing, remove
from hermes_store.operations.messages import Append
from hermes_store.postgres_answers import NoAnswerError, answered_within
from hermes_store.postgres_appends import LARGEST, SETTLE_S
from hermes_store.postgres_backup import copy_into
from hermes_store.postgres_dsn import Dsn
from hermes_store.postgres_errors import is_connection_lost, to_store_error
from hermes_store.postgres_link import Link, PostgresOptions, warn_forgotten
from hermes_store.postgres_transaction import Call, IndexBrokenError, Transaction
from hermes_store.postgres_upkeep import find_damage, vacuum
from hermes_store.sqlite import SqliteBackend
from hermes_store.sqlite_open import SqliteOptions
from hermes_store.waiting import finish, if_it_fails, settle

__all__ = ["Dsn", "PostgresBackend", "PostgresOptions"]

T = TypeVar("T")
logger: logging.Logger = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.005
LONGEST_PAUSE_S = 0.2
WRITES_BEFORE_INDEXING = 256
"""Writes after which the search index is brought up to date without a search asking for it."""


IN_PROGRESS, COMMITTED = "in progress", "committed"


class PostgresBackend:
    """Sessions in one schema of a PostgreSQL database. Nothing is opened before the first call."""

    def __init__(self, dsn: Dsn, options: PostgresOptions) -> None:
        options.check()
        self._dsn = dsn
        self._options = options
        self._link: Link | None = None
        self._forgotten: weakref.finalize[..., PostgresBackend] | None = None
        self._closed = False
        self._writes_since_indexing = 0

    async def read(self, operation: Callable[[], Operation[T]]) -> T:
        """Run an operation that only reads, on one snapshot. Raises `StoreError`."""
        link = await self._opened()
        return await self._call(link, self._transaction(link, operation, writes=False))

    async def write(self, operation: Callable[[], Operation[T]]) -> T:
        """Run an operation and commit before returning. Raises `StoreError` with nothing written."""
        self._refuse_read_only()
        link = await self._opened()
        call = self._transaction(link, operation)
        result: T | None = None
        if isinstance(operation, Append) and operation.size <= LARGEST:
            seq = await link.appends.append(operation, call.deadline, link.start, partial(self._run, link))
            result = cast("T | None", seq)
        if result is None:
            result = await self._call(link, call)
        self._index_soon(link)
        return result

    async def rebuild_search_index(self) -> None:
        """Build the search index anew from the messages. Raises `StoreError` with the old one in place."""
        self._refuse_read_only()
        link = await self._opened()
        await self._call(link, self._transaction(link, postgres_search.empty_index, uses_index=True))
        while await self._call(link, self._transaction(link, postgres_search.take_in, uses_index=True)):
            pass

    @property
    def read_only(self) -> bool:
        """Whether every write is refused."""
        return self._options.read_only

    async def vacuum(self) -> None:
        """Let the server reuse the room of deleted rows. Raises `StoreError`."""
        self._refuse_read_only()
        await self._beside(partial(vacuum, schema=self._options.schema))

    async def check_integrity(self) -> list[str]:
        """What is wrong with the database, one line each. Changes nothing. Raises `StoreError`."""
        return await self._beside(partial(find_damage, schema=self._options.schema, dsn=self._dsn))

    async def backup(self, path: str) -> None:
        """Copy the sessions to the new SQLite file `path`. Raises `ConfigurationError`, `StoreError`."""
        await refuse_existing(path)
        part = f"{path}.{uuid.uuid4().hex}.partial"
        target = SqliteBackend(part, SqliteOptions(journal="delete"))
        try:
            await self._beside(partial(copy_into, target=target, schema=self._options.schema))
            await target.close()
            await publish(part, path)
        except BaseException:
            await finish(_discard(target, part))
            raise

    async def close(self) -> None:
        """Let what was begun end, then close the connections. Idempotent."""
        link, self._closed = self._link, True
        if link is None:
            return
        if link.process != os.getpid():
            self._let_go(link)
            return
        self._refuse_second_loop(link)
        if link.loop is not asyncio.get_running_loop():
            self._let_go(link)
            link.drop()
            return
        if link.closing is None:
            link.closing = link.loop.create_task(link.close(), name=f"close {self._dsn.name}")
        try:
            await asyncio.shield(link.closing)
        except asyncio.CancelledError:
            await settle(link.closing, SETTLE_S)
            raise
        finally:
            self._let_go(link)
            if link.closing.cancelled():  # if only before its first step
                link.drop()

    def reopen(self) -> None:
        """Allow calls again after `close`."""
        self._closed = False

    def _transaction(
        self,
        link: Link,
        operation: Callable[[], Operation[T]],
        *,
        writes: bool = True,
        uses_index: bool | None = None,
    ) -> Call[T]:
        """A transaction for one operation."""

        async def work(transaction: Transaction) -> T:
            return await transaction.run(operation)

        deadline = link.loop.time() + self._options.busy_timeout_s
        index = self._options.search_index if uses_index is None else uses_index
        return Call(work, deadline, writes=writes, uses_index=index)

    async def _call(self, link: Link, call: Call[T]) -> T:
        task = link.start(self._run(link, call), f"{'write' if call.writes else 'read'} {self._dsn.name}")
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not call.is_committing:
                task.cancel()
            await settle(task, SETTLE_S)
            raise

    async def _beside(self, work: Callable[[AsyncConnection[Row]], Awaitable[T]]) -> T:
        """Do long work on a connection of its own, so that it takes none from others."""
        link = await self._opened()
        task = link.start(link.run_beside(work), f"upkeep {self._dsn.name}")
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            await settle(task, SETTLE_S)
            raise

    async def _run(self, link: Link, call: Call[T]) -> T:
        """Make attempts until one is not answered with busy, with growing, uneven pauses between them."""
        pause, stale = FIRST_PAUSE_S, 0
        while True:
            try:
                return await self._attempt(link, call)
            except IndexBrokenError as broken:
                call.uses_index = False
                logger.warning("the search index is unusable (%s); this search scans", broken.__cause__)
                continue
            except psycopg.Error as error:
                failure = to_store_error(error, self._dsn)
                # A connection that died in the pool, say because the server was restarted: nothing was sent.
                is_stale = not call.has_begun and is_connection_lost(error)
                if is_stale and not isinstance(error, NoAnswerError) and stale <= self._options.pool_size:
                    stale += 1
                    continue
                if not isinstance(failure, StoreBusyError) or link.loop.time() >= call.deadline:
                    raise failure from error
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - spreads writers, no secret
            pause = min(pause * 2, LONGEST_PAUSE_S)

    async def _attempt(self, link: Link, call: Call[T]) -> T:
        """One transaction on one connection. Raises `psycopg.Error` with nothing written."""
        call.is_committing = False  # it may be another attempt, after a commit that was refused
        connection = await link.take(call.deadline)
        life = link.life_of(connection)
        transaction = Transaction(
            connection,
            writes=call.writes,
            uses_index=call.uses_index,
            answer_s=self._options.answer_timeout_s,
        )
        try:
            result = await call.work(transaction)
            call.is_committing = call.writes
            await transaction.commit()
        except psycopg.Error as error:
            if not (call.is_committing and is_connection_lost(error)):
                raise
            lost: psycopg.Error | None = error
        else:
            lost = None
        finally:
            call.has_begun = transaction.has_begun
            await link.give_back(connection)
        # Where the connection died during the commit, its place in the pool is free by now.
        if lost is None or await self._was_committed(link, transaction.number, life, call.deadline):
            return result
        call.is_committing = False
        raise lost

    async def _was_committed(self, link: Link, number: str | None, life: str, deadline: float) -> bool:
        """Whether the transaction whose connection died during its commit took place. The server knows.

        After a crash the number may be that of another transaction; but not when ours was committed. Raises
        `StoreConnectionError` when it can not be known.
        """
        if number is None:
            return True  # it had no statement
        deadline = max(deadline, link.loop.time() + SETTLE_S)
        while True:
            connection: AsyncConnection[Row] | None = None
            status: str | None = IN_PROGRESS
            try:
                connection = await link.take(deadline)
                with answered_within(connection, self._options.answer_timeout_s):
                    status = await _status_of(connection, number)
            except (psycopg.Error, StoreError) as error:
                logger.debug("the outcome of transaction %s can not be asked for yet: %s", number, error)
            finally:
                if connection is not None:
                    await link.give_back(connection)
            if status != IN_PROGRESS and connection is not None:
                if status != COMMITTED or link.life_of(connection) == life:
                    return status == COMMITTED
                raise self._in_doubt("crashed during a commit")
            if link.loop.time() >= deadline:
                raise self._in_doubt("went away during a commit and did not come back")
            await asyncio.sleep(LONGEST_PAUSE_S)

    def _in_doubt(self, what: str) -> StoreConnectionError:
        return StoreConnectionError(
            f"{self._dsn.name}: the server {what}. Whether this write was kept is not known; appending again "
            "with the same uid adds nothing twice"
        )

    async def _opened(self) -> Link:
        """The link of this event loop, opened once however many ask for it at the same time."""
        if self._closed:
            raise StoreClosedError(f"the session store {self._dsn.name} is closed; nothing was done")
        link = self._link
        if link is not None and link.process != os.getpid():
            self._let_go(link)  # of the parent's, which goes on using its connections
            link = None
        if link is not None and link.loop is not asyncio.get_running_loop():
            self._refuse_second_loop(link)
            self._let_go(link)
            link.drop()  # its loop is gone, and with it whoever waited
            link = None
        if link is None:
            link = self._link = Link(self._dsn, self._options)
            self._forgotten = weakref.finalize(
                self, warn_forgotten, link.connections, link.ending, self._dsn.name, link.process
            )
            link.opening = link.start(self._open(link), f"open {self._dsn.name}")
            if_it_fails(link.opening, partial(self._let_go, link))  # whoever comes next opens anew
        if link.opening is not None:
            await asyncio.shield(link.opening)
        return link

    async def _open(self, link: Link) -> None:
        """The task that opens a link for all who wait; `close` awaits it too."""
        deadline = link.loop.time() + self._options.busy_timeout_s
        while True:
            try:
                await link.open()
                break
            except StoreBusyError:
                if link.loop.time() >= deadline:
                    raise
            await asyncio.sleep(LONGEST_PAUSE_S)
        link.opening = None

    def _index_soon(self, link: Link) -> None:
        """Else the first search after a long day would pay for all of it."""
        self._writes_since_indexing += 1
        if self._writes_since_indexing >= WRITES_BEFORE_INDEXING and self._options.search_index:
            self._writes_since_indexing = 0
            if link.closing is None:
                link.start(self._take_in(link), f"index {self._dsn.name}")

    async def _take_in(self, link: Link) -> None:
        try:
            while await self._run(link, self._transaction(link, postgres_search.take_in)):
                if link.closing is not None:
                    break
        except StoreError as error:
            logger.debug("the search index is brought up to date later: %s", error)

    def _let_go(self, link: Link) -> None:
        if self._link is link:
            self._link = None
            if self._forgotten is not None:
                self._forgotten.detach()

    def _refuse_read_only(self) -> None:
        if self._options.read_only:
            raise StoreReadOnlyError(f"{self._dsn.name} was opened with read_only=True; nothing was written")

    def _refuse_second_loop(self, link: Link) -> None:
        if link.loop is not asyncio.get_running_loop() and link.loop.is_running():
            raise StoreError(
                f"the session store {self._dsn.name} is in use by another event loop; nothing was done. "
                "Make one SessionDB for each loop"
            )


async def _discard(target: SqliteBackend, part: str) -> None:
    await target.close()
    for name in (part, f"{part}-journal"):
        await remove(name)


async def _status_of(connection: AsyncConnection[Row], number: str) -> str | None:
    """What the server says of the transaction; None when it knows of no such number (any more, or yet)."""
    try:
        cursor = await connection.execute("SELECT pg_xact_status(%s::text::xid8)", (number,))
        [(status,)] = await cursor.fetchall()
    except psycopg.errors.InvalidParameterValue:  # it is in the future: the server crashed, and forgot it
        return None
    await connection.rollback()
    return None if status is None else str(status)
