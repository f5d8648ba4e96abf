"""The connections of one event loop to a PostgreSQL server: psycopg's pool, opened, lent, closed, dropped."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import warnings
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import psycopg
from msgspec import Struct
from psycopg import AsyncConnection
from psycopg.adapt import Buffer, Loader
from psycopg_pool import AsyncConnectionPool, PoolClosed

from hermes_messages import ConfigurationError, StoreBusyError
from hermes_store.backend import Row
from hermes_store.errors import StoreClosedError
from hermes_store.postgres_answers import answered_within
from hermes_store.postgres_appends import GroupedAppends
from hermes_store.postgres_dsn import Dsn
from hermes_store.postgres_errors import to_store_error
from hermes_store.postgres_schema import prepare
from hermes_store.postgres_transaction import undo

__all__ = ["Link", "PostgresOptions"]

T = TypeVar("T")
logger: logging.Logger = logging.getLogger(__name__)

CLOSE_S = 5.0
"""How long closing waits for what was begun."""
LEAST_WAIT_S = 1.0
"""A new connection takes some time also where nobody wants to wait."""
ENDING_ROUNDS = 100
"""How often a task of the pool's is cancelled, 50 ms apart, before it is left to itself."""
FROZEN_CLIENT = "30s"
"""A client that stands still inside a transaction loses it: others wait for its locks."""

_SETTINGS = """
SELECT set_config('search_path', %s, false), set_config('lock_timeout', %s, false),
set_config('idle_in_transaction_session_timeout', %s, false),
set_config('synchronous_commit', coalesce(%s, current_setting('synchronous_commit')), false),
concat(pg_postmaster_start_time(), ' ', (SELECT stats_reset FROM pg_stat_bgwriter))
"""
# The last value names the server's life: it recovers from a crash with other statistics, and may then give
# the numbers of transactions anew that it had given out and not written down.


class PostgresOptions(Struct, frozen=True, kw_only=True):
    """How a database is used.

    `schema` is the schema that holds the tables. `pool_size` bounds the connections of one SessionDB.
    `busy_timeout_s` bounds the wait for a connection and for locks, in seconds. `flushed` insists that a
    commit is on the server's disk, where else the server's own setting of `synchronous_commit` holds.
    `answer_timeout_s` bounds the wait for the answer to one statement, in seconds.
    `read_only` uses a schema that is there, of this version, and changes nothing.
    """

    schema: str = "hermes_store"
    pool_size: int = 10
    busy_timeout_s: float = 10.0
    answer_timeout_s: float = 120.0
    flushed: bool = False
    search_index: bool = True
    read_only: bool = False

    def check(self) -> None:
        """Raises `ConfigurationError`."""
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", self.schema) or self.schema.startswith("pg_"):
            raise ConfigurationError(
                f"schema={self.schema!r}: use small letters, digits and underscores, at most 63"
            )
        if not self.answer_timeout_s > 0:
            raise ConfigurationError(
                f"answer_timeout_s={self.answer_timeout_s!r}: a number of seconds above 0"
            )
        if self.pool_size < 1:
            raise ConfigurationError(f"pool_size={self.pool_size!r}: at least one connection is needed")


class Link:
    """A pool of connections, as one event loop uses it, and the tasks that work on it."""

    def __init__(self, dsn: Dsn, options: PostgresOptions) -> None:
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.process: int = os.getpid()
        self.opening: asyncio.Task[None] | None = None
        self.closing: asyncio.Task[None] | None = None
        self.connections: weakref.WeakSet[AsyncConnection[Row]] = weakref.WeakSet()
        self.ending: list[asyncio.Task[None]] = []
        """The task that ends the pool's own tasks, once the pool is open."""
        self.appends: GroupedAppends = GroupedAppends()
        self._lives: weakref.WeakKeyDictionary[AsyncConnection[Row], str] = weakref.WeakKeyDictionary()
        self._dsn = dsn
        self._options = options
        self._tasks: set[asyncio.Task[Any]] = set()
        self._limits: set[asyncio.Timeout] = set()
        self._settings: dict[str, Any] = {
            "connect_timeout": max(2, round(options.busy_timeout_s)),
            **dsn.silence,
        }
        self._pool: AsyncConnectionPool[AsyncConnection[Row]] = AsyncConnectionPool(
            dsn.reveal(),
            kwargs=self._settings,
            min_size=0,
            max_size=options.pool_size,
            open=False,
            configure=self._configure,
            reset=_reset,  # given back on a task of the pool's: giving back can then not be cancelled
            reconnect_timeout=0.0,  # whoever waits is told, and asks anew
            reconnect_failed=self._tell_waiting,
            name=f"hermes-store {options.schema} {id(self)}",
        )

    def start(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """A task that this link owns: closing waits for it."""
        task = self.loop.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def open(self) -> None:
        """Check and prepare the schema, then open the pool. Raises `StoreError`."""
        connection = await self._connect()
        try:
            with answered_within(connection, self._options.answer_timeout_s):
                await prepare(
                    connection, self._dsn.name, self._options.schema, read_only=self._options.read_only
                )
        except psycopg.Error as error:
            raise to_store_error(error, self._dsn) from None
        finally:
            await connection.close()
        await self._pool.open()
        workers = [task for task in asyncio.all_tasks() if task.get_name().startswith(f"{self._pool.name}-")]
        self.ending.append(self.loop.create_task(_end_with_loop(workers), name=f"end {self._pool.name}"))

    async def take(self, deadline: float) -> AsyncConnection[Row]:
        """A connection of one's own, until `give_back`. Waits until `deadline`, in the loop's time.

        Raises `StoreBusyError` when none came free, `StoreConnectionError` when none can be made.
        """
        deadline = max(deadline, self.loop.time() + LEAST_WAIT_S)
        while True:
            try:
                async with asyncio.timeout_at(deadline) as limit:
                    self._limits.add(limit)
                    try:
                        return await self._pool.getconn(timeout=deadline - self.loop.time() + CLOSE_S)
                    finally:
                        self._limits.discard(limit)
            except PoolClosed:
                raise StoreClosedError(f"{self._dsn.name} was closed meanwhile; nothing was done") from None
            except TimeoutError:
                if self.loop.time() >= deadline:
                    raise StoreBusyError(
                        f"{self._dsn.name}: all {self._options.pool_size} connections are in use. Nothing of "
                        "this call was done; try again, or allow more with pool_size"
                    ) from None
            # Woken early: a connection could not be made. The pool keeps the reason, so ask for it.
            await (await self._connect()).close()

    async def give_back(self, connection: AsyncConnection[Row]) -> None:
        """Undo what the connection is in the middle of, and let others have it, or its place in the pool.

        A cancellation may meet the undoing; the giving back has nothing that it could meet.
        """
        try:
            await undo(connection)
        finally:
            await self._pool.putconn(connection)

    def life_of(self, connection: AsyncConnection[Row]) -> str:
        """Names the time between two crashes or restarts of the server, in which the connection was made."""
        return self._lives[connection]

    async def run_beside(self, work: Callable[[AsyncConnection[Row]], Awaitable[T]]) -> T:
        """Do `work` on a connection made for it. Raises `StoreError`."""
        connection = await self._connect()
        try:
            return await work(connection)
        except psycopg.Error as error:
            raise to_store_error(error, self._dsn) from error
        finally:
            await connection.close()

    async def close(self) -> None:
        """Wait for what was begun, bounded, then close all connections."""
        deadline = self.loop.time() + CLOSE_S
        while self._tasks and self.loop.time() < deadline:  # what was begun may have to begin more
            await asyncio.wait(set(self._tasks), timeout=deadline - self.loop.time())
        unfinished = set(self._tasks)
        for task in unfinished:
            task.cancel()
        if unfinished:
            await asyncio.wait(unfinished, timeout=1.0)
        await self._pool.close(timeout=1.0)
        for task in self.ending:
            task.cancel()
        if self.ending:
            await asyncio.wait(self.ending, timeout=1.0)
        self.drop()

    def drop(self) -> None:
        """Close the sockets now, without the loop: it may be gone. The server rolls back what was open."""
        finish_all(self.connections)

    async def _connect(self) -> AsyncConnection[Row]:
        try:
            return await AsyncConnection.connect(self._dsn.reveal(), **self._settings)
        except psycopg.Error as error:
            raise to_store_error(error, self._dsn) from None

    async def _configure(self, connection: AsyncConnection[Row]) -> None:
        options = self._options
        self.connections.add(connection)
        connection.adapters.register_loader("numeric", _NumberLoader)
        wait_ms = max(1, min(round(options.busy_timeout_s * 1000), 2**31 - 1))
        path = f'"{options.schema}"'
        values = (path, str(wait_ms), FROZEN_CLIENT, "on" if options.flushed else None)
        with answered_within(connection, self._options.answer_timeout_s):
            cursor = await connection.execute(_SETTINGS, values)
            [(*_, self._lives[connection])] = await cursor.fetchall()
            await connection.commit()

    async def _tell_waiting(self, _: AsyncConnectionPool[AsyncConnection[Row]]) -> None:
        """The pool could not connect: wake all who wait for a connection."""
        for limit in list(self._limits):
            limit.reschedule(self.loop.time())


class _NumberLoader(Loader):
    """Sums of bigint are numeric in PostgreSQL; the store wants the int that SQLite gives."""

    def load(self, data: Buffer) -> int | float:
        """The number that `data` spells."""
        text = bytes(data).decode()
        return float(text) if "." in text or "N" in text else int(text)


async def _end_with_loop(workers: Sequence[asyncio.Task[Any]]) -> None:
    """Wait to be cancelled, by `close` or with all tasks of the loop, then see that the pool's tasks end.

    They take a cancellation that meets them at work for a failure of that work and wait for more, and then
    the end of `asyncio.run` would wait for them for ever.
    """
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        for _ in range(ENDING_ROUNDS):
            pending = [worker for worker in workers if not worker.done()]
            if not pending:
                break
            for worker in pending:
                worker.cancel()
            await asyncio.wait(pending, timeout=0.05)


async def _reset(_: AsyncConnection[Row]) -> None:
    """Nothing: the one who had the connection has ended its transaction."""


def finish_all(connections: weakref.WeakSet[AsyncConnection[Row]]) -> int:
    """Close the sockets of `connections`; how many were open."""
    still_open = [connection for connection in connections if not connection.closed]
    for connection in still_open:
        connection.pgconn.finish()
    return len(still_open)


def warn_forgotten(
    connections: weakref.WeakSet[AsyncConnection[Row]],
    ending: Sequence[asyncio.Task[None]],
    name: str,
    process: int,
) -> None:
    """The owner is gone, or the program ends, and nobody closed."""
    if process != os.getpid():
        return  # a forked child, whose parent goes on using them
    for task in ending:
        if not task.done() and not task.get_loop().is_closed():
            task.get_loop().call_soon_threadsafe(task.cancel)
    if finish_all(connections):
        warnings.warn(
            f"the session store {name} was not closed; what it acknowledged is saved. "
            "Use 'async with SessionDB(...)' or await its close()",
            ResourceWarning,
            stacklevel=2,
        )
