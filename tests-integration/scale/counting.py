"""What an event makes the interpreter do, by count: no load on the machine changes it."""

from __future__ import annotations

import asyncio.base_events
import asyncio.events
import asyncio.selector_events
import gc
import selectors
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["FEW", "MANY", "Counts", "counted", "same"]

FEW, MANY = 10, 1_000

_LOOP_ITSELF = frozenset(
    module.__file__ for module in (asyncio.base_events, asyncio.events, asyncio.selector_events, selectors)
)
"""How often the loop turns is a matter of time, and its heap of timers compares by the logarithm."""

Counts = dict[str, int]
"""Bytecodes by event."""


@contextmanager
def counted(counts: Counts, event: str) -> Iterator[None]:
    """Add the bytecodes of this thread, without those of the event loop itself; the least of several counts,
    since what follows by time (a timer of somebody else, a pause) only adds."""
    bytecodes = 0

    def trace(frame: FrameType, what: str, _argument: Any) -> Any:
        nonlocal bytecodes
        if frame.f_code.co_filename in _LOOP_ITSELF:
            return None
        frame.f_trace_opcodes = True
        bytecodes += what == "opcode"
        return trace

    before = sys.gettrace()
    gc.disable()
    sys._getframe().f_trace_opcodes = True  # else Python 3.12 counts nothing the first time
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
        gc.enable()
    counts[event] = min(bytecodes, counts.get(event, bytecodes))


def same(few: Counts, many: Counts, number: int = MANY) -> dict[str, tuple[int, int]]:
    """The events that cost more where there are many (`number`): half a bytecode for each is too much."""
    bound = (number - FEW) // 2
    return {name: (few[name], many[name]) for name in many if many[name] > few[name] + bound}
