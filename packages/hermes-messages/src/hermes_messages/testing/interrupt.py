"""Signals that a test gives by hand."""

from __future__ import annotations

import asyncio

__all__ = ["InterruptFlag", "StepGate"]


class InterruptFlag:
    """Satisfies `InterruptSignal`. It may be waited for in one event loop after another."""

    def __init__(self) -> None:
        self._requested = False
        self._waiters: set[asyncio.Future[None]] = set()

    @property
    def requested(self) -> bool:
        """Whether `request` was called."""
        return self._requested

    def request(self) -> None:
        """Interrupt: everything that waits goes on."""
        self._requested = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def clear(self) -> None:
        """Take the request back."""
        self._requested = False

    async def wait(self) -> None:
        """Return once an interrupt is asked for."""
        if self._requested:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)


class StepGate:
    """Lets what passes through it go on one step at a time, so that a test needs no sleeping.

    >>> async def example(gate: StepGate) -> None:
    ...     await gate.reached()  # someone waits at the gate
    ...     gate.let_pass(2)  # two steps
    ...     gate.open()  # and everything from now on
    """

    def __init__(self) -> None:
        self._passes = 0
        self._open = False
        self._waiting: list[asyncio.Future[None]] = []
        self._watchers: list[asyncio.Future[None]] = []

    @property
    def waiting(self) -> int:
        """How many wait at the gate."""
        return sum(not waiter.done() for waiter in self._waiting)

    def let_pass(self, steps: int = 1) -> None:
        """Let `steps` steps through, now or when they come."""
        self._passes += steps
        self._release()

    def open(self) -> None:
        """Let everything through from now on."""
        self._open = True
        self._release()

    async def reached(self) -> None:
        """Return once someone waits at the gate."""
        while not self.waiting:
            watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._watchers.append(watcher)
            await watcher

    async def __call__(self) -> None:
        """Pass through; waits until this step is let through."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._release()
        if not waiter.done():
            watchers, self._watchers = self._watchers, []
            for watcher in watchers:
                if not watcher.done():
                    watcher.set_result(None)
        try:
            await waiter
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def _release(self) -> None:
        while self._waiting and (self._open or self._passes):
            waiter = self._waiting.pop(0)
            if not waiter.done():
                self._passes -= not self._open
                waiter.set_result(None)
