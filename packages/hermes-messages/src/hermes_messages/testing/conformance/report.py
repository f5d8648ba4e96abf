"""Runs the checks of a Protocol one by one, and tells all that failed."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from msgspec import Struct

from hermes_messages.errors import HermesError

__all__ = [
    "CANCEL_POINTS",
    "BrokenPromise",
    "ConformanceError",
    "UnmetError",
    "cancel_after",
    "expect",
    "finish_within",
    "made",
    "run_checks",
]

T = TypeVar("T")

CANCEL_POINTS = (*range(12), 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024)
"""After how many turns of the event loop a check cancels what it started."""


class BrokenPromise(Struct, frozen=True):
    """A `check` that failed, by its name; its `explanation` says what was expected and found."""

    check: str
    explanation: str


class ConformanceError(HermesError):
    """An implementation breaks promises of `protocol`, a name; `broken` lists all that were found."""

    def __init__(self, protocol: str, broken: Sequence[BrokenPromise]) -> None:
        self.protocol = protocol
        self.broken: tuple[BrokenPromise, ...] = tuple(broken)
        lines = "".join(f"\n- {promise.check}: {promise.explanation}" for promise in self.broken)
        super().__init__(f"{len(self.broken)} promises of {protocol} are broken:{lines}")


class UnmetError(HermesError):
    """One expectation that was not met."""


def expect(condition: bool, explanation: str) -> None:
    """Raise `UnmetError` unless `condition` holds."""
    if not condition:
        raise UnmetError(explanation)


async def made(what: T | Awaitable[T]) -> T:
    """What a factory returned, awaited if it is to be awaited."""
    return await what if inspect.isawaitable(what) else what


async def finish_within(work: Awaitable[T], limit_s: float, what: str) -> T:
    """The result of `work`; `UnmetError` when it takes longer than `limit_s` seconds."""
    limit = asyncio.timeout(limit_s)
    try:
        async with limit:
            return await work
    except TimeoutError:
        if not limit.expired():
            raise
        raise UnmetError(f"{what} did not come to an end within {limit_s:g} s") from None


async def cancel_after(work: Awaitable[object], turns: int, limit_s: float, *, times: int = 1) -> bool:
    """Start `work`, cancel it after `turns` turns of the event loop, and wait for its end.

    Whether it ended with the cancellation; False when it had finished before. Other errors are raised.
    """
    task = asyncio.ensure_future(work)
    for _ in range(turns):
        await asyncio.sleep(0)
        if task.done():
            break
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    await finish_within(asyncio.wait({task}), limit_s, "what was cancelled")
    if task.cancelled():
        return True
    error = task.exception()
    if error is not None:
        raise error
    return False


async def run_checks(protocol: str, checks: object, limit_s: float) -> None:
    """Run every public async method of `checks`, each at most `limit_s` seconds.

    Raises `ConformanceError` if any failed.
    """
    broken: list[BrokenPromise] = []
    for name, member in vars(type(checks)).items():
        if not name.startswith("_") and inspect.iscoroutinefunction(member):
            explanation = await _why_failed(member(checks), limit_s)
            if explanation:
                broken.append(BrokenPromise(name, explanation))
    if broken:
        raise ConformanceError(protocol, broken)


async def _why_failed(check: Awaitable[None], limit_s: float) -> str:
    """Why `check` failed, or "". It runs in a task of its own: what it checks may cancel that by mistake."""
    task = asyncio.ensure_future(_run(check, limit_s))
    try:
        await asyncio.wait({task})
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    return "it was cancelled, which nobody asked for" if task.cancelled() else await task


async def _run(check: Awaitable[None], limit_s: float) -> str:
    try:
        await finish_within(check, limit_s, "the check")
    except UnmetError as unmet:
        return str(unmet)
    except Exception as error:  # noqa: BLE001 - whatever it raised is what the report tells
        return f"it raised {type(error).__name__}: {error}"
    return ""
