"""`assemble_api_request`: the request, from what the turn knows. Pure."""

from __future__ import annotations

from typing import Final

from hermes_loop.request_changes import apply_change
from hermes_loop.turn_state import ModelSettings, TurnState
from hermes_messages import ChatRequest, History, UserMessage

__all__ = ["SUMMARY_NOTE", "assemble_api_request"]

SUMMARY_NOTE: Final = (
    "The limit of tool calls for this request is reached. Answer now from what you have found out, "
    "without calling tools, and say what is left to do."
)


def assemble_api_request(turn: TurnState, settings: ModelSettings) -> ChatRequest:
    """The history that only grows, the tools of this turn, the agent's settings.

    The note of the summary call is in its request only; it never becomes part of the conversation.
    """
    history = turn.conversation.history()
    if turn.summary_call:
        history = History.of((*history, UserMessage(SUMMARY_NOTE)))
    request = ChatRequest(
        model=turn.route.model,
        history=history,
        tools=turn.tools,
        max_tokens=settings.max_tokens,
        temperature=settings.temperature,
        seed=settings.seed,
        reasoning_effort=settings.reasoning_effort,
        extra_body=settings.extra_body,
        session_id=turn.session_id,
    )
    return apply_change(request, turn.change)
