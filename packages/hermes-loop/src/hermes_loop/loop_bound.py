"""What an agent has that belongs to one event loop."""

from __future__ import annotations

import asyncio

__all__ = ["LoopBound"]


class LoopBound:
    """The locks of an agent in one event loop, and whether its provider and tools are open there."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.turns: asyncio.Lock = asyncio.Lock()
        self.opening: asyncio.Lock = asyncio.Lock()
        self.opened = False
