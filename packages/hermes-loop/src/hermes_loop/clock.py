"""Time, as a value that tests replace."""

from __future__ import annotations

import time
from typing import Protocol

import anyio

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """Where the loop gets its time from. Seconds."""

    def time(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds of a clock that is never set."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; a cancellation ends it."""
        ...


class SystemClock:
    """The machine's clock."""

    def time(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds of a clock that is never set."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait; a cancellation ends it."""
        await anyio.sleep(seconds)
