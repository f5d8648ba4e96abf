"""`prepare_iteration`: hand over what the host wants to say, and tell it that a step begins."""

from __future__ import annotations

from hermes_loop.events import SteerDelivered, StepStarted
from hermes_loop.phases.persist import save_owed
from hermes_loop.turn_state import TurnDeps, TurnState
from hermes_loop.verdicts import PrepareVerdict
from hermes_messages import UserMessage

__all__ = ["prepare_iteration"]


async def prepare_iteration(turn: TurnState, deps: TurnDeps) -> PrepareVerdict:
    """Steer notes become user messages at this boundary, durable before the model sees them."""
    turn.step_usage = None
    turn.attempt_parts.clear()
    turn.steps += 1
    if turn.events.listened_to:
        await turn.events.emit(StepStarted(turn.steps))
    if turn.summary_call or not deps.steering.waiting:
        return None
    notes = deps.steering.take()
    for note in notes:
        turn.conversation.append(turn.next_uid(), UserMessage(note.text))
        note.deliver()
    stop = await save_owed(turn)
    if stop is None:
        for note in notes:
            await turn.events.emit(SteerDelivered(note.text))
    return stop
