"""Admitting a turn: who may write a session, from when until when.

    lock -> cancel background work -> lease.admit -> lease.start ... stop -> join -> clear -> release

With a store that has leases, turns of one session exclude each other across processes, and every write
carries the token. Without, a lock of this process keeps the turns of one store and session apart.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Final, Protocol
from weakref import WeakKeyDictionary, WeakValueDictionary

from hermes_loop.background import BackgroundWork, stop_tasks
from hermes_loop.clock import Clock
from hermes_loop.interrupts import InterruptFlag
from hermes_loop.shielding import Bounds, finish_despite_cancel
from hermes_messages import LeaseLostError
from hermes_messages.abilities import supports
from hermes_messages.protocols import LeaseToken, SessionStore, SupportsLeaseQueue, SupportsLeases

__all__ = ["DEFAULT_TTL_S", "Admission", "Lease", "LocalLease", "StoreLease", "lease_for"]

logger: logging.Logger = logging.getLogger(__name__)

DEFAULT_TTL_S: Final = 60.0
BACKGROUND_LIMIT_S: Final = 5.0


class Lease(Protocol):
    """The right of one turn to write its session."""

    @property
    def token(self) -> LeaseToken | None:
        """What writes carry; None where the store knows no leases."""
        ...

    @property
    def lost(self) -> bool:
        """Whether someone else has it by now."""
        ...

    @property
    def shared(self) -> bool:
        """Whether there is anybody to share the session with. Otherwise it is neither waited for nor given
        back."""
        ...

    async def admit(self) -> None:
        """Wait until it is ours. A cancelled wait leaves nothing held."""
        ...

    def start(self, on_lost: Callable[[], None]) -> None:
        """Begin to hold on to it."""
        ...

    def stop(self) -> None:
        """Hold on no longer."""
        ...

    async def join(self) -> None:
        """Wait until nothing of it runs any more."""
        ...

    def clear(self) -> None:
        """Forget whom to tell about a loss, so that no late call reaches another turn."""
        ...

    async def release(self) -> None:
        """Give it back."""
        ...


class StoreLease:
    """A lease in the store, renewed by a task of its own until `stop`.

    Turns queue up for it in the order of their arrival: in the store where it has a queue, else those of one
    process, of which only the first asks the store.
    """

    def __init__(
        self, store: SupportsLeases, session_id: str, holder: str, *, ttl_s: float, clock: Clock
    ) -> None:
        self._store = store
        self._shared_queue = store if supports(store, SupportsLeaseQueue) else None
        self._queue = LocalLease(None if self._shared_queue is not None else store, session_id)
        self._session_id = session_id
        self._holder = holder
        self._ttl_s = ttl_s
        self._clock = clock
        self._token: LeaseToken | None = None
        self._lost = False
        self._on_lost: Callable[[], None] | None = None
        self._renewal: asyncio.Task[None] | None = None

    @property
    def token(self) -> LeaseToken | None:
        """What writes carry."""
        return self._token

    @property
    def lost(self) -> bool:
        """Whether someone else has it by now."""
        return self._lost

    @property
    def shared(self) -> bool:
        """With whoever else has the store."""
        return True

    async def admit(self) -> None:
        """Wait until it is ours; a cancelled wait leaves nothing held."""
        await self._queue.admit()
        try:
            await self._take()
        except BaseException:
            await finish_despite_cancel(self.release)
            raise

    def start(self, on_lost: Callable[[], None]) -> None:
        """Begin to renew."""
        self._on_lost = on_lost
        self._renewal = asyncio.create_task(self._renew(), name=f"lease renewal of {self._session_id}")

    def stop(self) -> None:
        """Renew no longer."""
        if self._renewal is not None:
            self._renewal.cancel()

    async def join(self) -> None:
        """Wait until the renewal has ended."""
        if self._renewal is not None:
            await stop_tasks((self._renewal,), BACKGROUND_LIMIT_S)
            self._renewal = None

    def clear(self) -> None:
        """Tell nobody about a loss any more."""
        self._on_lost = None

    async def release(self) -> None:
        """Give it back; one that was lost is left alone."""
        try:
            if self._token is not None and not self._lost:
                await self._store.release_session_turn_lease(self._token)
        finally:
            await self._queue.release()

    async def _take(self) -> None:
        if self._shared_queue is not None:
            self._token = await self._shared_queue.acquire_session_turn_lease(
                self._session_id, self._holder, self._ttl_s
            )
            return
        wait_s = 0.02
        while True:
            # Shielded, so that a token does not get lost between the store and us.
            await finish_despite_cancel(self._try)
            if self._token is not None:
                return
            await self._clock.sleep(wait_s * (0.5 + random.random() / 2))  # noqa: S311 - spreads the waiters
            wait_s = min(wait_s * 2, 1.0)

    async def _try(self) -> None:
        if self._token is None:
            self._token = await self._store.try_acquire_session_turn_lease(
                self._session_id, self._holder, self._ttl_s
            )

    async def _renew(self) -> None:
        now = asyncio.get_running_loop().time
        held_until = now() + self._ttl_s
        while True:
            await self._clock.sleep(self._ttl_s / 3)
            token = self._token
            assert token is not None
            asked_at = now()  # the store's time runs from some moment after this one
            try:
                self._token = await self._store.refresh_session_turn_lease(token, self._ttl_s)
                held_until = asked_at + self._ttl_s
            except LeaseLostError:
                break
            except Exception as error:  # noqa: BLE001 - a store's own; the lease is lost only with time
                logger.warning("the lease of session %s could not be renewed: %r", self._session_id, error)
                if now() >= held_until:
                    break
        self._lost = True
        if self._on_lost is not None:
            self._on_lost()


_locks: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[tuple[int, str], asyncio.Lock]] = (
    WeakKeyDictionary()
)


def _lock_of(store: object, session_id: str) -> asyncio.Lock:
    """One lock per store object and session, for the event loop that is running."""
    locks = _locks.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
    key = (id(store), session_id)
    found = locks.get(key)
    if found is None:
        found = locks[key] = asyncio.Lock()
    return found


class LocalLease:
    """A lock of this process, first come first served. Two processes are not kept apart.

    Without a store there is nothing to share, and nothing is locked.
    """

    token: LeaseToken | None = None
    """Writes carry none."""
    lost: bool = False
    """Nobody can take it."""

    def __init__(self, store: object | None, session_id: str) -> None:
        self._store = store
        self._session_id = session_id
        self._lock: asyncio.Lock | None = None
        self.shared: bool = store is not None
        """With the other agents that have the store, if there is one."""

    async def admit(self) -> None:
        """Wait until it is ours; a cancelled wait leaves nothing held."""
        if self._store is None:
            return
        lock = _lock_of(self._store, self._session_id)
        await lock.acquire()
        self._lock = lock

    def start(self, on_lost: Callable[[], None]) -> None:
        """Nothing to renew."""

    def stop(self) -> None:
        """Nothing to renew."""

    async def join(self) -> None:
        """Nothing runs."""

    def clear(self) -> None:
        """Nobody is told."""

    async def release(self) -> None:
        """Give it back."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def lease_for(
    store: SessionStore | None, session_id: str, holder: str, *, ttl_s: float, clock: Clock
) -> Lease:
    """The strongest lease that `store` offers."""
    if store is None or not supports(store, SupportsLeases):
        return LocalLease(store, session_id)
    return StoreLease(store, session_id, holder, ttl_s=ttl_s, clock=clock)


class Admission:
    """Holds the session's lease around one turn of an agent whose lock is held; entered, it is False when an
    interrupt ended the wait for it. A lease that is lost interrupts the turn.

    On every exit the renewal is stopped and awaited before the lease is given back; a failure to give it
    back is logged, for it expires by itself. `log` is told the name of each step that was taken.
    """

    __slots__ = ("_background", "_bounds", "_interrupt", "_is_held", "_lease", "_log")

    def __init__(
        self,
        background: BackgroundWork,
        lease: Lease,
        interrupt: InterruptFlag,
        bounds: Bounds,
        log: Callable[[str], None],
    ) -> None:
        self._background = background
        self._lease = lease
        self._interrupt = interrupt
        self._bounds = bounds
        self._log = log
        self._is_held = False

    async def __aenter__(self) -> bool:
        await self._background.cancel(BACKGROUND_LIMIT_S)
        self._log("cancel_background")
        lease = self._lease
        if lease.shared:
            with self._interrupt.scope() as waiting:
                await lease.admit()
            if waiting.cancelled_caught:
                return False
        self._log("lease.admit")
        self._is_held = lease.shared
        lease.start(partial(self._interrupt.request, hard=True))
        self._log("lease.start")
        return True

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._is_held:
            return
        bounds = self._bounds.cancelled() if isinstance(error, asyncio.CancelledError) else self._bounds
        try:
            await finish_despite_cancel(lambda: _give_back(self._lease, self._log), bounds)
        except TimeoutError:
            logger.warning("giving the lease back took too long; it will expire")


async def _give_back(lease: Lease, log: Callable[[str], None]) -> None:
    lease.stop()
    log("lease.stop")
    await lease.join()
    log("lease.join")
    lease.clear()
    log("lease.clear")
    try:
        await lease.release()
        log("lease.release")
    except Exception as error:  # noqa: BLE001 - a store's own; the turn has its result, or its cancellation
        logger.warning("the lease could not be released and will expire: %r", error)
