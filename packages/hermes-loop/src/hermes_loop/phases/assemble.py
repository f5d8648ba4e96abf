"""`assemble_api_request`: the request, from what the turn knows. Pure."""

from __future__ import annotations

from typing import Final

from hermes_loop.turn_state import ModelSettings, TurnState
from hermes_messages import ChatRequest, ReasoningEffort, UserMessage

__all__ = ["SUMMARY_NOTE", "assemble_api_request"]

SUMMARY_NOTE: Final = (
    "The limit of tool calls for this request is reached. Answer now from what you have found out, "
    "without calling tools, and say what is left to do."
)

_STRONG: Final = frozenset({"xhigh", "max"})


def assemble_api_request(turn: TurnState, settings: ModelSettings) -> ChatRequest:
    """The history that only grows, the tools of this turn, the agent's settings.

    The notes of hooks, on the form of the answer and of the summary call stand at the end of the request
    only; they never become part of the conversation, and the bytes before them stay what they are.
    """
    history = turn.conversation.history()
    notes = [turn.note] if turn.note else []
    if settings.output is not None:
        notes.append(settings.output.instruction)
    if turn.summary_call:
        notes.append(SUMMARY_NOTE)
    if notes:
        history = history.with_tail(map(UserMessage, notes))
    return ChatRequest(
        model=turn.route.model,
        history=history,
        tools=turn.tools,
        max_tokens=settings.max_tokens,
        temperature=settings.temperature,
        seed=settings.seed,
        reasoning_effort=_effort(turn, settings),
        response_schema=settings.output.schema if settings.output is not None else None,
        extra_body=settings.extra_body,
        session_id=turn.session_id,
    )


def _effort(turn: TurnState, settings: ModelSettings) -> ReasoningEffort | None:
    """The effort asked for, or the highest of which the provider on the turn's route knows."""
    effort = settings.reasoning_effort
    if effort in _STRONG and not turn.route.info.strong_efforts:
        return "high"
    return effort
