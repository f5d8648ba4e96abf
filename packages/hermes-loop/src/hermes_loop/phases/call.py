"""The retry loop around one model call: `perform_api_call`, `handle_api_error`, and the wait between."""

from __future__ import annotations

import logging
import traceback
from typing import assert_never

from hermes_loop.accounting import account_for
from hermes_loop.events import ModelCallEnded, ModelCallStarted
from hermes_loop.hook_calls import transform_request
from hermes_loop.phases.assemble import assemble_api_request
from hermes_loop.phases.begin import begin_again
from hermes_loop.phases.compress import compress_context
from hermes_loop.phases.preflight import run_preflight_gate
from hermes_loop.phases.recovery import discard_attempt, handle_api_error
from hermes_loop.phases.route import explain_failures, fall_back, note_exhausted
from hermes_loop.request_changes import apply_change
from hermes_loop.turn_log import log_phase
from hermes_loop.turn_state import RouteUsage, TurnDeps, TurnState
from hermes_loop.verdicts import (
    AttemptVerdict,
    Completed,
    Compress,
    Failed,
    Fallback,
    Proceed,
    Recheck,
    Resend,
    Retry,
    RetryLoopVerdict,
    Stop,
    Terminate,
)
from hermes_messages import (
    ChatRequest,
    ChatResponse,
    ConfigurationError,
    ErrorKind,
    FinishReason,
    HermesError,
    ProviderError,
    ReasoningDelta,
    ResponseDone,
    StreamEvent,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallStarted,
)

__all__ = ["obtain_response", "run_retry_loop", "show"]


async def obtain_response(turn: TurnState, deps: TurnDeps) -> Completed | Stop:
    """Assemble, gate, retry loop; a Recheck goes through all three again.

    Bounded: each route is tried once for one answer, each change made once for a route, and the context
    rechecked so often as the limits say. What a compression cost may spend the budget.
    """
    turn.route_failures.clear()
    turn.rechecks = 0
    while True:
        request = assemble_api_request(turn, deps.settings)
        if turn.logged:
            log_phase(turn, "assemble_api_request", request)
        if deps.hooks.transform_request:
            request = await transform_request(turn, deps, request)
        request = apply_change(request, turn.change)
        gate = run_preflight_gate(turn, deps)
        if turn.logged:
            log_phase(turn, "build_api_request", request, text=f"for {turn.route.label}")
            log_phase(turn, "run_preflight_gate", gate)
        if isinstance(gate, Proceed):
            outcome = await run_retry_loop(turn, deps, request)
            if turn.logged:
                log_phase(turn, "retry_loop", outcome)
        else:
            outcome = await _held_back(turn, deps, gate)
        match outcome:
            case Completed() | Stop():
                return outcome
            case Recheck(reason=reason, cause="context"):
                turn.rechecks += 1
                if turn.rechecks > deps.limits.rechecks:
                    return Stop("context_overflow", f"the request was rechecked too often: {reason}")
                spent = begin_again(turn)
                if spent is not None:
                    return spent
            case Recheck():
                pass


async def _held_back(turn: TurnState, deps: TurnDeps, gate: Compress | Stop) -> Recheck | Stop:
    """What becomes of a request that the gate does not let through."""
    match gate:
        case Stop(reason="context_overflow", error=error):
            overflow = ProviderError(error or "the context is full", kind=ErrorKind.CONTEXT_OVERFLOW)
            return Recheck("context_overflow", "route") if await fall_back(turn, deps, overflow) else gate
        case Stop():
            return gate
        case Compress(reason=reason):
            return await compress_context(turn, deps, reason=reason, required=False)
        case unreachable:
            assert_never(unreachable)


async def run_retry_loop(turn: TurnState, deps: TurnDeps, request: ChatRequest) -> RetryLoopVerdict:
    """Send `request` until it is answered, has to change, or the policy gives up."""
    perform_api_call = _watched_attempt if turn.events.watched else _attempt
    turn.attempts = 0
    while True:
        turn.attempts += 1
        attempt = await perform_api_call(turn, deps, request)
        if turn.logged:
            log_phase(turn, "perform_api_call", attempt)
        match attempt:
            case Completed(response=response) if response.finish is FinishReason.CONTENT_FILTER:
                return await _kept_or_asked_elsewhere(turn, deps, attempt)
            case Completed() | Stop():
                return attempt
            case Failed(error=error):
                verdict = await handle_api_error(turn, deps, request, attempt)
                log_phase(turn, "handle_api_error", verdict, logging.INFO)
        match verdict:
            case Retry(after_s=after_s):
                stop = await _wait(turn, deps, after_s)
                if stop is not None:
                    return stop
            case Resend(reason=why):
                return Recheck(why, "change")
            case Fallback(reason=why):
                await fall_back(turn, deps, error)
                return Recheck(why, "route")
            case Terminate(reason=reason):
                return _give_up(turn, deps, error, Stop(reason, verdict.error))
            case Compress(reason=why):
                return await _compress_as_refused(turn, deps, error, why)
            case unreachable:
                assert_never(unreachable)


async def _compress_as_refused(
    turn: TurnState, deps: TurnDeps, error: ProviderError, reason: str
) -> RetryLoopVerdict:
    """The host refused the prompt as too long: a shorter one, else another route, else the end."""
    await discard_attempt(turn, reason)
    compressed = await compress_context(turn, deps, reason=str(error), required=True)
    match compressed:
        case Recheck():
            return compressed
        case Stop(reason="context_overflow"):
            if await fall_back(turn, deps, error):
                return Recheck(reason, "route")
            return _give_up(turn, deps, error, compressed)
        case Stop():
            return compressed
        case unreachable:
            assert_never(unreachable)


async def _kept_or_asked_elsewhere(turn: TurnState, deps: TurnDeps, completed: Completed) -> RetryLoopVerdict:
    """An answer that the host's filter cut off is a refusal of this route: another one may answer."""
    refusal = ProviderError("the host's content filter held the answer back", kind=ErrorKind.CONTENT_POLICY)
    return Recheck("content_policy", "route") if await fall_back(turn, deps, refusal) else completed


def _give_up(turn: TurnState, deps: TurnDeps, error: ProviderError, stop: Stop) -> Stop:
    before = explain_failures(turn.route_failures, deps.routes)
    note_exhausted(turn, deps, error)
    turn.error_kind = error.kind
    return Stop(stop.reason, f"{stop.error} (before that {before})" if before else stop.error)


async def _watched_attempt(turn: TurnState, deps: TurnDeps, request: ChatRequest) -> AttemptVerdict:
    """One attempt, told to the hooks that watch."""
    provider = turn.route.provider
    host = provider.origin(request.model).host
    turn.events.tell(ModelCallStarted(provider.name, host, request, turn.attempts))
    ended = ModelCallEnded()
    try:
        verdict = await _attempt(turn, deps, request)
        ended = _ended(verdict)
    except BaseException as error:
        ended = ModelCallEnded(error=error)
        raise
    finally:
        turn.events.tell(ended)
    return verdict


def _ended(verdict: AttemptVerdict) -> ModelCallEnded:
    match verdict:
        case Completed(response=response):
            return ModelCallEnded(response=response)
        case Failed(error=error):
            return ModelCallEnded(error=error)
        case Stop():
            return ModelCallEnded()
        case unreachable:
            assert_never(unreachable)


async def _attempt(turn: TurnState, deps: TurnDeps, request: ChatRequest) -> AttemptVerdict:
    """The stream is closed before this returns, on every path, and nothing that an attempt still
    says after its end reaches anyone. A bug of a provider is a failure where another may answer."""
    this = turn.live_attempt = object()
    response: ChatResponse | None = None
    with turn.interrupt.scope():
        try:
            if not deps.routes.is_open(turn.route):
                await _open(turn, deps)
            turn.api_calls += 1
            used = turn.used
            used.api_calls += 1
            stream = turn.route.provider.stream(request)
            try:
                async for event in stream:
                    if isinstance(event, ResponseDone):
                        response = event.response
                    elif turn.events.listened_to:
                        await show(turn, event, this)
                    elif isinstance(event, TextDelta):
                        turn.attempt_parts.append(event.text)
            finally:
                await stream.aclose()
        except ProviderError as error:
            return Failed(error)
        except Exception as error:  # a bug of this provider: another route may answer
            if isinstance(error, HermesError) or not deps.routes.several:
                raise
            log_phase(turn, "perform_api_call", "InternalError", logging.ERROR, traceback.format_exc())
            bug = ProviderError(f"a bug: {type(error).__name__}: {error}", kind=ErrorKind.UNKNOWN)
            return Failed(bug)
        finally:
            turn.live_attempt = None
    if response is None:
        stop = turn.interruption()
        if stop is not None:
            return stop
        cut_off = ProviderError("the stream ended without a response", kind=ErrorKind.TRANSPORT)
        return Failed(cut_off)
    if turn.events.listened_to:
        await turn.events.attempt_succeeded()
    _account(turn, used, request, response)
    return Completed(response)


async def _open(turn: TurnState, deps: TurnDeps) -> None:
    """A route that can not even be opened is one that fails, where there is another."""
    try:
        await deps.routes.open(turn.route)
    except ConfigurationError as error:
        if not deps.routes.several:
            raise
        raise ProviderError(str(error), kind=ErrorKind.NOT_FOUND) from error


async def show(turn: TurnState, event: StreamEvent, attempt: object) -> None:
    """Hand on what the live attempt says; another one is no longer listened to."""
    if turn.live_attempt is not attempt:
        return
    match event:
        case TextDelta(text=text):
            turn.attempt_parts.append(text)
            await turn.events.emit(event)
        case ReasoningDelta() | ToolCallStarted():
            await turn.events.emit(event)
        case ToolCallArgumentsDelta() | ResponseDone():
            pass


def _account(turn: TurnState, used: RouteUsage, request: ChatRequest, response: ChatResponse) -> None:
    account_for(turn, used, request, response)
    turn.step_usage = response.usage
    turn.last_input_tokens = response.usage.input_tokens if response.usage else None
    if turn.last_input_tokens is not None and not turn.summary_call:
        turn.conversation.calibrate(turn.last_input_tokens)


async def _wait(turn: TurnState, deps: TurnDeps, seconds: float) -> Stop | None:
    """Wait before the next attempt; why the turn ends when an interrupt cut it short."""
    with turn.interrupt.scope():
        await deps.clock.sleep(seconds)
    return turn.interruption()
