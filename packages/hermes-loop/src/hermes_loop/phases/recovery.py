"""`handle_api_error`: from a failed attempt to what is done about it."""

from __future__ import annotations

from hermes_loop.events import AttemptDiscarded, StatusChanged
from hermes_loop.phases.compress import can_compress
from hermes_loop.recovery_policy import Options, decide_recovery
from hermes_loop.request_changes import find_change
from hermes_loop.turn_state import TurnDeps, TurnState
from hermes_loop.verdicts import ErrorVerdict, Failed, Resend, Retry
from hermes_messages import ChatRequest

__all__ = ["discard_attempt", "handle_api_error"]


async def handle_api_error(
    turn: TurnState, deps: TurnDeps, request: ChatRequest, failed: Failed
) -> ErrorVerdict:
    """Decide by the table; before the request is sent again tell the host to discard what it saw of it."""
    tried = {*turn.route_failures, turn.route.place}
    options = Options(
        fallback_left=deps.routes.next(tried, deps.clock.monotonic()) is not None,
        can_compress=can_compress(turn, deps, refused=True),
        change=find_change(failed.error, request, turn.change),
    )
    verdict = decide_recovery(failed.error, turn.attempts, options, deps.policy, deps.rng.random())
    match verdict:
        case Retry(after_s=after_s):
            await discard_attempt(turn, verdict.reason)
            await turn.events.emit(StatusChanged("retry", f"{failed.error}; asking again in {after_s:.1f} s"))
        case Resend(change=change):
            turn.change = change
            await discard_attempt(turn, verdict.reason)
            await turn.events.emit(StatusChanged("retry", f"{failed.error}; asking again without that"))
        case _:
            pass
    return verdict


async def discard_attempt(turn: TurnState, reason: str) -> None:
    """What came of the attempt is no part of the answer."""
    turn.attempt_text = ""
    await turn.events.emit(AttemptDiscarded(reason))
