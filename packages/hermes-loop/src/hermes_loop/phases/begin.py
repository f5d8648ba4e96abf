"""`begin_iteration`: may the model be asked once more?"""

from __future__ import annotations

from hermes_loop.budget import TurnBudget
from hermes_loop.turn_state import TurnDeps, TurnState
from hermes_loop.verdicts import BeginVerdict, Finish, Proceed, Stop
from hermes_messages import TranscriptState

__all__ = ["begin_iteration", "decide_iteration"]


def decide_iteration(
    budget: TurnBudget, *, interruption: Stop | None, state: TranscriptState, best_answer: str | None
) -> BeginVerdict:
    """Take an iteration from `budget`, or say how the turn ends. Pure but for the budget it is handed.

    When the budget is spent, the best complete answer so far wins; else, if tool results are waiting for
    a word on them, one grace call without tools asks for a summary.
    """
    if interruption is not None:
        return interruption
    spent = budget.take()
    if spent is None:
        return Proceed()
    if best_answer is not None:
        return Finish(spent.reason, best_answer)
    if state is TranscriptState.RESULTS_GIVEN and spent.may_sum_up and budget.take_grace():
        return Proceed("summary")
    return Stop(spent.reason, spent.text)


async def begin_iteration(turn: TurnState, deps: TurnDeps) -> BeginVerdict:  # noqa: ARG001 - a phase takes both
    """Interrupt, lease and budget, in this order."""
    turn.spent = turn.budget.spent
    verdict = decide_iteration(
        turn.budget,
        interruption=turn.interruption(),
        state=turn.conversation.state,
        best_answer=turn.best_answer,
    )
    turn.summary_call = isinstance(verdict, Proceed) and verdict.kind == "summary"
    return verdict
