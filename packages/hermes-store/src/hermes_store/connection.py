"""aiosqlite's connection, used for its thread: whole functions are posted to it, results come back safely.

aiosqlite sends one statement per hop and hands each result to the event loop that asked. For a store that is
too little in three ways, and this class is the one place that reaches into aiosqlite to change them:

- A transaction is one function on the thread, so a cancelled caller can not leave half of one, and it costs
  one hop instead of one for each statement.
- aiosqlite's thread dies when the loop that waits for a result is closed by then, and the next caller would
  wait for ever. Here a result that nobody waits for is dropped and the thread goes on.
- aiosqlite's thread keeps a process alive whose program forgot to close. Here it is a daemon: what was
  acknowledged is committed, so nothing is lost when it stops with the process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import warnings
import weakref
from collections.abc import Callable

import aiosqlite
from aiosqlite.core import _STOP_RUNNING_SENTINEL

__all__ = ["ThreadConnection", "hand_over"]

logger: logging.Logger = logging.getLogger(__name__)


class _Holder:
    """Where the thread keeps its connection. Functions posted to the thread hold this, not their owner: the
    thread keeps the last one it ran, and an owner that its program forgot would never be collected."""

    __slots__ = ("process", "raw")

    def __init__(self) -> None:
        self.raw: sqlite3.Connection | None = None
        self.process = os.getpid()


class ThreadConnection(aiosqlite.Connection):
    """A SQLite connection that lives on a thread of aiosqlite's. Left unclosed it warns."""

    def __init__(self, connector: Callable[[], sqlite3.Connection], name: str) -> None:
        super().__init__(connector, iter_chunk_size=64)
        self._holder = _Holder()
        self._name = name
        self._thread.name = f"hermes-store {name}"
        self._thread.daemon = True
        self._thread.start()
        self._forgotten = weakref.finalize(self, _close_forgotten, self._tx.put_nowait, self._holder, name)

    def open(self) -> asyncio.Future[None]:
        """Connect, on the thread. The future is set when that is done, or has failed."""
        connector, holder = self._connector, self._holder
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[None] = loop.create_future()

        def connect() -> None:
            failure: Exception | None = None
            try:
                holder.raw = connector()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is raised to the one who waits
                failure = error
            hand_over(loop, lambda: _settle(outcome, failure))

        self._tx.put_nowait((None, connect))
        return outcome

    def post(self, function: Callable[[sqlite3.Connection | None], None]) -> None:
        """Run `function` on the thread, after all that was posted before, with the connection or None when
        it is closed. It must not raise."""
        holder = self._holder
        self._tx.put_nowait((None, lambda: function(holder.raw)))

    def interrupt_now(self) -> None:
        """Have the statement that runs on the thread fail. For a connection that does one thing only."""
        raw = self._holder.raw
        if raw is not None:
            raw.interrupt()

    def retire(self) -> asyncio.Future[None]:
        """Close after all that was posted before, and end the thread. The future tells when."""
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[None] = loop.create_future()
        close = _closer(self._holder, self._name, lambda: hand_over(loop, lambda: _settle(outcome, None)))
        self._forgotten.detach()
        self._tx.put_nowait((None, close))
        return outcome


def _closer(holder: _Holder, name: str, on_closed: Callable[[], None]) -> Callable[[], object]:
    def close_and_stop() -> object:
        raw, holder.raw = holder.raw, None
        try:
            if raw is not None:
                raw.close()
        except sqlite3.Error:
            logger.warning("closing %s failed; what was acknowledged is saved", name, exc_info=True)
        on_closed()
        return _STOP_RUNNING_SENTINEL

    return close_and_stop


def _close_forgotten(
    post: Callable[[tuple[None, Callable[[], object]]], None], holder: _Holder, name: str
) -> None:
    """The owner is gone, or the program ends, and nobody closed."""
    if holder.process != os.getpid():
        return  # a forked child, whose parent goes on using it
    if holder.raw is not None:
        warnings.warn(
            f"the session store {name!r} was not closed; what it acknowledged is saved. "
            "Use 'async with SessionDB(...)' or await its close()",
            ResourceWarning,
            stacklevel=2,
        )
    post((None, _closer(holder, name, lambda: None)))


def hand_over(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    """Have `loop` call `callback`, from another thread; dropped when the loop is closed by now."""
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        logger.debug("the event loop that waited for the database is closed; its result is dropped")


def _settle(outcome: asyncio.Future[None], failure: Exception | None) -> None:
    if outcome.done():
        return
    if failure is None:
        outcome.set_result(None)
    else:
        outcome.set_exception(failure)
