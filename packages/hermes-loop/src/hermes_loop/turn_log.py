"""The log lines of a turn: each carries session, turn, number of model calls, phase and verdict."""

from __future__ import annotations

import logging

from hermes_loop.turn_state import TurnState
from hermes_loop.verdicts import Finish, Stop

__all__ = ["log_phase"]

logger: logging.Logger = logging.getLogger("hermes_loop.turn")


def log_phase(
    turn: TurnState, phase: str, verdict: object, level: int = logging.DEBUG, text: str = ""
) -> None:
    """One line: the phase, what it answered, and a `text` for a person. Message texts are never logged."""
    if not logger.isEnabledFor(level):
        return
    if isinstance(verdict, Stop | Finish):
        text = f"{verdict.reason} {text}".rstrip()
    name = verdict if isinstance(verdict, str) else type(verdict).__name__
    fields = {
        "session": turn.session_id,
        "turn": turn.turn_id,
        "api_call_count": turn.api_calls,
        "phase": phase,
        "verdict": name,
    }
    logger.log(
        level,
        "session=%s turn=%s api_call_count=%d phase=%s verdict=%s%s",
        turn.session_id,
        turn.turn_id,
        turn.api_calls,
        phase,
        name,
        f" {text}" if text else "",
        extra=fields,
    )
