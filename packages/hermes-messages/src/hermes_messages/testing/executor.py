"""The smallest executor that keeps every promise of `ToolExecutor`, for tests without hermes-tools."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from hermes_messages.abilities import supports
from hermes_messages.approvals import (
    ApprovalAnswer,
    ApprovalDecision,
    Approve,
    Deny,
    Later,
    PendingApproval,
    match_decisions,
    read_decision,
)
from hermes_messages.argument_text import parse_arguments_tolerantly
from hermes_messages.errors import ArgumentsError, ConfigurationError
from hermes_messages.messages import ToolCall, ToolMessage, ToolStatus
from hermes_messages.protocols.tools import (
    RoundContext,
    RoundOutcome,
    SupportsIdempotence,
    Tool,
    ToolSnapshot,
    TurnContext,
)
from hermes_messages.testing.tools import FunctionTool, ToolFunction

__all__ = ["SimpleExecutor"]

logger: logging.Logger = logging.getLogger(__name__)

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
    """Satisfies `ToolExecutor`, `SupportsDecisions` and `SupportsRepetition`.

    `tools` are async functions by name, or objects of the `Tool` Protocol.
    Neighbouring `parallel` calls run together, all others alone, in order. A call of a tool named in
    `needs_approval` asks the round's `approval` callback, and is denied when there is none.
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
        self.open_count: int = 0
        self.close_count: int = 0

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

    async def resume(
        self,
        calls: Sequence[ToolCall],
        results: Sequence[ToolMessage | None],
        decisions: Mapping[str, ApprovalAnswer],
        context: RoundContext,
    ) -> RoundOutcome:
        """Finish a round; see `SupportsDecisions.resume`."""
        return await _Round(self, calls, context, results, match_decisions(calls, results, decisions)).run()

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

    def may_repeat(self, call: ToolCall) -> bool:
        """Whether the tool of `call` says that it is idempotent."""
        tool: object = self._tools.get(call.name)
        return supports(tool, SupportsIdempotence) and tool.idempotent

    def unknown(self, name: str) -> str:
        """What the model is told about a tool that does not exist."""
        return f"error: there is no tool {name!r}; the tools are: {', '.join(self._tools) or 'none'}"


class _Round:
    """One round of calls; with `decisions` one that is resumed."""

    def __init__(
        self,
        executor: SimpleExecutor,
        calls: Sequence[ToolCall],
        context: RoundContext,
        results: Sequence[ToolMessage | None] | None = None,
        decisions: Mapping[int, ApprovalDecision] | None = None,
    ) -> None:
        self._executor = executor
        self._calls = calls
        self._context = context
        self._results: list[ToolMessage | None] = list(results) if results else [None] * len(calls)
        self._decisions = decisions
        self._pending: dict[int, PendingApproval] = {}

    async def run(self) -> RoundOutcome:
        interrupt = asyncio.ensure_future(self._context.interrupt.wait())
        missing = [item for item in enumerate(self._calls) if self._results[item[0]] is None]
        try:
            for together, group in itertools.groupby(
                missing, key=lambda item: self._executor.may_overlap(item[1])
            ):
                positions = [position for position, _ in group]
                for batch in [positions] if together else [[position] for position in positions]:
                    await self._run_batch(batch, interrupt)
            if self._pending and self._interrupted():
                await self._run_batch(list(self._pending), interrupt)
                self._pending.clear()
        finally:
            await _cancel_and_wait(interrupt)
        pending = tuple(self._pending[position] for position in sorted(self._pending))
        return RoundOutcome(results=tuple(self._results), pending=pending)

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
        resumed = self._decisions is not None
        if resumed and isinstance(self._decided(position), Later):
            self._pending[position] = _pending(position, call)
            return None
        tool = self._executor.find(call.name)
        if tool is None:
            return _result(call, self._executor.unknown(call.name), "error")
        try:
            arguments = parse_arguments_tolerantly(call.arguments).arguments
        except ArgumentsError as error:
            return _result(call, f"error: {error}", "error")
        note = ""
        if resumed or self._executor.asks_first(call.name):
            match self._decided(position) if resumed else await self._ask(call, interrupt):
                case None:
                    return _result(call, _NOT_STARTED, "not_started")
                case Later():
                    self._pending[position] = _pending(position, call)
                    return None
                case Deny(reason=reason):
                    return _result(call, f"denied, this call did not run: {reason or 'no reason'}", "denied")
                case Approve(arguments=str() as changed):
                    try:
                        arguments = parse_arguments_tolerantly(changed).arguments
                    except ArgumentsError as error:
                        return _result(call, f"error: the changed arguments: {error}", "error")
                    note = f"[run with changed arguments: {changed}] "
                case _:
                    pass
        await _tell(self._context.tool_start, call)
        if self._interrupted():
            return _result(call, _NOT_STARTED, "not_started")
        running = asyncio.ensure_future(tool.run(arguments, _Context(call, self._context)))
        stopped = await _stop_on_interrupt(running, interrupt)
        return _result_of(call, running, interrupted=stopped, note=note)

    def _decided(self, position: int) -> ApprovalDecision:
        """What a resumed round was told about a call."""
        return (self._decisions or {}).get(position, Later())

    async def _ask(self, call: ToolCall, interrupt: asyncio.Future[None]) -> ApprovalDecision | None:
        """What the host says about `call`; None when the interrupt came before the answer."""
        if self._context.approval is None:
            return Deny(f"{_why(call)} and there is nobody to ask")
        asking = asyncio.ensure_future(self._context.approval(call, _why(call)))
        if await _stop_on_interrupt(asking, interrupt):
            return None
        if asking.cancelled() or asking.exception() is not None:
            logger.warning("the approval callback failed; the call counts as denied")
            return Deny("nobody could be asked")
        try:
            return read_decision(asking.result())
        except ConfigurationError as error:
            logger.warning("the call counts as denied: %s", error)
            return Deny("nobody could be asked")

    def _interrupted(self) -> bool:
        return self._context.interrupt.requested


def _why(call: ToolCall) -> str:
    return f"{call.name} needs an approval"


def _pending(position: int, call: ToolCall) -> PendingApproval:
    return PendingApproval(call=call, position=position, reason=_why(call))


def _result_of(call: ToolCall, running: asyncio.Future[str], *, interrupted: bool, note: str) -> ToolMessage:
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
    return _result(call, note + value, "ok")


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
    except Exception:  # the host's own code
        logger.warning("a tool callback failed", exc_info=True)
