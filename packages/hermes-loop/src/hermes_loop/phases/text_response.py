"""`finish_text_response`: the model answered, or gave nothing."""

from __future__ import annotations

from hermes_loop.phases.normalize import answer_text
from hermes_loop.phases.persist import save_owed
from hermes_loop.turn_state import TurnDeps, TurnState
from hermes_loop.verdicts import Answer, Continue, Discard, Finish, Stop, TextVerdict
from hermes_messages.protocols import TurnExitReason

__all__ = ["finish_text_response", "handle_discarded_response"]


async def finish_text_response(turn: TurnState, deps: TurnDeps, answer: Answer) -> TextVerdict:
    """Commit the answer, durable before it is returned. A waiting steer note asks the model once more."""
    turn.conversation.append(turn.next_uid(), answer.message)
    text = answer_text(answer.message)
    turn.attempt_text = ""
    saved = await save_owed(turn)
    if isinstance(saved, Stop):
        turn.best_answer = text
        return saved
    if turn.summary_call:
        return Finish(_spent(turn), text)
    if answer.reason == "text_response":
        turn.best_answer = text
        if deps.steering.waiting and turn.budget.spent is None and not turn.interrupt.requested:
            return Continue("a note of the host is waiting")
    return Finish(answer.reason, text)


def _spent(turn: TurnState) -> TurnExitReason:
    """Why this is a summary call."""
    return turn.spent.reason if turn.spent is not None else "max_iterations"


async def handle_discarded_response(turn: TurnState, deps: TurnDeps, discard: Discard) -> TextVerdict:
    """Nothing of it enters the conversation; ask again a bounded number of times, then say so.

    Text that stood beside an earlier tool call never takes its place.
    """
    if turn.summary_call:
        return Stop(_spent(turn), discard.error)
    turn.empty_responses += 1
    if discard.ask_again and turn.empty_responses <= deps.limits.empty_responses:
        return Continue(discard.error)
    return Stop(discard.reason, discard.error)
