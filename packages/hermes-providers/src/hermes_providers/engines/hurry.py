"""Work that goes on at once where it would only give others a turn.

httpcore's locks go through the event loop each time that they are taken, free or not: five times for a
request. A request, which waits for its host anyway, starves nobody when it does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, Final, TypeVar

__all__ = ["begin", "hurried"]

T = TypeVar("T")

_TURNS: Final = 16
"""So many turns in a row are kept; then one is given, for there is code that waits in this way."""


@coroutine
def hurried(work: Coroutine[Any, Any, T]) -> Generator[object, object, T]:
    """What `work` gives, awaited in the same task."""
    kept = 0
    failure: BaseException | None = None
    while True:
        try:
            waited_for = work.send(None) if failure is None else work.throw(failure)
        except StopIteration as end:
            value: T = end.value
            return value
        failure = None
        if waited_for is None and kept < _TURNS:
            kept += 1
            continue
        kept = 0
        try:
            yield waited_for
        except BaseException as error:  # noqa: BLE001 - it is the work's, whatever it is
            failure = error


def begin(work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
    """Do `work` now, up to where it has to wait; the task in which it goes on, None when it is done.

    The task that runs now does the beginning. So where `work` first waits it must not hold anything that
    belongs to a task: a lock that knows its owner, a scope.
    """
    steps = hurried(work)
    try:
        waited_for = steps.send(None)
    except StopIteration:
        return None
    return asyncio.create_task(_rest(steps, waited_for))


async def _rest(steps: Coroutine[Any, Any, None], waited_for: object) -> None:
    await _resumed(steps, waited_for)


@coroutine
def _resumed(steps: Coroutine[Any, Any, None], waited_for: object) -> Generator[object, object, None]:
    failure: BaseException | None = None
    while True:
        try:
            yield waited_for
        except BaseException as error:  # noqa: BLE001 - it is the work's, whatever it is
            failure = error
        try:
            waited_for = steps.send(None) if failure is None else steps.throw(failure)
        except StopIteration:
            return
        failure = None
