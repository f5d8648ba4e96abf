"""The path of a call to its tool, as ordered middleware.

A middleware is `async def __call__(self, call, next)`: it may look at the call, run it with
`await next(call)` (with other arguments, if it likes), change what came back, or answer without running
anything. The order, the first being the outermost:

    OutputLimits     cuts what the model is shown; keeps the full text in a file
    RepeatGuard      refuses a call that failed several times in a row
    Redaction        hides credentials, makes invisible text harmless
    StartCallback    tells the host that the tool starts
    ...              the user's own
    (the tool)       its exceptions, timeout and interrupt are outcomes by the time they reach the path
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from hermes_messages import JsonObject, ToolCall, ToolStatus
from hermes_messages.hygiene import clean_text
from hermes_messages.protocols import Tool
from hermes_tools.context import CallContext
from hermes_tools.output_limits import RoundBudget, cut_middle
from hermes_tools.secrets import SecretMasker

__all__ = [
    "Handler",
    "Invocation",
    "Middleware",
    "Outcome",
    "OutputLimits",
    "Redaction",
    "RepeatGuard",
    "StartCallback",
    "compose",
]

logger = logging.getLogger(__name__)


class Outcome(msgspec.Struct, frozen=True):
    """What a call came to: the text for the model, and how it ended."""

    text: str
    status: ToolStatus = "ok"


class Invocation(msgspec.Struct, frozen=True):
    """A call whose tool is known and whose arguments fit.

    `position` counts the calls of the round from 0; `output_limit` is the tool's own, in characters.
    """

    position: int
    call: ToolCall
    tool: Tool
    arguments: JsonObject
    context: CallContext
    budget: RoundBudget
    output_limit: int | None = None


Handler = Callable[[Invocation], Awaitable[Outcome]]


class Middleware(Protocol):
    """One station of the path."""

    async def __call__(self, call: Invocation, next: Handler, /) -> Outcome:  # noqa: A002 - the name users know
        """Answer `call`, as a rule with `await next(call)`. An exception becomes an error result."""
        ...


def compose(path: Sequence[Middleware], innermost: Handler) -> Handler:
    """One handler of a path whose first station is the outermost."""
    handler = innermost
    for station in reversed(path):
        handler = _bound(station, handler)
    return handler


def _bound(station: Middleware, following: Handler) -> Handler:
    def run(call: Invocation) -> Awaitable[Outcome]:
        return station(call, following)

    return run


class OutputLimits:
    """Cuts results to the tool's limit and to the call's share of the round, in characters.

    The full text goes to a file of the task, which `read_file` can page through.
    """

    FLOOR = 400

    def __init__(self, result_limit: int) -> None:
        self._result_limit = result_limit

    async def __call__(self, call: Invocation, following: Handler, /) -> Outcome:
        """See `Middleware`."""
        return await self.cut(call, await following(call))

    async def cut(self, call: Invocation, outcome: Outcome) -> Outcome:
        """`outcome` within the limits of `call`."""
        limit = min(call.output_limit or self._result_limit, call.budget.share())
        text = outcome.text
        if len(text) > limit:
            note = await self._spill(call, text)
            outcome = Outcome(cut_middle(text, limit, note), outcome.status)
        call.budget.take(min(len(text), limit))
        return outcome

    @staticmethod
    async def _spill(call: Invocation, text: str) -> str:
        try:
            async with await call.context.resources.new_file(call.tool.spec.name) as file:
                await file.write(text.encode("utf-8", errors="replace"))
        except OSError as error:
            logger.warning("a long result could not be kept in a file: %s", error)
            return "[... {left_out} characters left out; they could not be kept ...]"
        path = file.path.replace("{", "{{").replace("}", "}}")
        return f"[... {{left_out}} characters left out; all of it is in {path} ...]"


class RepeatGuard:
    """Refuses a call once the same one (tool and arguments) has failed `limit` times in a row.

    Any call that succeeds starts the count again. One guard serves one executor; `reset` begins a turn.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._failures: dict[tuple[str, str], int] = {}

    def reset(self) -> None:
        """Forget all failures."""
        self._failures.clear()

    def refusal(self, call: ToolCall) -> Outcome | None:
        """The outcome of a call that may not be tried again, else None."""
        failures = self._failures.get((call.name, call.arguments), 0)
        if failures < self._limit:
            return None
        return Outcome(
            f"Error: this call failed {failures} times in a row with the same arguments and was not run "
            "again. Do something else, or answer with what you have.",
            "error",
        )

    def note(self, call: ToolCall, outcome: Outcome) -> None:
        """Count `outcome`."""
        if outcome.status == "ok":
            self._failures.clear()
        elif outcome.status in ("error", "timed_out"):
            key = (call.name, call.arguments)
            self._failures[key] = self._failures.get(key, 0) + 1

    async def __call__(self, call: Invocation, following: Handler, /) -> Outcome:
        """See `Middleware`."""
        refused = self.refusal(call.call)
        if refused is not None:
            return refused
        outcome = await following(call)
        self.note(call.call, outcome)
        return outcome


class Redaction:
    """Hides the credentials that `masker` knows and makes invisible text harmless."""

    def __init__(self, masker: SecretMasker) -> None:
        self._masker = masker

    async def __call__(self, call: Invocation, following: Handler, /) -> Outcome:
        """See `Middleware`."""
        return self.redact(await following(call))

    def redact(self, outcome: Outcome) -> Outcome:
        """`outcome` with its text cleaned."""
        text = self._masker.mask(clean_text(outcome.text))
        return outcome if text is outcome.text else Outcome(text, outcome.status)


class StartCallback:
    """Calls the round's `tool_start` before the tool runs. A callback that fails is logged, no more."""

    async def __call__(self, call: Invocation, following: Handler, /) -> Outcome:
        """See `Middleware`."""
        callback = call.context.round.tool_start
        if callback is not None:
            await call_host(lambda: callback(call.call), "tool_start")
        return await following(call)


async def call_host(callback: Callable[[], Awaitable[None] | None], name: str) -> None:
    """Call a host's callback, awaiting it if it is async. Its exceptions are logged and go no further."""
    try:
        waiting = callback()
        if inspect.isawaitable(waiting):
            await waiting
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        logger.exception("the callback %s awaited something that was cancelled", name)
    except Exception:  # a host's display must not decide what becomes of a tool's result
        logger.exception("the callback %s failed", name)
