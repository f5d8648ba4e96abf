"""From a host's request to a turn that runs: the agent's lock, the session's lease, one new `TurnState`."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial

from hermes_loop.admission import Admission, LocalLease, lease_for
from hermes_loop.background import running_turn, stop_tasks
from hermes_loop.budget import TurnBudget
from hermes_loop.events import TurnEvent, TurnEvents
from hermes_loop.follow_ups import FollowUp, FollowUpHeldError, FollowUps
from hermes_loop.hook_calls import around_turn, watch_turn
from hermes_loop.ids import new_id
from hermes_loop.interrupts import InterruptFlag
from hermes_loop.journal import with_suspension
from hermes_loop.lifecycle import Lifecycle
from hermes_loop.options import AgentOptions
from hermes_loop.phases.suspended_round import read_pending, restore_suspended_round
from hermes_loop.result import build_result
from hermes_loop.shielding import DEFAULT_BOUNDS, finish_despite_cancel
from hermes_loop.steering import Steering
from hermes_loop.turn import run_turn
from hermes_loop.turn_log import log_phase, logs_phases
from hermes_loop.turn_state import ResumeRequest, TurnDeps, TurnRequest, TurnState
from hermes_loop.verdicts import Stop
from hermes_messages import ConfigurationError, HermesError, StoreError, TurnStoppedError, UserMessage
from hermes_messages.protocols import (
    ConversationResult,
    PendingApproval,
    SessionStore,
    StreamCallback,
)

__all__ = ["TurnRunner"]

logger: logging.Logger = logging.getLogger(__name__)

EventSink = Callable[[TurnEvent], Awaitable[None] | None]


def _say_nothing(phase: str) -> None:  # noqa: ARG001 - in the place of what tells of a phase
    return None


class TurnRunner:
    """Runs the turns of one agent, one after the other."""

    def __init__(
        self,
        options: AgentOptions,
        lifecycle: Lifecycle,
        steering: Steering,
        session_id: str,
        *,
        lease_ttl_s: float,
    ) -> None:
        self._options = options
        self._lifecycle = lifecycle
        self._steering = steering
        self._session_id = session_id
        self._lease_ttl_s = lease_ttl_s
        # One holder for all turns: a lease that could not be given back is this agent's own next time.
        self._holder = new_id()
        self._warned_about: SessionStore | None = None

    async def run(
        self,
        request: TurnRequest | ResumeRequest,
        task_id: str | None,
        stream_callback: StreamCallback | None = None,
        sink: EventSink | None = None,
        begin: Callable[[], Awaitable[None]] | None = None,
    ) -> ConversationResult:
        """One turn, from waiting for the lock to the result. `begin` is called when the lock is held; what it
        raises ends the turn before it begins."""
        lifecycle = self._lifecycle
        if lifecycle.inside_its_turn:
            raise ConfigurationError(
                "a tool or callback must not start a turn of the agent that runs it: it would wait for itself"
            )
        bound = await lifecycle.initialize()
        deps = lifecycle.wiring.turn_deps(self._steering, DEFAULT_BOUNDS)
        interrupt = InterruptFlag()
        events = TurnEvents(deps.callbacks, stream_callback, sink, interrupt)
        turn = self._new_turn(deps, request, task_id, interrupt, events)
        watch_turn(turn, deps)
        try:
            async with bound.turns:
                lifecycle.refuse_when_closed()
                if begin is not None:
                    await begin()
                    lifecycle.refuse_when_closed()
                lifecycle.current = turn
                return await self._admit_and_run(turn, deps)
        except StoreError as error:  # only the admission lets one through
            log_phase(turn, "lease.admit", "Failed", logging.WARNING, str(error))
            return build_result(turn, deps, Stop("session_persistence_failed", str(error)))
        except HermesError:
            raise
        except Exception as error:  # noqa: BLE001 - a bug of the store: a failed turn is a result
            log_phase(turn, "lease.admit", "Failed", logging.ERROR, traceback.format_exc())
            return build_result(turn, deps, Stop("internal_error", f"{type(error).__name__}: {error}"))
        finally:
            await lifecycle.close_if_asked()
            self._wake_follow_ups()

    def follow_up(self, text: str) -> FollowUp:
        """See `AIAgent.follow_up`."""
        lifecycle = self._lifecycle
        lifecycle.bind()
        follow_up = FollowUp(text, lambda: not lifecycle.inside_its_turn)
        if lifecycle.follow_ups is None:  # not before it is needed: the two refer to each other
            lifecycle.follow_ups = FollowUps(self._run_follow_up)
        lifecycle.follow_ups.add(follow_up)
        return follow_up

    def _wake_follow_ups(self) -> None:
        if self._lifecycle.follow_ups is not None:
            self._lifecycle.follow_ups.wake()

    async def _run_follow_up(self, follow_up: FollowUp) -> ConversationResult:
        async def begin() -> None:
            if await self._waits_for_decision():
                raise FollowUpHeldError("the conversation waits for a decision")
            follow_up.begin()

        return await self.run(TurnRequest(user_message=UserMessage(follow_up.text)), None, begin=begin)

    async def _waits_for_decision(self) -> bool:
        """Whether any call does: another process may have decided, or have left one."""
        conversation = self._lifecycle.conversation
        store = self._lifecycle.wiring.store
        if store is None or with_suspension(store) is None or conversation.journal.unsaved:
            return bool(conversation.pending)
        try:
            return bool(await read_pending(store, self._session_id))
        except HermesError:  # nobody can tell
            return bool(conversation.pending)

    async def pending_approvals(self) -> tuple[PendingApproval, ...]:
        """The calls of the session that wait for a decision: in the store, or without one in memory."""
        await self._lifecycle.initialize()
        store = self._lifecycle.wiring.store
        if store is None or with_suspension(store) is None:
            return self._lifecycle.conversation.pending
        found = await read_pending(store, self._session_id)
        if not found:
            self._wake_follow_ups()  # what waited for a decision may begin
        return found

    async def stream(
        self, request: TurnRequest | ResumeRequest, task_id: str | None
    ) -> AsyncGenerator[TurnEvent, None]:
        """One turn as its events. Closing the generator cancels the turn and waits for its end."""
        queue: asyncio.Queue[TurnEvent | None] = asyncio.Queue()
        task = asyncio.create_task(self.run(request, task_id, None, queue.put_nowait))
        task.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
            await task
        finally:
            if not task.done():
                await finish_despite_cancel(lambda: stop_tasks((task,), DEFAULT_BOUNDS.limit_s))
            if task.done() and not task.cancelled():
                task.exception()

    def _new_turn(
        self,
        deps: TurnDeps,
        request: TurnRequest | ResumeRequest,
        task_id: str | None,
        interrupt: InterruptFlag,
        events: TurnEvents,
    ) -> TurnState:
        options = self._options
        lease = lease_for(
            deps.store, self._session_id, self._holder, ttl_s=self._lease_ttl_s, clock=deps.clock
        )
        if deps.store is not None and isinstance(lease, LocalLease):
            self._warn_without_leases(deps.store)
        return TurnState(
            session_id=self._session_id,
            task_id=task_id if task_id is not None else new_id(),
            turn_id=new_id(),
            request=request,
            system_message=request.system_message if isinstance(request, TurnRequest) else None,
            conversation=self._lifecycle.conversation,
            lease=lease,
            interrupt=interrupt,
            events=events,
            budget=TurnBudget(options.max_iterations, options.iteration_budget, options.budget),
            route=deps.routes.primary,
            logged=logs_phases(),
        )

    async def _admit_and_run(self, turn: TurnState, deps: TurnDeps) -> ConversationResult:
        """The turn, with the agent's lock held. Raises `StoreError` when it could not be admitted."""
        lifecycle = self._lifecycle
        try:
            log = partial(log_phase, turn, verdict="Done") if turn.logged else _say_nothing
            async with Admission(
                lifecycle.background, turn.lease, turn.interrupt, deps.bounds, log
            ) as is_admitted:
                lifecycle.refuse_when_closed()
                if not is_admitted:
                    return build_result(turn, deps, Stop("interrupted"))
                if isinstance(turn.request, ResumeRequest):
                    await restore_suspended_round(turn, deps, turn.request.decisions)
                inside = running_turn.set(lifecycle)
                try:
                    with turn.interrupt.time_limit(self._options.budget.seconds):
                        result = await around_turn(turn, deps, partial(run_turn, turn, deps))
                    if turn.refused_decisions is not None:
                        raise turn.refused_decisions
                    return result  # noqa: TRY300 - around_turn is what may raise
                except TurnStoppedError as error:
                    log_phase(turn, "around_turn", "Stop", logging.INFO, str(error))
                    return build_result(turn, deps, Stop("stopped_by_hook", str(error)))
                finally:
                    running_turn.reset(inside)
        finally:
            lifecycle.current = None

    def _warn_without_leases(self, store: SessionStore) -> None:
        if self._warned_about is not store:
            self._warned_about = store
            logger.warning(
                "%s has no turn leases: turns of session %s exclude each other in this process only",
                type(store).__name__,
                self._session_id,
            )
