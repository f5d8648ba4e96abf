"""`handle_api_error`: from a failed attempt to what is done about it."""

from __future__ import annotations

from hermes_loop.events import AttemptDiscarded, StatusChanged
from hermes_loop.recovery_policy import Options, decide_recovery
from hermes_loop.turn_state import TurnDeps, TurnState
from hermes_loop.verdicts import ErrorVerdict, Failed, Retry

__all__ = ["handle_api_error"]


async def handle_api_error(turn: TurnState, deps: TurnDeps, failed: Failed) -> ErrorVerdict:
    """Decide by the table; before a retry tell the host to discard what it saw of the attempt."""
    verdict = decide_recovery(failed.error, turn.attempts, Options(), deps.policy, deps.rng.random())
    if isinstance(verdict, Retry):
        turn.attempt_text = ""
        await turn.events.emit(AttemptDiscarded(verdict.reason))
        await turn.events.emit(
            StatusChanged("retry", f"{failed.error}; asking again in {verdict.after_s:.1f} s")
        )
    return verdict
