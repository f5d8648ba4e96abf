"""`begin_iteration`: may the model be asked once more?"""

from __future__ import annotations

from hermes_loop.budget import Spent, TurnBudget
from hermes_loop.turn_state import TurnDeps, TurnState
from hermes_loop.verdicts import BeginVerdict, Finish, Proceed, Stop
from hermes_messages import TranscriptState

__all__ = ["begin_again", "begin_iteration", "decide_iteration"]


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
    return _summary_or_stop(budget, spent, state)


def _summary_or_stop(budget: TurnBudget, spent: Spent, state: TranscriptState) -> Proceed | Stop:
    if state is TranscriptState.RESULTS_GIVEN and spent.may_sum_up and budget.take_grace():
        return Proceed("summary")
    return Stop(spent.reason, spent.text)


def begin_again(turn: TurnState) -> Stop | None:
    """Look at the budget again before a request whose iteration was taken, for a compression came between:
    the request becomes the grace call, or is not sent."""
    spent = None if turn.summary_call else turn.budget.spent_by_use
    if spent is None:
        return None
    turn.spent = spent
    verdict = _summary_or_stop(turn.budget, spent, turn.conversation.state)
    if isinstance(verdict, Stop):
        return verdict
    turn.summary_call = True
    return None


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
