"""The log lines of a turn: those of its phases carry session, turn, number of model calls, phase, verdict."""

from __future__ import annotations

import logging
from typing import Final

from hermes_loop.turn_state import TurnState
from hermes_loop.verdicts import Finish, Stop
from hermes_messages.protocols import ConversationResult

__all__ = ["log_phase", "log_unanswered", "logs_phases"]

logger: logging.Logger = logging.getLogger("hermes_loop.turn")

_OF_A_PHASE: Final = logging.DEBUG


def logs_phases() -> bool:
    """Whether anyone wants the lines that tell of a phase and no more."""
    return logger.isEnabledFor(_OF_A_PHASE)


def log_phase(turn: TurnState, phase: str, verdict: object, level: int = _OF_A_PHASE, text: str = "") -> None:
    """One line: the phase, what it answered (None: go on), and a `text` for a person. Message texts are never
    logged. What is said in every turn is worth a call only `if turn.logged`."""
    if not logger.isEnabledFor(level):
        return
    if isinstance(verdict, Stop | Finish):
        text = f"{verdict.reason} {text}".rstrip()
    name = verdict if isinstance(verdict, str) else "Proceed" if verdict is None else type(verdict).__name__
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


def log_unanswered(result: ConversationResult) -> None:
    """Why a turn failed whose caller sees only that there is no text."""
    logger.warning(
        "session=%s turn=%s no answer: %s: %s",
        result["session_id"],
        result["turn_id"],
        result["turn_exit_reason"],
        result["error"],
    )
