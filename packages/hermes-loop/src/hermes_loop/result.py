"""What a turn returns, built from what it knows. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, cast

from msgspec import Struct

from hermes_loop.closing import explain
from hermes_loop.turn_result import TurnResult
from hermes_loop.turn_state import RouteUsage, TurnDeps, TurnState
from hermes_loop.verdicts import Ending, Finish
from hermes_messages import JsonObject, Usage
from hermes_messages.approvals import pending_to_json
from hermes_messages.protocols import ConversationResult, RouteUse, TurnExitReason
from hermes_messages.trajectory import to_trajectory

__all__ = [
    "FLAGS",
    "Flags",
    "best_answer_wins",
    "build_result",
    "ends_trajectory",
    "failed_trajectory",
    "list_failures",
    "trajectory_row",
]


class Flags(Struct, frozen=True):
    """Which flags hold for an exit. `partial` is also set when a failed turn left some text."""

    completed: bool = False
    partial: bool = False
    interrupted: bool = False
    failed: bool = False


FLAGS: Final[dict[TurnExitReason, Flags]] = {
    "text_response": Flags(completed=True),
    "tool_finished": Flags(completed=True),
    "output_truncated": Flags(partial=True),
    "max_iterations": Flags(partial=True),
    "budget_exhausted": Flags(partial=True),
    "interrupted": Flags(partial=True, interrupted=True),
    "stopped_by_hook": Flags(partial=True, interrupted=True),
    "cancelled": Flags(partial=True, interrupted=True),
    "approval_pending": Flags(partial=True),
    "lease_lost": Flags(interrupted=True, failed=True),
    "empty_response": Flags(failed=True),
    "refused": Flags(failed=True),
    "provider_error": Flags(failed=True),
    "context_overflow": Flags(failed=True),
    "context_compression_timeout": Flags(failed=True),
    "session_persistence_failed": Flags(failed=True),
    "tool_loop": Flags(failed=True),
    "invalid_output": Flags(failed=True),
    "unsupported": Flags(failed=True),
    "internal_error": Flags(failed=True),
}


BUDGET_EXITS: Final[frozenset[TurnExitReason]] = frozenset({"max_iterations", "budget_exhausted"})


def final_text(turn: TurnState, deps: TurnDeps, ending: Ending) -> str | None:
    """The text of the result: the answer, what there is of one, or why the limit left none."""
    if isinstance(ending, Finish):
        return ending.text
    if best_answer_wins(turn, ending):
        return turn.best_answer
    if turn.attempt_text.strip():
        return turn.attempt_text
    if turn.best_answer is not None:
        return turn.best_answer
    if ending.reason in BUDGET_EXITS:
        return explain(ending.reason, ending.error, deps.limits.max_iterations)
    return None


def best_answer_wins(turn: TurnState, ending: Ending) -> bool:
    """Whether a complete answer stands above the text of the call that a budget cut off."""
    return turn.best_answer is not None and ending.reason in BUDGET_EXITS


def _error_text(deps: TurnDeps, ending: Ending) -> str | None:
    if isinstance(ending, Finish):
        return None if FLAGS[ending.reason].completed else _reason_text(ending.reason, None, deps)
    return ending.error or _reason_text(ending.reason, None, deps)


def _reason_text(reason: TurnExitReason, error: str | None, deps: TurnDeps) -> str:
    return explain(reason, error, deps.limits.max_iterations)


def build_result(turn: TurnState, deps: TurnDeps, ending: Ending) -> ConversationResult:
    """Every key, on every way out."""
    flags = FLAGS[ending.reason]
    text = final_text(turn, deps, ending)
    usage = turn.usage or Usage()
    transcript = turn.conversation.known_messages()
    journal = turn.conversation.journal
    values = ConversationResult(
        final_response=text,
        structured_output=turn.structured_output if text is not None else None,
        messages=turn.conversation.rows(),
        transcript=transcript,
        completed=flags.completed,
        api_calls=turn.api_calls,
        partial=flags.partial or (flags.failed and bool(text) and ending.reason != "refused"),
        interrupted=flags.interrupted,
        failed=flags.failed,
        error=_error_text(deps, ending),
        turn_exit_reason=ending.reason,
        session_id=turn.session_id,
        task_id=turn.task_id,
        turn_id=turn.turn_id,
        model=turn.route.model,
        provider=turn.route.provider.name,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        cost_usd=usage.cost_usd,
        usage_by_route=[_route_use(used) for used in turn.route_usage.values()],
        error_kind=turn.error_kind,
        tools=turn.conversation.tool_rows(turn.snapshot.tools),
        pending_approvals=_pending(turn),
        saved=deps.store is not None and turn.context_built and journal.unsaved == 0,
        cleanup_errors=list_failures(turn),
    )
    return cast("ConversationResult", TurnResult(cast("dict[str, object]", values)))


def _pending(turn: TurnState) -> list[JsonObject]:
    """The calls that wait for a decision, as plain data, with the fingerprint that an approval may carry."""
    pending = turn.conversation.pending
    if not pending:
        return []
    rows = pending_to_json(pending)
    assert isinstance(rows, list)
    return [
        row | {"fingerprint": item.fingerprint}
        for row, item in zip(rows, pending, strict=True)
        if isinstance(row, dict)
    ]


def list_failures(turn: TurnState) -> list[str]:
    """What went wrong without ending the turn: clean-up, callbacks, hooks."""
    return [*turn.cleanup_errors, *turn.events.failures.values()]


def _route_use(used: RouteUsage) -> RouteUse:
    usage = used.usage or Usage()
    return RouteUse(
        provider=used.route.provider.name,
        model=used.route.model,
        api_calls=used.api_calls,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        cost_usd=usage.cost_usd,
    )


def ends_trajectory(ending: Ending) -> bool:
    """Whether the turn is whole: one that waits for a decision goes on with another."""
    return ending.reason != "approval_pending"


def failed_trajectory(ending: Ending) -> bool:
    """Whether a turn belongs among the failed trajectories."""
    return not FLAGS[ending.reason].completed


def trajectory_row(turn: TurnState, deps: TurnDeps, ending: Ending) -> dict[str, object]:
    """One line of a trajectory file."""
    return {
        "conversations": to_trajectory(tuple(turn.conversation.messages), turn.snapshot.tools),
        "timestamp": datetime.fromtimestamp(deps.clock.time(), UTC).isoformat(),
        "model": turn.route.model,
        "completed": FLAGS[ending.reason].completed,
    }
