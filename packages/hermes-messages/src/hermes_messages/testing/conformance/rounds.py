"""What the checks of executors have in common: a round that remembers, and what holds for every round."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

from hermes_messages.messages import ToolCall, ToolMessage
from hermes_messages.parts import content_text
from hermes_messages.protocols.tools import ApprovalCallback, RoundContext, RoundOutcome, TurnContext
from hermes_messages.testing.conformance.report import UnmetError, expect
from hermes_messages.testing.interrupt import InterruptFlag

__all__ = [
    "OnResultError",
    "RoundUnderCheck",
    "check_outcome",
    "no_new_tasks",
    "statuses_of",
    "texts_of",
    "tool_call",
    "turn_context",
]


class RoundUnderCheck:
    """A round context that remembers what was handed to `on_result`."""

    def __init__(self, *, fails_at: int | None = None, approval: ApprovalCallback | None = None) -> None:
        self.interrupt: InterruptFlag = InterruptFlag()
        self.told: list[tuple[int, ToolMessage]] = []
        self.returned = False
        self.late: int = 0
        self._fails_at = fails_at
        self._watchers: list[tuple[int, asyncio.Future[None]]] = []
        self.context: RoundContext = RoundContext(
            session_id="check",
            task_id="check-task",
            turn_id="check-turn",
            cwd=os.sep,
            interrupt=self.interrupt,
            on_result=self._on_result,
            approval=approval,
        )

    async def _on_result(self, position: int, result: ToolMessage) -> None:
        self.late += self.returned
        self.told.append((position, result))
        for wanted, watcher in self._watchers:
            if len(self.told) >= wanted and not watcher.done():
                watcher.set_result(None)
        await asyncio.sleep(0)
        if position == self._fails_at:
            raise OnResultError

    async def results_told(self, count: int) -> None:
        """Return once `on_result` was called `count` times."""
        if len(self.told) < count:
            watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._watchers.append((count, watcher))
            await watcher


class OnResultError(Exception):
    """What the `on_result` of a check raises."""


def turn_context() -> TurnContext:
    """Who asks in a check."""
    return TurnContext(session_id="check", task_id="check-task", turn_id="check-turn", cwd=os.sep)


def tool_call(call_id: str, name: str) -> ToolCall:
    """A call without arguments."""
    return ToolCall(call_id, name, "{}")


def texts_of(outcome: RoundOutcome) -> list[str]:
    """The texts of the results, "" where there is none."""
    return [content_text(result.content) if result else "" for result in outcome.results]


def statuses_of(outcome: RoundOutcome) -> list[str]:
    """The statuses of the results, `pending` where there is none."""
    return [result.status if result else "pending" for result in outcome.results]


def check_outcome(calls: Sequence[ToolCall], outcome: RoundOutcome, round_: RoundUnderCheck) -> None:
    """What holds for every round that ended: one result per call, in order, each told once."""
    expect(len(outcome.results) == len(calls), f"{len(outcome.results)} results for {len(calls)} calls")
    expect(not outcome.pending, "calls were left pending")
    for call, result in zip(calls, outcome.results, strict=True):
        if result is None:
            raise UnmetError(f"call {call.id!r} has no result")
        expect(result.tool_call_id == call.id, f"call {call.id!r} got the result of {result.tool_call_id!r}")
        expect(result.name in (None, call.name), f"call {call.id!r} got a result of tool {result.name!r}")
    told = dict(round_.told)
    expect(
        len(round_.told) == len(calls),
        f"on_result was called {len(round_.told)} times for {len(calls)} calls",
    )
    expect(len(told) == len(calls), "on_result was called twice for one call")
    for position, result in enumerate(outcome.results):
        expect(told[position] == result, f"on_result was told another result for call {position}")


async def no_new_tasks(before: set[asyncio.Task[Any]], after: str) -> None:
    """What is about to end gets some turns of the event loop to do so."""
    for _ in range(50):
        left = [task for task in asyncio.all_tasks() - before if not task.done()]
        if not left:
            return
        await asyncio.sleep(0)
    raise UnmetError(f"{len(left)} tasks were left after {after}; the first is {left[0]!r:.200}")
