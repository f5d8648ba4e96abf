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

    async def sleep(self, seconds: float) -> None:
        """Wait; a cancellation ends it."""
        ...


class SystemClock:
    """The machine's clock."""

    def time(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Wait; a cancellation ends it."""
        await anyio.sleep(seconds)
