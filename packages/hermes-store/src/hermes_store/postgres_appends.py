"""Appends that wait at the same moment go to PostgreSQL as one transaction, and each has its own outcome.

A lane of `append_queue` has a worker while something waits in it: one task, one transaction at a time. An
append whose caller is cancelled before the commit is on its way takes the transaction back, which the others
then make without it; so for each of them it holds that it has happened whole or not at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeAlias

from hermes_messages import StoreBusyError
from hermes_store.append_queue import SHARED, AppendQueue, Lane
from hermes_store.errors import StoreClosedError, StoreConnectionError
from hermes_store.operations.messages import Append
from hermes_store.postgres_transaction import Call, NotAppended, Transaction
from hermes_store.waiting import settle

__all__ = ["LARGEST", "SETTLE_S", "GroupedAppends"]

SETTLE_S = 5.0
"""How long a cancelled caller waits for the outcome of what has begun."""
PATIENCE_S = 1.0
"""For so long an append waits for the transaction before its own; then it gets one beside that."""
MOST_STOPS = 3
"""So often the transaction of an append is taken back for others; then it gets one alone."""
LARGEST = 1_000_000
"""Characters of an append that others may have to wait for."""

_Answers: TypeAlias = "list[int | NotAppended]"
Run: TypeAlias = Callable[[Call[_Answers]], Awaitable[_Answers]]
"""Makes the transaction of a group, as often as it takes. Raises `StoreError`."""
Start: TypeAlias = Callable[[Coroutine[Any, Any, None], str], "asyncio.Task[None]"]
"""Makes a task that its owner awaits."""


class _Waiting:
    """An append on its way."""

    __slots__ = ("append", "deadline", "group", "is_given_up", "outcome", "stops")

    def __init__(self, append: Append, deadline: float, outcome: asyncio.Future[int | None]) -> None:
        self.append = append
        self.deadline = deadline
        self.outcome = outcome
        self.group: _Group | None = None
        self.is_given_up = False
        self.stops = 0

    @property
    def session_id(self) -> str:
        return self.append.session_id

    @property
    def size(self) -> int:
        return self.append.size

    def end(self, seq: int | None) -> None:
        """Tell the caller, if it still waits. None: it has to be tried alone."""
        if self.is_given_up:
            self.outcome.cancel()
        elif not self.outcome.done():
            self.outcome.set_result(seq)

    def fail(self, error: Exception) -> None:
        if not self.outcome.done():
            self.outcome.set_exception(error)


class _Group:
    """Appends in one transaction, which may be taken back until its commit is on its way."""

    def __init__(self, waiting: Sequence[_Waiting], *, waits: bool) -> None:
        self.waiting = waiting
        self._waits = waits
        self._worker = asyncio.current_task()
        self._is_stopped = False
        self.call: Call[_Answers] = Call(self._append, waiting[0].deadline, writes=True, uses_index=False)
        for one in waiting:
            one.group = self

    async def _append(self, transaction: Transaction) -> _Answers:
        return await transaction.append_all([one.append for one in self.waiting], waits=self._waits)

    def stop(self) -> None:
        """One of its callers was cancelled."""
        if self._worker is not None and not self.call.is_committing and not self._is_stopped:
            self._is_stopped = True
            self._worker.cancel()

    def was_only_stopped(self) -> bool:
        """Whether the worker was cancelled by `stop`, and by nobody else."""
        return self._is_stopped and self._worker is not None and self._worker.cancelling() == 1

    def end(self) -> None:
        """Nothing can stop it any more."""
        for one in self.waiting:
            one.group = None
        if self._is_stopped and self._worker is not None:
            self._worker.uncancel()


class GroupedAppends:
    """The appends of one event loop."""

    def __init__(self) -> None:
        self._queue: AppendQueue[_Waiting] = AppendQueue()

    async def append(self, append: Append, deadline: float, start: Start, run: Run) -> int | None:
        """Store a message together with others that wait; its sequence number, once it is committed.

        None when it was not stored: the caller makes a transaction for it alone, which finds out why, finds
        the message there, or need not wait. Raises `StoreError` with nothing written.
        """
        one = _Waiting(append, deadline, asyncio.get_running_loop().create_future())
        lane, is_new = self._queue.submit(one)
        if is_new:
            self._start(lane, start, run)
        try:
            return await asyncio.shield(one.outcome)
        except asyncio.CancelledError:
            one.is_given_up = True
            if self._queue.withdraw(one):
                one.outcome.cancel()
            elif one.group is not None:
                one.group.stop()
            await settle(one.outcome, SETTLE_S)
            raise

    def _start(self, lane: Lane, start: Start, run: Run) -> None:
        """Give a lane its worker, and another one should that not end by itself."""

        def ended(worker: asyncio.Task[None]) -> None:
            is_broken = worker.cancelled() or worker.exception() is not None
            if is_broken and (left := self._queue.take(lane)):
                self._queue.put_back(lane, left)
                self._start(lane, start, run)

        start(self._work(lane, start, run), "append").add_done_callback(ended)

    async def _work(self, lane: Lane, start: Start, run: Run) -> None:
        """The worker of a lane, until nothing is left in it."""
        while group := self._queue.take(lane):
            try:
                held = await self._do(lane, group, run)
            except asyncio.CancelledError:  # the store closes, or the loop ends
                for one in group:
                    one.outcome.cancel()
                raise
            except Exception as error:
                for one in group:
                    one.fail(error)
                raise
            for apart in self._queue.set_apart(held) if held else ():
                self._start(apart, start, run)

    async def _do(self, lane: Lane, waiting: Sequence[_Waiting], run: Run) -> list[_Waiting]:
        """One transaction, and what it means to each of `waiting`; those whose session is held."""
        group = _Group(waiting, waits=lane is not SHARED)
        timer = _Every(PATIENCE_S, self._let_pass) if lane is SHARED else None
        try:
            answers = await run(group.call)
        except asyncio.CancelledError:
            if not group.was_only_stopped():
                raise
            for one in waiting:
                one.stops += 1
                if one.is_given_up or one.stops > MOST_STOPS:
                    one.end(None)
            self._queue.put_back(lane, [one for one in waiting if not one.outcome.done()])
        except Exception as error:  # noqa: BLE001 - raised to the callers
            self._fail(lane, waiting, error)
        else:
            return _tell(waiting, answers)
        finally:
            if timer is not None:
                timer.stop()
            group.end()
        return []

    def _let_pass(self) -> None:
        """The transaction before them takes long, say because its connection is dead."""
        for one in self._queue.take_all(SHARED):
            one.end(None)

    def _fail(self, lane: Lane, waiting: Sequence[_Waiting], error: Exception) -> None:
        now = asyncio.get_running_loop().time()
        concerns_all = isinstance(error, StoreBusyError | StoreConnectionError | StoreClosedError)
        if isinstance(error, StoreBusyError):  # else each group behind would find that out in its turn
            waiting = [*waiting, *self._queue.take_all(lane)]
        for one in waiting:
            if isinstance(error, StoreBusyError) and one.deadline > now and not one.is_given_up:
                continue  # it may go on waiting
            if concerns_all or len(waiting) == 1:
                one.fail(error)
            else:
                one.end(None)  # it may be the fault of another
        self._queue.put_back(lane, [one for one in waiting if not one.outcome.done()])


class _Every:
    """Calls `work` again and again, until it is stopped."""

    def __init__(self, seconds: float, work: Callable[[], None]) -> None:
        self._seconds = seconds
        self._work = work
        self._timer = asyncio.get_running_loop().call_later(seconds, self._ring)

    def stop(self) -> None:
        self._timer.cancel()

    def _ring(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._ring)
        self._work()


def _tell(waiting: Sequence[_Waiting], answers: _Answers) -> list[_Waiting]:
    """Tell the callers what was committed; those whose session is held."""
    held: list[_Waiting] = []
    for one, answer in zip(waiting, answers, strict=True):
        if answer == "session held" and not one.is_given_up:
            held.append(one)
        else:
            one.end(answer if isinstance(answer, int) else None)
    return held
