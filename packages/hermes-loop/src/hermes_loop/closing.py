"""How a turn that did not end by itself leaves the conversation: valid, and saying what happened. Pure.

Every exit of this kind goes through here, whatever its reason.
"""

from __future__ import annotations

from typing import Final

from hermes_loop.conversation import Conversation
from hermes_loop.journal import RoundRecord
from hermes_loop.verdicts import Ending, Finish
from hermes_messages import AssistantMessage, ToolMessage, TranscriptState
from hermes_messages.protocols import TurnExitReason

__all__ = ["close_conversation", "explain", "missing_results"]

INTERRUPTED: Final = (
    "Interrupted: this call was stopped, or its end was not recorded. It may have run in part."
)
NOT_STARTED: Final = "Not run: the turn ended before this call was started."


def missing_results(record: RoundRecord, *, ran: bool) -> list[ToolMessage]:
    """A result for each call, to be used where none came. `ran`: the tools of the round were started."""
    return [
        ToolMessage(
            tool_call_id=call.id,
            content=INTERRUPTED if ran else NOT_STARTED,
            name=call.name,
            status="interrupted" if ran else "not_started",
        )
        for call in record.message.tool_calls
    ]


def explain(reason: TurnExitReason, error: str | None, max_iterations: int) -> str:
    """One sentence on why there is no answer."""
    text: str
    match reason:
        case "max_iterations":
            text = f"The limit of {max_iterations} model calls was reached before a final answer."
        case "budget_exhausted":
            text = f"The turn ended before a final answer: {error or 'a budget is spent'}."
        case "interrupted":
            text = "The turn was interrupted before a final answer."
        case "stopped_by_hook":
            text = "The turn was stopped by a hook before a final answer."
        case "approval_pending":
            text = error or "The turn waits for a decision on a tool call."
        case "cancelled":
            text = "The turn was cancelled before a final answer."
        case _:
            text = f"The turn ended before a final answer ({reason})."
    return text


def close_conversation(
    conversation: Conversation,
    ending: Ending,
    *,
    uid: str,
    partial_text: str,
    tools_started: bool,
    max_iterations: int,
) -> None:
    """Answer open calls, keep the text that was on its way, and leave no tool result without a word after it.

    A round that waits for a decision stays open. A user message that no model call answered stays the last
    message: nothing is invented as its answer.
    Idempotent.
    """
    if conversation.open_round is not None:
        spare = missing_results(conversation.open_round, ran=tools_started)
        if conversation.pending:
            conversation.fill_tool_round(spare)
            return
        conversation.close_tool_round(spare)
    if conversation.state is TranscriptState.ANSWERED:
        return
    if partial_text.strip():
        conversation.append(uid, AssistantMessage(partial_text, finish_reason=ending.reason))
    elif conversation.state is TranscriptState.RESULTS_GIVEN:
        error = None if isinstance(ending, Finish) else ending.error
        note = explain(ending.reason, error, max_iterations)
        conversation.append(uid, AssistantMessage(f"[{note}]", finish_reason=ending.reason))
