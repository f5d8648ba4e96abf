"""How a running turn is told to stop, and how its waits hear of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import Final, Self

from hermes_messages.protocols import TurnExitReason

__all__ = ["InterruptFlag", "InterruptScope"]

AGAIN_S: Final = 1.0
"""How long what was cancelled may take to clean up before it is cancelled once more, in seconds."""


_NO_LIMIT: Final = nullcontext()


class InterruptFlag:
    """One turn's wish to stop. A new one is made for every turn, so a late interrupt reaches no other turn.

    A soft interrupt ends model calls and waits, and asks tools to stop. A hard one (the lease was lost) also
    cancels tools that are running. Call it from the event loop's own thread. What is asked for is read from
    its attributes, which `request` alone writes.
    """

    __slots__ = ("_event", "_listeners", "_scopes", "hard", "reason", "requested", "text")

    def __init__(self) -> None:
        self.requested: bool = False
        """Whether any interrupt was asked for."""
        self.hard: bool = False
        """Whether a hard interrupt was asked for."""
        self.reason: TurnExitReason = "interrupted"
        """What the turn ends with: what the first request said."""
        self.text: str | None = None
        """Why, for a person; None where the reason says it all."""
        self._event: asyncio.Event | None = None
        self._scopes: dict[InterruptScope, None] = {}
        self._listeners: dict[object, Callable[[], None]] = {}

    def request(
        self, *, hard: bool = False, reason: TurnExitReason = "interrupted", text: str | None = None
    ) -> None:
        """Ask the turn to stop. Idempotent; a soft request may become a hard one."""
        if not self.requested:
            self.reason, self.text = reason, text
        self.requested = True
        self.hard = self.hard or hard
        if self._event is not None:
            self._event.set()
        for scope in tuple(self._scopes):
            scope.hear()
        listeners, self._listeners = self._listeners, {}
        for listener in listeners.values():
            asyncio.get_running_loop().call_soon(listener)

    async def wait(self) -> None:
        """Return once an interrupt is asked for."""
        if self.requested:
            return
        if self._event is None:
            self._event = asyncio.Event()
        await self._event.wait()

    def on_request(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have `listener` called, once, soon after an interrupt is asked for; what takes that back."""
        key = object()
        if self.requested:
            asyncio.get_running_loop().call_soon(listener)
        else:
            self._listeners[key] = listener

        def forget() -> None:
            self._listeners.pop(key, None)

        return forget

    def time_limit(self, seconds: float | None) -> AbstractContextManager[None]:
        """Interrupt the turn when the body runs longer than that; None is no limit."""
        return _NO_LIMIT if seconds is None else self._limited(seconds)

    @contextmanager
    def _limited(self, seconds: float) -> Iterator[None]:
        timer = asyncio.get_running_loop().call_later(
            seconds,
            lambda: self.request(
                reason="budget_exhausted", text=f"the time budget of {seconds:g} s is spent"
            ),
        )
        try:
            yield
        finally:
            timer.cancel()

    def scope(self, *, hard_only: bool = False, grace_s: float = 0.0) -> InterruptScope:
        """Leave the body early when an interrupt comes, `grace_s` seconds after it; `cancelled_caught` of
        what is entered tells."""
        return InterruptScope(self, self._scopes, hard_only, grace_s)


class InterruptScope:
    """See `InterruptFlag.scope`. It cancels its own task, as `asyncio.timeout` does, and takes back what it
    did when it is left; a cancellation by somebody else goes on.

    The event loop does it, never the task's own code: what cancels itself is cancelled when it next waits,
    which may be after the scope. A body that goes on is cancelled again, so that no clean-up hangs for ever.
    """

    __slots__ = (
        "_cancelled_before",
        "_flag",
        "_grace_s",
        "_hard_only",
        "_open",
        "_sent",
        "_task",
        "_timer",
        "cancelled_caught",
    )

    def __init__(
        self, flag: InterruptFlag, open_scopes: dict[InterruptScope, None], hard_only: bool, grace_s: float
    ) -> None:
        self._flag = flag
        self._open = open_scopes
        self._hard_only = hard_only
        self._grace_s = grace_s
        self._sent = 0
        self._timer: asyncio.Handle | None = None
        self.cancelled_caught: bool = False
        """Whether the body was left early because of an interrupt."""

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelled_before = task.cancelling()
        self._open[self] = None
        if self._flag.requested:
            self.hear()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        del self._open[self]
        if self._timer is not None:
            self._timer.cancel()
        if not self._sent:
            return False
        left = 0
        for _ in range(self._sent):
            left = self._task.uncancel()
        is_cancelled = kind is not None and issubclass(kind, asyncio.CancelledError)
        self.cancelled_caught = is_cancelled and left <= self._cancelled_before
        return self.cancelled_caught

    def hear(self) -> None:
        """An interrupt was asked for, or became a hard one."""
        if self._timer is not None or (self._hard_only and not self._flag.hard):
            return
        loop = asyncio.get_running_loop()
        if self._grace_s:
            self._timer = loop.call_later(self._grace_s, self._cancel)
        else:
            self._timer = loop.call_soon(self._cancel)

    def _cancel(self) -> None:
        self._sent += 1
        self._task.cancel()
        self._timer = asyncio.get_running_loop().call_later(AGAIN_S, self._cancel)
