"""The smallest executor that keeps every promise of `ToolExecutor`, for tests without hermes-tools."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from hermes_messages.argument_text import parse_arguments_tolerantly
from hermes_messages.errors import ArgumentsError, ConfigurationError
from hermes_messages.messages import ToolCall, ToolMessage, ToolStatus
from hermes_messages.protocols.tools import (
    PendingApproval,
    RoundContext,
    RoundOutcome,
    Tool,
    ToolSnapshot,
    TurnContext,
)
from hermes_messages.testing.tools import FunctionTool, ToolFunction

__all__ = ["SimpleExecutor"]

logger = logging.getLogger(__name__)

_NOT_STARTED = "not started: the turn was interrupted before this call began"
_INTERRUPTED = "interrupted: the turn was interrupted while this call was running; it may have had effects"


class _Context:
    """Satisfies `ToolCallContext`."""

    def __init__(self, call: ToolCall, round_: RoundContext) -> None:
        self._call = call
        self._round = round_

    @property
    def call(self) -> ToolCall:
        return self._call

    @property
    def round(self) -> RoundContext:
        return self._round

    async def progress(self, text: str) -> None:
        await _tell(self._round.tool_progress, self._call, text)


class SimpleExecutor:
    """Satisfies `ToolExecutor`. `tools` are async functions by name, or objects of the `Tool` Protocol.

    Neighbouring `parallel` calls run together, all others alone, in order. A call of a tool named in
    `needs_approval` asks the round's `approval` callback, and is left pending when there is none.
    Not built: time limits, output limits, schema checks. A tool that ignores its cancellation is waited for.

    A test can look at `rounds` (the calls of each round), `released` (task ids), `open_count`, `close_count`
    and `turns` (the contexts given to `refresh`).
    """

    def __init__(
        self,
        tools: Mapping[str, ToolFunction] | Iterable[Tool] = (),
        *,
        needs_approval: Iterable[str] = (),
        guidance: str = "",
    ) -> None:
        """Raises `ToolDeclarationError` for a function that is not async, `ConfigurationError` for two tools
        of one name."""
        objects = (
            [FunctionTool(name, function) for name, function in tools.items()]
            if isinstance(tools, Mapping)
            else list(tools)
        )
        self._tools: dict[str, Tool] = {}
        for tool in objects:
            if tool.spec.name in self._tools:
                raise ConfigurationError(f"two tools are named {tool.spec.name!r}; rename one")
            self._tools[tool.spec.name] = tool
        self._needs_approval = frozenset(needs_approval)
        self._guidance = guidance
        self.rounds: list[tuple[ToolCall, ...]] = []
        self.turns: list[TurnContext] = []
        self.released: list[str] = []
        self.open_count = 0
        self.close_count = 0

    async def open(self) -> None:
        """Make ready; idempotent."""
        self.open_count += 1

    async def refresh(self, context: TurnContext) -> ToolSnapshot:
        """The tools, in the order in which they were given."""
        self.turns.append(context)
        return ToolSnapshot(tools=tuple(tool.spec for tool in self._tools.values()), guidance=self._guidance)

    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        """Run `calls`; see `ToolExecutor.execute`."""
        self.rounds.append(tuple(calls))
        return await _Round(self, calls, context).run()

    async def release(self, task_id: str) -> None:
        """Nothing outlives a call here; the id is remembered."""
        self.released.append(task_id)

    async def close(self) -> None:
        """Close; idempotent."""
        self.close_count += 1

    def find(self, name: str) -> Tool | None:
        """The tool of that name, or None."""
        return self._tools.get(name)

    def asks_first(self, name: str) -> bool:
        """Whether a call of that tool needs an approval."""
        return name in self._needs_approval

    def may_overlap(self, call: ToolCall) -> bool:
        """Whether `call` may run beside its neighbours."""
        tool = self._tools.get(call.name)
        return tool is None or (tool.scheduling == "parallel" and not self.asks_first(call.name))

    def unknown(self, name: str) -> str:
        """What the model is told about a tool that does not exist."""
        return f"error: there is no tool {name!r}; the tools are: {', '.join(self._tools) or 'none'}"


class _Round:
    """One round of calls."""

    def __init__(self, executor: SimpleExecutor, calls: Sequence[ToolCall], context: RoundContext) -> None:
        self._executor = executor
        self._calls = calls
        self._context = context
        self._results: list[ToolMessage | None] = [None] * len(calls)
        self._pending: list[PendingApproval] = []

    async def run(self) -> RoundOutcome:
        interrupt = asyncio.ensure_future(self._context.interrupt.wait())
        try:
            numbered = list(enumerate(self._calls))
            for together, group in itertools.groupby(
                numbered, key=lambda item: self._executor.may_overlap(item[1])
            ):
                positions = [position for position, _ in group]
                for batch in [positions] if together else [[position] for position in positions]:
                    await self._run_batch(batch, interrupt)
        finally:
            await _cancel_and_wait(interrupt)
        return RoundOutcome(results=tuple(self._results), pending=tuple(self._pending))

    async def _run_batch(self, positions: list[int], interrupt: asyncio.Future[None]) -> None:
        tasks = [asyncio.ensure_future(self._run_one(position, interrupt)) for position in positions]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            await _cancel_and_wait(*tasks)
        failed = [task.exception() for task in tasks if not task.cancelled()]
        for error in filter(None, failed):
            raise error
        if len(failed) < len(tasks):
            raise asyncio.CancelledError  # a callback of the round raised it

    async def _run_one(self, position: int, interrupt: asyncio.Future[None]) -> None:
        call = self._calls[position]
        result = await self._settle(position, call, interrupt)
        if result is None:
            return
        await self._context.on_result(position, result)
        self._results[position] = result
        await _tell(self._context.tool_complete, call, result)

    async def _settle(
        self, position: int, call: ToolCall, interrupt: asyncio.Future[None]
    ) -> ToolMessage | None:
        """The result of `call`; None when it waits for an approval."""
        if self._interrupted():
            return _result(call, _NOT_STARTED, "not_started")
        tool = self._executor.find(call.name)
        if tool is None:
            return _result(call, self._executor.unknown(call.name), "error")
        try:
            arguments = parse_arguments_tolerantly(call.arguments).arguments
        except ArgumentsError as error:
            return _result(call, f"error: {error}", "error")
        if self._executor.asks_first(call.name):
            refused = await self._ask(position, call, interrupt)
            if refused is not None or self._pending_at(position):
                return refused
        await _tell(self._context.tool_start, call)
        if self._interrupted():
            return _result(call, _NOT_STARTED, "not_started")
        running = asyncio.ensure_future(tool.run(arguments, _Context(call, self._context)))
        stopped = await _stop_on_interrupt(running, interrupt)
        return _result_of(call, running, interrupted=stopped)

    async def _ask(
        self, position: int, call: ToolCall, interrupt: asyncio.Future[None]
    ) -> ToolMessage | None:
        """The result of a call that may not run; None for one that may, or that is left pending."""
        reason = f"{call.name} needs an approval"
        if self._context.approval is None:
            self._pending.append(PendingApproval(call=call, position=position, reason=reason))
            return None
        asking = asyncio.ensure_future(self._context.approval(call, reason))
        stopped = await _stop_on_interrupt(asking, interrupt)
        if asking.cancelled() or asking.exception() is not None:
            if stopped:
                return _result(call, _NOT_STARTED, "not_started")
            logger.warning("the approval callback failed; the call counts as denied")
            return _result(call, "denied: nobody could be asked, so this call did not run", "denied")
        if asking.result():
            return None
        return _result(call, "denied: this call was not approved and did not run", "denied")

    def _interrupted(self) -> bool:
        return self._context.interrupt.requested

    def _pending_at(self, position: int) -> bool:
        return any(waiting.position == position for waiting in self._pending)


def _result_of(call: ToolCall, running: asyncio.Future[str], *, interrupted: bool) -> ToolMessage:
    if running.cancelled():
        if interrupted:
            return _result(call, _INTERRUPTED, "interrupted")
        return _result(call, "error: the tool cancelled itself", "error")
    failed = running.exception()
    if failed is not None:
        return _result(call, f"error: {type(failed).__name__}: {failed}", "error")
    value: object = running.result()
    if not isinstance(value, str):
        return _result(call, f"error: the tool returned {type(value).__name__} instead of text", "error")
    return _result(call, value, "ok")


def _result(call: ToolCall, text: str, status: ToolStatus) -> ToolMessage:
    return ToolMessage(call.id, text, name=call.name, status=status)


async def _stop_on_interrupt(running: asyncio.Future[Any], interrupt: asyncio.Future[None]) -> bool:
    """Wait for `running`, or for the interrupt and then stop it; whether it had to be stopped."""
    try:
        await asyncio.wait({running, interrupt}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped = not running.done()
        await _cancel_and_wait(running)
    return stopped


async def _cancel_and_wait(*futures: asyncio.Future[Any]) -> None:
    """Cancel what is not done and wait for all, also while being cancelled; a cancellation is passed on."""
    for future in futures:
        future.cancel()
    cancelled: asyncio.CancelledError | None = None
    while waiting := [future for future in futures if not future.done()]:
        try:
            await asyncio.wait(waiting)
        except asyncio.CancelledError as error:
            cancelled = error
    for future in futures:
        if not future.cancelled():
            future.exception()  # seen here, or the loop reports it as never retrieved
    if cancelled is not None:
        raise cancelled


async def _tell(callback: Callable[..., Awaitable[None] | None] | None, *values: object) -> None:
    """Tell a host what happens. Its failure must not cost a result."""
    if callback is None:
        return
    try:
        told = callback(*values)
        if inspect.isawaitable(told):
            await told
    except Exception:
        logger.warning("a tool callback failed", exc_info=True)
