"""The retry loop around one model call: `perform_api_call`, `handle_api_error`, and the wait between."""

from __future__ import annotations

import logging
from contextlib import aclosing
from typing import assert_never

from hermes_loop.phases.assemble import assemble_api_request
from hermes_loop.phases.preflight import run_preflight_gate
from hermes_loop.phases.recovery import handle_api_error
from hermes_loop.turn_log import log_phase
from hermes_loop.turn_state import TurnDeps, TurnState
from hermes_loop.verdicts import (
    AttemptVerdict,
    Completed,
    Compress,
    Failed,
    Fallback,
    Proceed,
    Recheck,
    Retry,
    RetryLoopVerdict,
    Stop,
    Terminate,
)
from hermes_messages import (
    ChatRequest,
    ChatResponse,
    ErrorKind,
    ProviderError,
    ReasoningDelta,
    ResponseDone,
    StreamEvent,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallStarted,
    add_usage,
)

__all__ = ["obtain_response", "perform_api_call", "run_retry_loop"]


async def obtain_response(turn: TurnState, deps: TurnDeps) -> Completed | Stop:
    """Assemble, gate, retry loop; a Recheck goes through all three again, a bounded number of times."""
    while True:
        request = assemble_api_request(turn, deps.settings)
        gate = await run_preflight_gate(turn, deps, request)
        log_phase(turn, "run_preflight_gate", gate)
        match gate:
            case Stop() as stop:
                return stop
            case Recheck(reason=reason):
                pass
            case Proceed():
                outcome = await run_retry_loop(turn, deps, request)
                log_phase(turn, "retry_loop", outcome)
                match outcome:
                    case Completed() | Stop():
                        return outcome
                    case Recheck(reason=reason):
                        pass
        turn.rechecks += 1
        if turn.rechecks > deps.limits.rechecks:
            return Stop("unsupported", f"the request was rechecked too often: {reason}")


async def run_retry_loop(turn: TurnState, deps: TurnDeps, request: ChatRequest) -> RetryLoopVerdict:
    """Send `request` until it is answered or the policy gives up."""
    turn.attempts = 0
    while True:
        turn.attempts += 1
        attempt = await perform_api_call(turn, request)
        log_phase(turn, "perform_api_call", attempt)
        match attempt:
            case Completed() | Stop():
                return attempt
            case Failed() as failed:
                verdict = await handle_api_error(turn, deps, failed)
                log_phase(turn, "handle_api_error", verdict, logging.INFO)
        match verdict:
            case Retry(after_s=after_s):
                if not await _wait(turn, deps, after_s):
                    return _stop_interrupted(turn)
            case Terminate(reason=reason, error=error):
                turn.error_kind = failed.error.kind
                return Stop(reason, error)
            case Fallback(reason=why) | Compress(reason=why):
                # Neither has anything to go to in this version, so the policy never answers so.
                return Stop("unsupported", f"no other route and no compression in this version: {why}")
            case unreachable:
                assert_never(unreachable)


async def perform_api_call(turn: TurnState, request: ChatRequest) -> AttemptVerdict:
    """One attempt. The stream is closed before this returns, on every path."""
    turn.api_calls += 1
    turn.attempt_text = ""
    response: ChatResponse | None = None
    with turn.interrupt.scope():
        try:
            async with aclosing(turn.route.provider.stream(request)) as events:
                async for event in events:
                    if isinstance(event, ResponseDone):
                        response = event.response
                    else:
                        await _show(turn, event)
        except ProviderError as error:
            return Failed(error, shown_text=bool(turn.attempt_text))
    if response is None:
        if turn.interrupt.requested:
            return _stop_interrupted(turn)
        cut_off = ProviderError("the stream ended without a response", kind=ErrorKind.TRANSPORT)
        return Failed(cut_off, shown_text=bool(turn.attempt_text))
    await turn.events.attempt_succeeded()
    _account(turn, response)
    return Completed(response)


async def _show(turn: TurnState, event: StreamEvent) -> None:
    match event:
        case TextDelta(text=text):
            turn.attempt_text += text
            await turn.events.emit(event)
        case ReasoningDelta() | ToolCallStarted():
            await turn.events.emit(event)
        case ToolCallArgumentsDelta() | ResponseDone():
            pass


def _account(turn: TurnState, response: ChatResponse) -> None:
    turn.usage = add_usage(turn.usage, response.usage)
    turn.step_usage = response.usage
    turn.last_input_tokens = response.usage.input_tokens if response.usage else None


async def _wait(turn: TurnState, deps: TurnDeps, seconds: float) -> bool:
    """Wait before the next attempt; False when an interrupt cut it short."""
    with turn.interrupt.scope():
        await deps.clock.sleep(seconds)
    return not turn.interrupt.requested


def _stop_interrupted(turn: TurnState) -> Stop:
    if turn.lease.lost:
        return Stop("lease_lost", "another process took over the session")
    return Stop("interrupted")
