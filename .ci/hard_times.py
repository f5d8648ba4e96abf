"""What befalls clean-up, for tests of what sees it through: a standstill, deafness, an opening that lasts."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

__all__ = ["cancel_while_opening", "deaf", "outlasts_a_standstill", "stand_still"]

LIMIT_S = 60


async def stand_still(seconds: float = 3600.0) -> None:
    """As if the process stood still so long: the clock of the loop has gone on, and what was due was done."""
    loop = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + seconds  # type: ignore[method-assign]
    for _ in range(10):
        await asyncio.sleep(0)


async def outlasts_a_standstill(
    see_through: Callable[[Callable[[], Coroutine[Any, Any, None]]], Awaitable[None]], *, cancelled: bool
) -> bool:
    """Whether `see_through` lets work be done although the process stands still meanwhile. With `cancelled`
    it is cancelled before that, and must raise so in the end."""
    go_on = asyncio.Event()
    done: list[bool] = []

    async def work() -> None:
        await go_on.wait()
        done.append(True)

    task = asyncio.ensure_future(see_through(work))
    for _ in range(10):
        await asyncio.sleep(0)
    if cancelled:
        task.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    await stand_still()
    go_on.set()
    with pytest.raises(asyncio.CancelledError) if cancelled else nullcontext():
        await task
    return done == [True]


async def deaf(over: asyncio.Event) -> None:
    """Work that hears of no cancellation until it is over."""
    while not over.is_set():
        try:
            await over.wait()
        except asyncio.CancelledError:
            continue


async def cancel_while_opening(path: Path, open_file: Callable[[Path], Awaitable[object]]) -> None:
    """`open_file` is cancelled when the thread has its file, or is about to; the loop does not know yet.
    The file at `path`, which is made for it, must be closed in the end."""
    os.mkfifo(path)
    opening = asyncio.ensure_future(open_file(path))
    writer = await _writer_of(path)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    watched = select.poll()
    watched.register(writer, 0)
    try:
        assert watched.poll(LIMIT_S * 1000), "the end to read from is still open"
    finally:
        os.close(writer)


async def _writer_of(path: Path) -> int:
    """The end to write to, once somebody is opening the other one."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:  # nobody yet
                await asyncio.sleep(0.001)
