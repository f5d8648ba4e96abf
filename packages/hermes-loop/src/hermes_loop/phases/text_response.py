"""`finish_text_response`: the model answered, or gave nothing."""

from __future__ import annotations

from hermes_loop.events import StatusChanged
from hermes_loop.output_type import OutputMisfitError, correction
from hermes_loop.phases.begin import will_ask_again
from hermes_loop.phases.normalize import answer_text
from hermes_loop.phases.persist import save_owed
from hermes_loop.phases.recovery import discard_attempt
from hermes_loop.turn_state import TurnDeps, TurnState
from hermes_loop.verdicts import Answer, Continue, Discard, Finish, Stop, TextVerdict
from hermes_messages import UserMessage
from hermes_messages.protocols import TurnExitReason

__all__ = ["finish_text_response", "handle_discarded_response"]


async def finish_text_response(turn: TurnState, deps: TurnDeps, answer: Answer) -> TextVerdict:
    """Commit the answer, durable before it is returned. A waiting steer note asks the model once more, and so
    does an answer that is not of the form that was asked for, a bounded number of times."""
    turn.conversation.append(turn.next_uid(), answer.message)
    text = answer_text(answer.message)
    turn.attempt_text = ""
    stop = await save_owed(turn)
    if stop is not None:
        turn.best_answer = text
        return stop
    if answer.reason != "text_response":
        return Finish(_spent(turn) if turn.summary_call else answer.reason, text)
    problem = _read_output(turn, deps, text)
    if turn.summary_call:
        return Finish(_spent(turn), text)
    turn.best_answer = text
    may_ask = turn.budget.spent is None and not turn.interrupt.requested
    if deps.steering.waiting and may_ask:
        return Continue("a note of the host is waiting")
    if problem is None:
        return Finish(answer.reason, text)
    if not may_ask or turn.corrections >= deps.limits.corrections:
        return Stop("invalid_output", f"the answer is not of the form that output_type asks for: {problem}")
    return await _ask_for_correction(turn, problem)


def _read_output(turn: TurnState, deps: TurnDeps, text: str) -> str | None:
    """Keep the value of an answer, or say what is wrong with it."""
    turn.structured_output, turn.correcting = None, False
    if deps.settings.output is None:
        return None
    try:
        turn.structured_output = deps.settings.output.parse(text)
    except OutputMisfitError as error:
        return str(error)
    return None


async def _ask_for_correction(turn: TurnState, problem: str) -> TextVerdict:
    turn.corrections += 1
    turn.correcting = True
    turn.conversation.append(turn.next_uid(), UserMessage(correction(problem)))
    stop = await save_owed(turn)
    if stop is not None:
        return stop
    await turn.events.emit(StatusChanged("correction", f"the answer is asked for again: {problem}"))
    return Continue(problem)


def _spent(turn: TurnState) -> TurnExitReason:
    """Why this is a summary call."""
    return turn.spent.reason if turn.spent is not None else "max_iterations"


async def handle_discarded_response(turn: TurnState, deps: TurnDeps, discard: Discard) -> TextVerdict:
    """Nothing of it enters the conversation; ask again a bounded number of times, then say so.

    Text that stood beside an earlier tool call never takes its place; text beside a call that could not be
    read is taken back where the model is asked again.
    """
    if turn.summary_call:
        return Stop(_spent(turn), discard.error)
    turn.empty_responses += 1
    if discard.ask_again and turn.empty_responses <= deps.limits.empty_responses:
        if turn.attempt_text.strip() and will_ask_again(turn):  # else it is what there is of an answer
            await discard_attempt(turn, discard.error)
        return Continue(discard.error)
    return Stop(discard.reason, discard.error)
