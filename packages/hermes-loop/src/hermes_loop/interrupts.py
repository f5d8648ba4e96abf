"""How a running turn is told to stop, and how its waits hear of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

import anyio

from hermes_messages.protocols import TurnExitReason

__all__ = ["InterruptFlag"]


class InterruptFlag:
    """One turn's wish to stop. A new one is made for every turn, so a late interrupt reaches no other turn.

    A soft interrupt ends model calls and waits, and asks tools to stop. A hard one (the lease was lost) also
    cancels tools that are running. Call it from the event loop's own thread.
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._hard = False
        self._reason: TurnExitReason = "interrupted"
        self._text: str | None = None
        self._scopes: dict[anyio.CancelScope, tuple[bool, float]] = {}
        self._listeners: list[Callable[[], None]] = []

    @property
    def requested(self) -> bool:
        """Whether any interrupt was asked for."""
        return self._event.is_set()

    @property
    def hard(self) -> bool:
        """Whether a hard interrupt was asked for."""
        return self._hard

    @property
    def reason(self) -> TurnExitReason:
        """What the turn ends with: what the first request said."""
        return self._reason

    @property
    def text(self) -> str | None:
        """Why, for a person; None where the reason says it all."""
        return self._text

    def request(
        self, *, hard: bool = False, reason: TurnExitReason = "interrupted", text: str | None = None
    ) -> None:
        """Ask the turn to stop. Idempotent; a soft request may become a hard one."""
        if not self.requested:
            self._reason, self._text = reason, text
        self._hard = self._hard or hard
        self._event.set()
        for scope, (hard_only, grace_s) in tuple(self._scopes.items()):
            if self._hard or not hard_only:
                _end(scope, grace_s)
        for listener in self._listeners:
            asyncio.get_running_loop().call_soon(listener)
        self._listeners.clear()

    async def wait(self) -> None:
        """Return once an interrupt is asked for."""
        await self._event.wait()

    def on_request(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have `listener` called, once, soon after an interrupt is asked for; what takes that back."""
        if self.requested:
            asyncio.get_running_loop().call_soon(listener)
            return lambda: None
        self._listeners.append(listener)
        return lambda: self._forget(listener)

    def _forget(self, listener: Callable[[], None]) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    @contextmanager
    def time_limit(self, seconds: float | None) -> Iterator[None]:
        """Interrupt the turn when the body runs longer than that; None is no limit."""
        if seconds is None:
            yield
            return
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
        return InterruptScope(self, hard_only, grace_s)


class InterruptScope:
    """See `InterruptFlag.scope`."""

    __slots__ = ("_flag", "_grace_s", "_hard_only", "_scope")

    def __init__(self, flag: InterruptFlag, hard_only: bool, grace_s: float) -> None:
        self._flag = flag
        self._hard_only = hard_only
        self._grace_s = grace_s
        self._scope = anyio.CancelScope()

    def __enter__(self) -> anyio.CancelScope:
        scope, flag = self._scope, self._flag
        scope.__enter__()
        flag._scopes[scope] = (self._hard_only, self._grace_s)  # noqa: SLF001 - two halves of one thing
        if flag.hard or (flag.requested and not self._hard_only):
            _end(scope, self._grace_s)
        return scope

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        self._flag._scopes.pop(self._scope, None)  # noqa: SLF001 - two halves of one thing
        return bool(self._scope.__exit__(kind, error, traceback))


def _end(scope: anyio.CancelScope, grace_s: float) -> None:
    if grace_s:
        scope.deadline = min(scope.deadline, asyncio.get_running_loop().time() + grace_s)
    else:
        scope.cancel()
