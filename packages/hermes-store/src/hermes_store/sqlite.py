"""The store's back end on one SQLite file: one connection per event loop, retries, cancellation."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import sqlite3
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from hermes_messages import StoreBusyError, StoreError
from hermes_store.backend import Operation
from hermes_store.connection import ThreadConnection
from hermes_store.errors import StoreClosedError, StoreReadOnlyError
from hermes_store.files import publish, refuse_existing, remove
from hermes_store.operations.search import rebuild_index
from hermes_store.sqlite_errors import is_busy, to_store_error
from hermes_store.sqlite_file import WatchedFile
from hermes_store.sqlite_open import SqliteOptions, connect, prepare
from hermes_store.sqlite_upkeep import copy_into, find_damage, run_and_settle, vacuum
from hermes_store.units import WRITES_BEFORE_INDEXING, Unit, UnitQueue
from hermes_store.waiting import finish, if_it_fails, settle

__all__ = ["SqliteBackend"]

T = TypeVar("T")
logger: logging.Logger = logging.getLogger(__name__)

SETTLE_S = 5.0
"""How long a cancelled caller waits for the outcome of what has begun."""
FIRST_PAUSE_S = 0.001
LONGEST_PAUSE_S = 0.05
PAUSE_S = 0.1
"""Without a call for so long, the search index is brought up to date."""


class _Link:
    """A connection and its queue, as one event loop uses them."""

    def __init__(self, path: str, options: SqliteOptions, clock: Callable[[], float]) -> None:
        self.loop = asyncio.get_running_loop()
        self.process = os.getpid()
        self.queue = queue = UnitQueue(clock)
        self.opening: asyncio.Task[None] | None = None

        def connector() -> sqlite3.Connection:
            raw = connect(path, read_only=options.read_only)
            try:
                opened = prepare(raw, path, options)
                queue.file = None if options.read_only else WatchedFile(raw)
            except BaseException:
                raw.close()
                raise
            queue.indexing = options.search_index and opened.index_state == "ready"
            queue.schema_version = opened.version
            return raw

        self.connection = ThreadConnection(connector, path)
        self._closing: asyncio.Future[None] | None = None
        self._pause: asyncio.TimerHandle | None = None

    def is_usable(self) -> bool:
        """Whether it is open, in this event loop and process."""
        return (
            self.opening is None
            and self._closing is None
            and self.loop is asyncio.get_running_loop()
            and self.process == os.getpid()
        )

    @property
    def retired(self) -> bool:
        """Whether nothing more is accepted."""
        return self._closing is not None

    def retire(self) -> asyncio.Future[None]:
        """Close the connection after all that was submitted, and end its thread. Idempotent: a second request
        would wait for a thread that has ended."""
        if self._closing is None:
            self._closing = self.connection.retire()
        if self._pause is not None:
            self._pause.cancel()
        return self._closing

    def index_in_a_pause(self) -> None:
        """Have the search index brought up to date once a moment has passed without any call."""
        if self._pause is None:
            self._pause = self.loop.call_later(PAUSE_S, self._index_after, self.queue.calls)

    def _index_after(self, calls: int) -> None:
        self._pause = None
        if self._closing is not None:
            return
        if self.queue.calls == calls:
            self.connection.post(self.queue.take_in)
        else:
            self.index_in_a_pause()


class SqliteBackend:
    """Sessions in one SQLite file. Nothing is opened before the first call."""

    def __init__(
        self,
        path: str,
        options: SqliteOptions,
        *,
        busy_timeout_s: float = 10.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        # Absolute, so that it stays one file when the process changes its folder.
        self._path = path if path.startswith(("file:", ":memory:")) else str(Path(path).absolute())
        self._options = options
        self._busy_timeout_s = busy_timeout_s
        self._clock = clock
        self._link: _Link | None = None
        self._closed = False

    def read(self, operation: Callable[[], Operation[T]]) -> Coroutine[Any, Any, T]:
        """Run an operation that only reads, on one snapshot. Raises `StoreError`."""
        return self._run(operation, writes=False)

    def write(self, operation: Callable[[], Operation[T]]) -> Coroutine[Any, Any, T]:
        """Run an operation and commit before returning. Raises `StoreError` with nothing written."""
        return self._run(operation, writes=True)

    async def rebuild_search_index(self) -> None:
        """Build the search index anew from the messages. Raises `StoreError` with the old one in place."""
        await self.write(rebuild_index)

    async def vacuum(self) -> None:
        """Give room back to the file system. Raises `StoreError`; another program's write is waited for."""
        if self._options.read_only:
            raise StoreReadOnlyError(f"{self._path} was opened with read_only=True; nothing was written")
        await self._while_busy(self._vacuum)

    async def check_integrity(self) -> list[str]:
        """What is wrong with the database, one line each. Changes nothing. Raises `StoreError`."""
        return await self._beside(find_damage)

    async def backup(self, path: str) -> None:
        """Copy the database to the new file `path`. Raises `ConfigurationError`, `StoreError`."""
        await refuse_existing(path)
        part = f"{path}.{uuid.uuid4().hex}.partial"
        try:
            await self._beside(lambda connection: copy_into(connection, part))
            await publish(part, path)
        except BaseException:
            await finish(remove(part))
            raise

    async def close(self) -> None:
        """Let what was begun end, then close the connection and its thread. Idempotent."""
        link = self._link
        if link is not None and link.process != os.getpid():
            link = None  # of the parent's, which goes on using it
        if link is not None:
            self._refuse_second_loop(link)
        self._closed, self._link = True, None
        if link is None:
            return
        try:
            if link.opening is not None and link.loop is asyncio.get_running_loop():
                await self._wait(asyncio.gather(link.opening, return_exceptions=True))
        finally:  # also when cancelled: nothing else knows the link any more
            await self._wait(link.retire())

    @property
    def read_only(self) -> bool:
        """Whether every write is refused."""
        return self._options.read_only

    def reopen(self) -> None:
        """Allow calls again after `close`."""
        self._closed = False

    async def _run(self, operation: Callable[[], Operation[T]], *, writes: bool, retries: bool = True) -> T:
        """One unit of work; while others hold the database, again."""
        if writes and self._options.read_only:
            raise StoreReadOnlyError(f"{self._path} was opened with read_only=True; nothing was written")
        link = self._link
        if link is None or self._closed or not link.is_usable():
            link = await self._opened()
            if link.retired:
                raise StoreClosedError(
                    f"the session store {self._path!r} was closed meanwhile; nothing was done"
                )
        outcome: asyncio.Future[T] = link.loop.create_future()
        unit: Unit[T] = Unit(operation, outcome, writes=writes)
        if link.queue.submit(unit):
            link.connection.post(link.queue.drain)
        if link.queue.unindexed >= WRITES_BEFORE_INDEXING:
            link.index_in_a_pause()
        try:
            return await outcome
        except asyncio.CancelledError:
            await self._settle_unit(link, unit)
            raise
        except sqlite3.Error as error:
            if not (retries and is_busy(error)):
                raise to_store_error(error, self._path) from error
        return await self._while_busy(lambda: self._run(operation, writes=writes, retries=False))

    async def _vacuum(self) -> None:
        link = await self._opened()
        outcome: asyncio.Future[None] = link.loop.create_future()

        def checked_vacuum(connection: sqlite3.Connection) -> None:
            if link.queue.file is not None:
                link.queue.file.check()
            vacuum(connection)

        link.connection.post(lambda raw: run_and_settle(raw, checked_vacuum, outcome))
        await self._wait_translated(outcome)

    async def _beside(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do long work that only reads on a connection of its own, so that nobody waits for it. A cancelled
        caller interrupts it."""
        link = await self._opened()

        def connector() -> sqlite3.Connection:
            if link.queue.file is not None:
                link.queue.file.check()  # the path would lead to another file
            return self._connector()

        connection = ThreadConnection(connector, f"{self._path} beside")
        try:
            await self._wait_translated(connection.open())
            outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()
            connection.post(lambda raw: run_and_settle(raw, work, outcome))
            try:
                return await asyncio.shield(outcome)
            except asyncio.CancelledError:
                connection.interrupt_now()
                await settle(outcome, SETTLE_S)
                raise
            except sqlite3.Error as error:
                raise to_store_error(error, self._path) from error
        finally:
            await finish(connection.retire(), SETTLE_S)

    def _connector(self) -> sqlite3.Connection:
        raw = connect(self._path, read_only=True)
        raw.create_function("hermes_index_text", 1, lambda text: text, deterministic=True)
        return raw

    async def _wait_translated(self, outcome: asyncio.Future[T]) -> T:
        try:
            return await self._wait(outcome)
        except sqlite3.Error as error:
            raise to_store_error(error, self._path) from error

    async def _settle_unit(self, link: _Link, unit: Unit[T]) -> None:
        """A cancelled caller's unit is withdrawn before it began; once begun its outcome is awaited."""
        if not unit.is_delivered and not link.queue.withdraw(unit):
            unit.future = link.loop.create_future()  # the cancellation took the first
            await settle(unit.future, SETTLE_S)

    async def _opened(self) -> _Link:
        """The link of this event loop, opened once however many ask for it at the same time."""
        if self._closed:
            raise StoreClosedError(f"the session store {self._path!r} is closed; nothing was done")
        link = self._link
        if link is not None and link.process != os.getpid():
            link = None  # of the parent's: its thread is not here
        if link is not None and link.loop is not asyncio.get_running_loop():
            self._refuse_second_loop(link)
            link.retire()  # its loop is gone; the thread ends by itself
            link = None
        if link is None:
            link = self._link = _Link(self._path, self._options, self._clock)
            link.opening = link.loop.create_task(self._open(link), name=f"open {self._path}")
            if_it_fails(link.opening, partial(self._let_go, link))  # whoever comes next opens anew
        if link.opening is not None:
            await asyncio.shield(link.opening)
        return link

    async def _open(self, link: _Link) -> None:
        """The task that opens a link for all who wait; `close` awaits it too."""
        await self._while_busy(lambda: self._connect(link))
        link.opening = None

    def _let_go(self, link: _Link) -> None:
        link.retire()
        if self._link is link:
            self._link = None

    async def _connect(self, link: _Link) -> None:
        await self._wait_translated(link.connection.open())

    async def _wait(self, outcome: asyncio.Future[T]) -> T:
        """The outcome of something that has begun; also a cancelled caller waits for it, bounded."""
        try:
            return await asyncio.shield(outcome)
        except asyncio.CancelledError:
            await settle(outcome, SETTLE_S)
            raise

    def _refuse_second_loop(self, link: _Link) -> None:
        if link.loop is not asyncio.get_running_loop() and link.loop.is_running():
            raise StoreError(
                f"the session store {self._path!r} is in use by another event loop; nothing was done. "
                "Make one SessionDB for each loop"
            )

    async def _while_busy(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Make attempts until one is not answered with busy, with growing, uneven pauses between them."""
        deadline = time.monotonic() + self._busy_timeout_s
        pause = FIRST_PAUSE_S
        while True:
            try:
                return await attempt()
            except StoreBusyError:
                if time.monotonic() >= deadline:
                    raise
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - spreads writers, no secret
            pause = min(pause * 2, LONGEST_PAUSE_S)
