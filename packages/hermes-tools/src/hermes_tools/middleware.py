"""The path of a call to its tool, as ordered middleware.

A middleware is `async def __call__(self, call, next)`: it may look at the call, run it with
`await next(call)` (with other arguments, if it likes), change what came back, or answer without running
anything. The stations by name, the first being the outermost:

    budgets      refuses calls beyond the turn's budget; cuts what the model is shown, keeps the full text
    guardrails   warns of a call that failed several times in a row, then refuses it
    redaction    hides credentials, makes invisible text harmless
    approval     allows, asks the host, or denies, as the policy says
    checkpoint   takes a snapshot before a tool that may change files
    callbacks    tells the host that the tool starts
    ...          the user's own
    (the tool)   its exceptions, timeout and interrupt are outcomes by the time they reach the path

A middleware of the user's stands last, unless it is given as `Insert(middleware, before="approval")`. Several
at one place keep the order in which they were given.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from hermes_messages import ConfigurationError, JsonObject, ToolCall, ToolStatus, UnknownNameError
from hermes_messages.approvals import ApprovalDecision
from hermes_messages.protocols import Tool
from hermes_tools.context import CallContext
from hermes_tools.output_limits import RoundBudget

__all__ = [
    "Handler",
    "Insert",
    "Invocation",
    "Middleware",
    "Outcome",
    "Station",
    "call_host",
    "compose",
    "place",
    "run_end_of_path",
]

logger: logging.Logger = logging.getLogger(__name__)


class Outcome(msgspec.Struct, frozen=True):
    """What a call came to: the text for the model, and how it ended.

    `pending` says why the call waits for a decision; such an outcome is no result and its text is not shown.
    """

    text: str
    """What the model reads."""
    status: ToolStatus = "ok"
    """`ok`, or the way in which it failed."""
    pending: str = ""

    def saying(self, text: str) -> Outcome:
        """The same outcome with another text."""
        return Outcome(text, self.status, self.pending)


class Invocation(msgspec.Struct, frozen=True):
    """A call whose tool is known and whose arguments fit.

    `position` counts the calls of the round from 0; `output_limit` is the tool's own, in characters;
    `decision` is what was decided about a call that had been left pending.
    """

    position: int
    call: ToolCall
    """As the model wrote it."""
    tool: Tool
    arguments: JsonObject
    """Read and brought to the types of `schema`."""
    context: CallContext
    """What the tool is given, and more."""
    budget: RoundBudget
    """What the round may still show the model."""
    schema: JsonObject
    """The JSON schema of the tool's parameters."""
    output_limit: int | None = None
    decision: ApprovalDecision | None = None

    def with_arguments(self, arguments: JsonObject) -> Invocation:
        """The same call with other arguments, which are not checked again."""
        return msgspec.structs.replace(self, arguments=arguments)


Handler = Callable[[Invocation], Awaitable[Outcome]]
"""The rest of the path, as a station sees it: awaited with the call, it gives what became of it."""


class Middleware(Protocol):
    """One station of the path."""

    async def __call__(self, call: Invocation, next: Handler, /) -> Outcome:  # noqa: A002 - the name users know
        """Answer `call`, as a rule with `await next(call)`. An exception becomes an error result."""
        ...


class Station(msgspec.Struct, frozen=True):
    """A middleware at its place in the path; those of the user have no name."""

    name: str
    middleware: Callable[[Invocation, Handler], Awaitable[Outcome]]


class Insert(msgspec.Struct, frozen=True):
    """A middleware of the user's and the station that it is to stand `before` or `after`."""

    middleware: Middleware
    """An async `(call, next)`."""
    before: str | None = None
    after: str | None = None


def place(stations: Sequence[Station], own: Sequence[Middleware | Insert]) -> tuple[Station, ...]:
    """The path with the user's middleware in it.

    Raises `UnknownNameError` for a station that does not exist, `ConfigurationError` for an `Insert` that
    names two, and for a middleware that is no async callable.
    """
    if not own:
        return tuple(stations)
    names = [station.name for station in stations]
    before: dict[str, list[Station]] = {name: [] for name in names}
    after: dict[str, list[Station]] = {name: [] for name in names}
    last: list[Station] = []
    for given in own:
        insert = given if isinstance(given, Insert) else Insert(given)
        if not inspect.iscoroutinefunction(
            type(insert.middleware).__call__
        ) and not inspect.iscoroutinefunction(insert.middleware):
            raise ConfigurationError(
                f"middleware {insert.middleware!r} is not async; write `async def __call__(self, call, next)`"
            )
        if insert.before is not None and insert.after is not None:
            raise ConfigurationError(f"{insert!r}: give before= or after=, not both")
        anchor = insert.before if insert.before is not None else insert.after
        if anchor is not None and anchor not in before:
            raise UnknownNameError("middleware station", anchor, names)
        station = Station("", insert.middleware)
        if anchor is None:
            last.append(station)
        else:
            (before if insert.before is not None else after)[anchor].append(station)
    path = [part for station in stations for part in (*before[station.name], station, *after[station.name])]
    return (*path, *last)


def compose(path: Sequence[Station], innermost: Handler) -> Handler:
    """One handler of a path whose first station is the outermost."""
    handler = innermost
    for station in reversed(path):
        handler = _Bound(station.middleware, handler)
    return handler


def run_end_of_path(call: Invocation) -> Awaitable[Outcome]:
    """The innermost handler: what the round that the call belongs to does at the end of the path."""
    return call.context.end_of_path(call)


class _Bound:
    """A station with what follows it. Each executor has its own; as a function it would be four objects."""

    __slots__ = ("_following", "_middleware")

    def __init__(
        self, middleware: Callable[[Invocation, Handler], Awaitable[Outcome]], following: Handler
    ) -> None:
        self._middleware = middleware
        self._following = following

    def __call__(self, call: Invocation) -> Awaitable[Outcome]:
        return self._middleware(call, self._following)


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
