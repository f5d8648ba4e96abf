"""`begin_iteration`: may the model be asked once more?"""

from __future__ import annotations

from hermes_loop.budget import Spent, TurnBudget
from hermes_loop.turn_state import TurnState
from hermes_loop.verdicts import BeginVerdict, Finish, Proceed, Stop
from hermes_messages import TranscriptState

__all__ = ["begin_again", "begin_iteration", "will_ask_again"]


def _summary_or_stop(budget: TurnBudget, spent: Spent, state: TranscriptState) -> Proceed | Stop:
    """How a turn goes on that has `spent` its budget: if tool results are waiting for a word on them, one
    grace call without tools asks for a summary. Pure but for the budget it is handed."""
    if _may_sum_up(budget, spent, state) and budget.take_grace():
        return Proceed("summary")
    return Stop(spent.reason, spent.text)


def _may_sum_up(budget: TurnBudget, spent: Spent, state: TranscriptState) -> bool:
    return state is TranscriptState.RESULTS_GIVEN and spent.may_sum_up and budget.has_grace


def will_ask_again(turn: TurnState) -> bool:
    """Whether `begin_iteration` would go on, as things stand; nothing is taken from the budget."""
    if turn.interruption() is not None:
        return False
    spent = turn.budget.spent
    if spent is None:
        return True
    return turn.best_answer is None and _may_sum_up(turn.budget, spent, turn.conversation.state)


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


def begin_iteration(turn: TurnState) -> BeginVerdict:
    """Interrupt, lease and budget, in this order: take an iteration, or say how the turn ends. When the
    budget is spent, the best complete answer so far wins over a summary."""
    turn.summary_call = False
    interruption = turn.interruption()
    if interruption is not None:
        return interruption
    spent = turn.spent = turn.budget.take()
    if spent is None:
        return Proceed()
    if turn.best_answer is not None:
        return Finish(spent.reason, turn.best_answer)
    verdict = _summary_or_stop(turn.budget, spent, turn.conversation.state)
    turn.summary_call = isinstance(verdict, Proceed)
    return verdict
