"""One round of tool calls: each gets exactly one result, whatever happens.

Every call is a task of its own, so that a tool's timeout, its interrupt and its own cancellation touch no
other. The tasks are owned by `ToolRound.run`, which ends only when all of them have; a tool that does not
stop when it is told to is left behind with a warning, and its task kept in `Dispatch.abandoned`.

    phase of a call   what its task does               an interrupt or timeout    the end of the round
    waiting           nothing yet                      it will not start          it will not start
    tool              runs the tool (or its path)      cancels it                 cancels it
    storing           awaits `on_result`               lets it finish             lets it finish, bounded
    telling           awaits the host's callback       lets it finish             cancels it
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import msgspec

from hermes_messages import HermesError, ToolCall, ToolMessage
from hermes_messages.approvals import ApprovalDecision, Later, PendingApproval
from hermes_messages.protocols import RoundContext, RoundOutcome, Scheduling
from hermes_tools import failures
from hermes_tools.approval_policy import ApprovalPolicy
from hermes_tools.call_state import CallState, StopReason
from hermes_tools.context import CallContext
from hermes_tools.errors import ToolFailure
from hermes_tools.guardrails import Guardrails
from hermes_tools.interrupt_watch import InterruptWatch
from hermes_tools.middleware import Handler, Invocation, Outcome, call_host
from hermes_tools.output_limits import RoundBudget
from hermes_tools.registry import ToolRegistry
from hermes_tools.scheduling import plan_groups
from hermes_tools.settings import ExecutorSettings
from hermes_tools.shielding import finish_despite_cancel
from hermes_tools.stations import Budgets, Redaction

__all__ = ["Dispatch", "ToolRound"]

logger: logging.Logger = logging.getLogger(__name__)


class Dispatch(msgspec.Struct, frozen=True, kw_only=True):
    """What the rounds of one executor have in common."""

    registry: ToolRegistry
    handler: Handler
    budgets: Budgets
    redaction: Redaction
    guardrails: Guardrails
    policy: ApprovalPolicy
    settings: ExecutorSettings
    make_context: Callable[[ToolCall, RoundContext], CallContext]
    abandoned: set[asyncio.Task[None]]


class ToolRound:
    """Runs `calls` once; with `results` those without one, as `decisions` (by position) say."""

    def __init__(
        self,
        calls: Sequence[ToolCall],
        context: RoundContext,
        dispatch: Dispatch,
        results: Sequence[ToolMessage | None] = (),
        decisions: Mapping[int, ApprovalDecision] | None = None,
    ) -> None:
        self._context = context
        self._dispatch = dispatch
        self._settings = dispatch.settings
        self._results: list[ToolMessage | None] = list(results) or [None] * len(calls)
        self._decisions = decisions
        find = dispatch.registry.find
        self._calls = {
            position: CallState(position, call, find(call.name))
            for position, call in enumerate(calls)
            if self._results[position] is None
        }
        self._pending: dict[int, PendingApproval] = {}
        self._budget = RoundBudget(self._settings.round_limit, len(self._calls), Budgets.FLOOR)
        self._running: set[asyncio.Task[None]] = set()
        self._waiter: asyncio.Future[None] | None = None
        self._interrupted = context.interrupt.requested
        self._stopped = False
        self._failure: BaseException | None = None

    async def run(self) -> RoundOutcome:
        """See `ToolExecutor.execute`."""
        states = list(self._calls.values())
        watch = InterruptWatch(self._context.interrupt, self._on_interrupt)
        try:
            for group in plan_groups([self._class_of(state) for state in states]):
                await self._run_group(deque(map(states.__getitem__, group)))
            await self._settle_pending_if_interrupted()
        except BaseException:
            self._stop_all()
            raise
        finally:
            watch.stop()
            try:
                if self._running or watch.waits:
                    await self._end(watch)
            finally:
                self._let_go()
        pending = [self._pending[position] for position in sorted(self._pending)] if self._pending else ()
        return RoundOutcome(results=tuple(self._results), pending=tuple(pending))

    async def _end(self, watch: InterruptWatch) -> None:
        try:
            await finish_despite_cancel(lambda: self._join(watch), 3 * self._settings.stop_limit_s + 1)
        except TimeoutError as error:  # it must not take the place of a cancellation
            logger.warning("the end of a round took too long: %s", error)

    def _let_go(self) -> None:
        """Break the circles of call, task and context, so that what they hold goes now, not with some later
        collection of garbage. What was left behind goes on with what it has."""
        for call in self._calls.values():
            if not call.abandoned:
                call.task = call.invocation = None

    async def _settle_pending_if_interrupted(self) -> None:
        if self._pending and self._context.interrupt.requested:
            self._interrupted = True
            await self._run_group(deque(self._calls[position] for position in self._pending))
            self._pending.clear()

    def _class_of(self, state: CallState) -> Scheduling:
        """How a call is scheduled: one that a person is asked about stands alone, whatever its tool says, and
        one that runs no tool does nothing that could be out of order."""
        if state.entry is None or state.arguments is None:
            return "parallel"
        tool = state.entry.tool
        asks = self._context.approval is not None and self._decisions is None
        if asks and self._dispatch.policy.judge(tool.spec.name, state.arguments).action == "ask":
            return "interactive"
        return tool.scheduling

    async def _run_group(self, waiting: deque[CallState]) -> None:
        while waiting or self._running:
            while waiting and len(self._running) < self._settings.parallel_limit:
                call = waiting.popleft()
                call.task = self._own(self._run_call(call))
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
            if self._failure is not None:
                raise self._failure

    # -- one call -----------------------------------------------------------------------------------------

    async def _run_call(self, call: CallState) -> None:
        if self._stopped:
            return
        outcome = await self._outcome_of(call)
        if self._is_over(call):
            return
        if outcome.pending:
            self._pending[call.position] = PendingApproval(
                call=call.call, position=call.position, reason=outcome.pending
            )
            call.phase = "waiting"
            return
        await self._settle(call, outcome)

    def _is_over(self, call: CallState) -> bool:
        """Whether nobody waits for the result of `call` any more."""
        return self._stopped or call.abandoned

    async def _outcome_of(self, call: CallState) -> Outcome:
        if self._interrupted:
            return failures.not_started()
        prepared = self._prepare(call)
        if isinstance(prepared, Outcome):
            return prepared
        call.invocation = prepared
        call.phase = "tool"
        try:
            return await self._dispatch.handler(prepared)
        except asyncio.CancelledError:
            outcome = await self._outcome_of_cancelled(call)
        except Exception as error:  # a station of the path failed: the call still needs its result
            logger.exception("the path to tool %s failed", call.call.name)
            outcome = Outcome(f"Error: {failures.describe(error)}", "error")
        finally:
            if not call.abandoned:
                call.phase = "storing"
                call.cancel_timers()
        return await self._dispatch.budgets.cut(prepared, self._dispatch.redaction.redact(outcome))

    def _prepare(self, call: CallState) -> Invocation | Outcome:
        """What is to be run, or why it can not be."""
        decision = None
        if self._decisions is not None:
            decision = self._decisions.get(call.position, Later())
        entry, guardrails = call.entry, self._dispatch.guardrails
        if entry is not None and call.arguments is not None:
            context = self._dispatch.make_context(call.call, self._context)
            context.end_of_path = self._run_tool
            return Invocation(
                call.position,
                call.call,
                entry.tool,
                call.arguments,
                context,
                self._budget,
                entry.schema,
                entry.output_limit,
                decision,
            )
        if isinstance(decision, Later):
            return Outcome("", "not_started", "it waits for a decision")
        name = call.call.name
        if entry is not None:
            repeated = guardrails.refusal(name, call.call.arguments)
            noted = guardrails.note(name, call.call.arguments, Outcome(call.problem, "error"))
            refused = repeated or noted
        else:
            registry = self._dispatch.registry
            unknown = failures.unknown_tool(name, registry.near(name), registry.names)
            refused = guardrails.note_unknown(call.call, unknown)
        refused = self._dispatch.redaction.redact(refused)
        self._budget.take(len(refused.text))
        return refused

    async def _run_tool(self, invocation: Invocation) -> Outcome:
        """The end of the path: the tool itself. Every way in which it may end becomes an outcome."""
        call = self._calls[invocation.position]
        call.begun = True
        # The time limit is the tool's own: a person who is asked before may take any time.
        limit_s = call.time_limit(self._settings.timeout_s)
        if limit_s is not None:
            loop = asyncio.get_running_loop()
            call.timers.append(loop.call_later(limit_s, self._stop, call, "timed_out"))
        try:
            text = await invocation.tool.run(invocation.arguments, invocation.context)
            outcome = self._outcome_of_text(call, text)
        except asyncio.CancelledError:
            outcome = await self._outcome_of_cancelled(call)
        except ToolFailure as failure:
            outcome = self._despite_stop(call, Outcome(failure.text, failure.status))
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # SystemExit too: whatever a tool raises, its call gets a result
            if isinstance(error, BaseExceptionGroup) and error.subgroup(KeyboardInterrupt):
                raise
            if not isinstance(error, HermesError):
                logger.warning("tool %s failed: %s", call.call.name, failures.place(error))
            outcome = self._despite_stop(call, Outcome(f"Error: {failures.describe(error)}", "error"))
        if call.task is not None and call.task.cancelling() and call.stop is None:
            await self._let_own_cancellation_pass(call.task)
        call.own_outcome = outcome
        return outcome

    async def _let_own_cancellation_pass(self, task: asyncio.Task[None]) -> None:
        """A tool cancelled its own task and ended before that took effect; it must not hit others."""
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if self._stopped:
                raise
        while task.cancelling():
            task.uncancel()

    def _outcome_of_text(self, call: CallState, text: object) -> Outcome:
        if isinstance(text, str):
            return self._despite_stop(call, Outcome(text))
        return Outcome(f"Error: the tool returned {type(text).__name__}, which is no text", "error")

    def _despite_stop(self, call: CallState, outcome: Outcome) -> Outcome:
        """The outcome of a tool that was told to stop, took the cancellation for itself and ended."""
        if call.stop is None or call.task is None:
            return outcome
        call.task.uncancel()
        return self._stopped_outcome(call, outcome.text)

    async def _outcome_of_cancelled(self, call: CallState) -> Outcome:
        """Tell who cancelled: this round or the tool itself. Raises CancelledError when the round is over."""
        assert call.task is not None
        if call.stop is None and not self._stopped:
            while call.task.cancelling():
                call.task.uncancel()
            # Whoever cancels all tasks of the loop at once cancels the round too: let it find out first.
            await asyncio.sleep(0)
        if self._stopped or call.stop == "round stopped":
            raise asyncio.CancelledError
        if call.own_outcome is not None:
            call.task.uncancel()
            return call.own_outcome
        invocation = call.invocation
        so_far = invocation.context.partial_output() if invocation else ""
        if call.stop is None:
            return failures.cancelled(so_far)
        call.task.uncancel()
        return self._stopped_outcome(call, so_far)

    def _stopped_outcome(self, call: CallState, so_far: str) -> Outcome:
        if call.stop == "timed_out":
            return failures.timed_out(call.time_limit(self._settings.timeout_s) or 0, so_far)
        return failures.interrupted(so_far) if call.begun else failures.not_started()

    async def _settle(self, call: CallState, outcome: Outcome) -> None:
        """Hand the result on: first to where it becomes durable, then to the host."""
        message = ToolMessage(call.call.id, outcome.text, name=call.call.name, status=outcome.status)
        self._results[call.position] = message
        call.phase = "storing"
        await self._context.on_result(call.position, message)
        callback = self._context.tool_complete
        if callback is not None:
            call.phase = "telling"
            await call_host(lambda: callback(call.call, message), "tool_complete")

    # -- tasks and how they are stopped -------------------------------------------------------------------

    def _own(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if task in self._dispatch.abandoned:
            self._dispatch.abandoned.discard(task)
            if error is not None:
                logger.warning("a tool that was left behind failed: %r", error)
            return
        self._running.discard(task)
        self._go_on()
        if self._failure is None and not self._stopped:
            if task.cancelled():
                error = HermesError("a result could not be handed on: the task that did it was cancelled")
            self._failure = error

    def _go_on(self) -> None:
        """What runs is another now: who waits for that looks at it."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _on_interrupt(self) -> None:
        self._interrupted = True
        for call in self._calls.values():
            self._stop(call, "interrupted")

    def _stop(self, call: CallState, reason: StopReason) -> None:
        """Tell the tool of `call` to end, if it is running; it gets some time for that."""
        if call.phase != "tool" or call.stop is not None or call.task is None:
            return
        call.stop = reason
        call.task.cancel()
        loop = asyncio.get_running_loop()
        call.timers.append(loop.call_later(self._settings.stop_limit_s, self._abandon, call))

    def _abandon(self, call: CallState) -> None:
        """Go on without a tool that does not end although it was told to."""
        if call.phase != "tool" or call.task is None:
            return
        call.abandoned = True
        call.cancel_timers()
        self._running.discard(call.task)
        self._dispatch.abandoned.add(call.task)
        limit_s = self._settings.stop_limit_s
        logger.warning("tool %s did not end within %g s and was left behind", call.call.name, limit_s)
        self._go_on()
        if not self._stopped:
            call.task = self._own(self._settle_abandoned(call))

    async def _settle_abandoned(self, call: CallState) -> None:
        invocation = call.invocation
        assert invocation is not None
        outcome = self._stopped_outcome(call, invocation.context.partial_output())
        note = f"[The tool did not stop within {self._settings.stop_limit_s:g} s; it may still be running.]"
        redacted = self._dispatch.redaction.redact(Outcome(f"{outcome.text}\n{note}", outcome.status))
        await self._settle(call, await self._dispatch.budgets.cut(invocation, redacted))

    def _stop_all(self) -> None:
        """End every tool and every callback; results that are being stored get there."""
        self._stopped = True
        for call in self._calls.values():
            if call.phase == "tool":
                self._stop(call, "round stopped")
            elif call.phase == "telling" and call.task is not None:
                call.task.cancel()

    async def _join(self, watch: InterruptWatch) -> None:
        """Wait for all tasks of the round, each kind for its limited time. Safe to run twice."""
        await watch.join(self._settings.stop_limit_s)
        if not self._running:
            return
        await asyncio.wait(self._running, timeout=self._settings.stop_limit_s + 0.1)
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=self._settings.stop_limit_s / 2)
        for task in self._running:
            logger.warning("storing a result did not end and was left behind: %r", task)
        self._dispatch.abandoned.update(self._running)
