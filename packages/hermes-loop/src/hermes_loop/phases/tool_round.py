"""`run_tool_round`: durable calls, then tools, then durable results; every call gets exactly one.

A call that waits for a person suspends the round: it stays open, is marked in the store, and
`resume_tool_round` finishes it with the decisions, in this turn's successor or in another process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from hermes_loop.closing import missing_results
from hermes_loop.events import ToolEnded, ToolProgressed, ToolStarted
from hermes_loop.hook_calls import transform_tool_result
from hermes_loop.journal import RoundRecord
from hermes_loop.phases.persist import save_owed, stop_for_store_error
from hermes_loop.turn_state import TurnDeps, TurnState
from hermes_loop.verdicts import Continue, Stop, Suspend, ToolRoundVerdict
from hermes_messages import (
    AssistantMessage,
    ConfigurationError,
    StoreError,
    ToolCall,
    ToolMessage,
    TurnStoppedError,
)
from hermes_messages.abilities import supports
from hermes_messages.approvals import ApprovalDecision, Later
from hermes_messages.protocols import (
    RoundContext,
    RoundOutcome,
    SupportsDecisions,
    ToolCompleteCallback,
    ToolProgressCallback,
    ToolStartCallback,
)

__all__ = ["execute_calls", "note_failing_round", "resume_tool_round", "run_tool_round"]

Work = Callable[[RoundContext], Awaitable[RoundOutcome]]


async def run_tool_round(turn: TurnState, deps: TurnDeps, message: AssistantMessage) -> ToolRoundVerdict:
    """The calls are durable before any of them runs; a write that fails ends the turn with no tool run."""
    turn.attempt_parts.clear()
    turn.tools_started = False
    record = turn.conversation.open_tool_round(turn.next_uid(), message)
    stop = await save_owed(turn) or turn.interruption()
    if stop is not None:
        return stop
    return await _run_calls(
        turn, deps, record, lambda context: deps.executor.execute(message.tool_calls, context)
    )


async def resume_tool_round(
    turn: TurnState, deps: TurnDeps, decisions: Mapping[str, ApprovalDecision]
) -> ToolRoundVerdict:
    """Finish the suspended round with `decisions`, which were matched with its calls before.

    A decided call is taken off the mark in the store before it can run, so that it never runs twice: if the
    process dies meanwhile its result is unknown. Decisions that the executor refuses change nothing.
    """
    record, executor = turn.conversation.open_round, deps.executor
    assert record is not None
    assert supports(executor, SupportsDecisions)
    stop = turn.interruption()
    if stop is not None:
        return stop
    before, results = record.pending, tuple(record.results)
    later = Later()
    record.pending = tuple(item for item in before if isinstance(decisions.get(item.call.id, later), Later))
    stop = await save_owed(turn)
    if stop is not None:
        record.pending = before
        return stop
    calls = record.message.tool_calls
    try:
        return await _run_calls(
            turn, deps, record, lambda context: executor.resume(calls, results, decisions, context)
        )
    except ConfigurationError as error:
        if tuple(record.results) != results:
            raise
        record.pending = before
        turn.refused_decisions = error
        return await save_owed(turn) or Suspend(before)


async def _run_calls(turn: TurnState, deps: TurnDeps, record: RoundRecord, work: Work) -> ToolRoundVerdict:
    message = record.message
    turn.tools_started = True
    try:
        outcome = await execute_calls(turn, deps, message.tool_calls, record, work)
        if outcome is None:
            return turn.interruption() or Stop("interrupted")
        for position, result in enumerate(outcome.results):
            if result is not None and not record.has(position, result):
                await turn.conversation.journal.save_result(record, position, result, turn.lease.token)
    except StoreError as error:
        return stop_for_store_error(turn, error)
    if outcome.pending and not turn.interrupt.requested:
        record.pending = outcome.pending
        return await save_owed(turn) or Suspend(outcome.pending)
    results = [result for result in record.results if result is not None]
    if len(results) < len(record.results):
        results = _filled(record, outcome)
    turn.conversation.close_tool_round(results)
    stop = await save_owed(turn)
    if stop is not None:
        return stop
    if note_failing_round(turn, message.tool_calls, results, deps):
        return Stop("tool_loop", "the model repeats tool calls that fail")
    return Continue("tool results")


def _filled(record: RoundRecord, outcome: RoundOutcome) -> list[ToolMessage]:
    """A result for each call, also for those that an interrupt left without one when the executor was already
    done; one that still waited for a decision did not run."""
    waiting = {item.position for item in outcome.pending}
    ran, not_started = missing_results(record, ran=True), missing_results(record, ran=False)
    return [
        result or (not_started[at] if at in waiting else ran[at]) for at, result in enumerate(record.results)
    ]


async def execute_calls(
    turn: TurnState, deps: TurnDeps, calls: Sequence[ToolCall], record: RoundRecord, work: Work
) -> RoundOutcome | None:
    """Run the calls; None when the lease was lost meanwhile. An ordinary interrupt is the executor's to
    honour, so that its results tell what ran."""

    async def on_result(position: int, result: ToolMessage) -> None:
        if deps.hooks.transform_tool_result:
            record.check(position, result)
            try:
                result = await transform_tool_result(turn, deps, calls[position], result)
            except TurnStoppedError:
                await turn.conversation.journal.save_result(record, position, result, turn.lease.token)
                raise
        await turn.conversation.journal.save_result(record, position, result, turn.lease.token)

    tool_start, tool_progress, tool_complete = (
        _callbacks(turn, record) if turn.events.listened_to else (None, None, None)
    )
    context = RoundContext(
        session_id=turn.session_id,
        task_id=turn.task_id,
        turn_id=turn.turn_id,
        cwd=deps.cwd,
        interrupt=turn.interrupt,
        on_result=on_result,
        store=deps.store,
        agent_factory=deps.agent_factory,
        tool_start=tool_start,
        tool_progress=tool_progress,
        tool_complete=tool_complete,
        clarify=deps.callbacks.clarify,
        approval=deps.callbacks.approval,
        secrets=deps.routes.secrets(),
    )
    outcome: object = None
    if turn.lease.shared:
        with turn.interrupt.scope(hard_only=True) as scope:
            outcome = await work(context)
        if scope.cancelled_caught:
            return None
    else:  # nobody can take the session over, so no hard interrupt comes
        outcome = await work(context)
    if not isinstance(outcome, RoundOutcome):
        raise TypeError(f"the tool executor must return a RoundOutcome, not {type(outcome).__name__}")
    return outcome


def _callbacks(
    turn: TurnState, record: RoundRecord
) -> tuple[ToolStartCallback, ToolProgressCallback, ToolCompleteCallback]:
    """What tells those who listen to the turn of its tools."""

    async def tool_start(call: ToolCall) -> None:
        await turn.events.emit(ToolStarted(call))

    async def tool_progress(call: ToolCall, text: str) -> None:
        await turn.events.emit(ToolProgressed(call, text))

    async def tool_complete(call: ToolCall, result: ToolMessage) -> None:
        await turn.events.emit(ToolEnded(call, _stored(record, call, result)))

    return tool_start, tool_progress, tool_complete


def _stored(record: RoundRecord, call: ToolCall, result: ToolMessage) -> ToolMessage:
    """The result that the conversation has for `call`: a hook may have changed it."""
    answers = (stored for stored in record.results if stored is not None)
    return next((stored for stored in answers if stored.tool_call_id == call.id), result)


def note_failing_round(
    turn: TurnState, calls: Sequence[ToolCall], results: Sequence[ToolMessage], deps: TurnDeps
) -> bool:
    """Whether the model is stuck: the same failing calls, or only unknown tools, too many rounds in a row."""
    for result in results:
        if result.status != "error":
            turn.failing_rounds = turn.unknown_tool_rounds = 0
            turn.last_failing_round = ()
            return False
    signature = tuple((call.name, call.arguments) for call in calls)
    turn.failing_rounds = turn.failing_rounds + 1 if signature == turn.last_failing_round else 1
    turn.last_failing_round = signature
    known = {tool.name for tool in turn.snapshot.tools}
    all_unknown = all(call.name not in known for call in calls)
    turn.unknown_tool_rounds = turn.unknown_tool_rounds + 1 if all_unknown else 0
    return max(turn.failing_rounds, turn.unknown_tool_rounds) >= deps.limits.failing_rounds
