"""One turn, on one screen: the phases in order, and what is done about each verdict."""

from __future__ import annotations

import asyncio
import logging
import traceback
from typing import assert_never

from hermes_loop.events import StepEnded, StepStarted, TurnStarted
from hermes_loop.hook_calls import transform_response
from hermes_loop.phases.begin import begin_iteration
from hermes_loop.phases.call import obtain_response
from hermes_loop.phases.finalize import finalize_turn
from hermes_loop.phases.normalize import normalise_response
from hermes_loop.phases.prepare import prepare_iteration
from hermes_loop.phases.route import choose_route
from hermes_loop.phases.text_response import finish_text_response, handle_discarded_response
from hermes_loop.phases.tool_round import resume_tool_round, run_tool_round
from hermes_loop.phases.turn_context import build_turn_context
from hermes_loop.phases.whole_turn import run_whole_turn
from hermes_loop.shielding import is_being_cancelled
from hermes_loop.turn_log import log_phase
from hermes_loop.turn_state import ResumeRequest, TurnDeps, TurnRequest, TurnState
from hermes_loop.verdicts import (
    Answer,
    Continue,
    Discard,
    Ending,
    Finish,
    Proceed,
    RunTools,
    Stop,
    Suspend,
    TextVerdict,
    ToolRoundVerdict,
)
from hermes_messages import AssistantMessage, HermesError, TurnStoppedError
from hermes_messages.protocols import ConversationResult

__all__ = ["run_turn"]


async def run_turn(turn: TurnState, deps: TurnDeps) -> ConversationResult:
    """The whole turn. Every way out goes through `finalize_turn`; a cancellation is raised after it."""
    try:
        ending = await _run_phases(turn, deps)
    except asyncio.CancelledError as error:
        if is_being_cancelled():
            await finalize_turn(turn, deps, Stop("cancelled"))
            raise
        log_phase(turn, "run_turn", "InternalError", logging.ERROR, traceback.format_exc())
        ending = Stop("internal_error", f"something that the turn waited for was cancelled ({error!r})")
    except TurnStoppedError as error:
        turn.attempt_text = ""  # a hook that stops the turn wants none of what came last
        ending = Stop("stopped_by_hook", str(error))
    except (KeyboardInterrupt, SystemExit):
        await finalize_turn(turn, deps, Stop("cancelled"))
        raise
    except Exception as error:  # noqa: BLE001 - a failed turn is a result; what failed is in it
        text = str(error) if isinstance(error, HermesError) else f"{type(error).__name__}: {error}"
        log_phase(turn, "run_turn", "InternalError", logging.ERROR, traceback.format_exc())
        ending = Stop("internal_error", text)
    return await finalize_turn(turn, deps, ending)


async def _run_phases(turn: TurnState, deps: TurnDeps) -> Ending:
    opened = await _open(turn, deps)
    if not isinstance(opened, Continue):
        return opened
    while True:
        begin = begin_iteration(turn)
        if turn.logged:
            log_phase(turn, "begin_iteration", begin)
        if not isinstance(begin, Proceed):
            return begin
        stop = await prepare_iteration(turn, deps)
        if turn.logged:
            log_phase(turn, "prepare_iteration", stop)
        if stop is not None:
            return stop
        if deps.runtime is None:
            verdict = await _ask_model(turn, deps)
        else:
            verdict = await run_whole_turn(turn, deps, deps.runtime)
            log_phase(turn, "run_whole_turn", verdict)
            await turn.events.emit(StepEnded(turn.steps, turn.step_usage))
        match verdict:
            case Continue():
                continue
            case Finish() | Stop():
                return verdict
            case Suspend():
                return _suspended(verdict)
            case unreachable:
                assert_never(unreachable)


async def _open(turn: TurnState, deps: TurnDeps) -> Continue | Ending:
    """What is done once, before the model is asked."""
    await turn.events.emit(TurnStarted(turn.session_id, turn.task_id, turn.turn_id))
    stop = choose_route(turn, deps)
    if turn.logged:
        log_phase(turn, "choose_route", stop, text=turn.route.label)
    if stop is not None:
        return stop
    stop = await build_turn_context(turn, deps)
    if turn.logged:
        log_phase(turn, "build_turn_context", stop)
    if stop is not None:
        return stop
    return await _opening_round(turn, deps)


async def _opening_round(turn: TurnState, deps: TurnDeps) -> Continue | Ending:
    """What a turn does before it asks the model: finish the round that waited, or run a scripted prelude."""
    request = turn.request
    if isinstance(request, TurnRequest) and not request.prelude:
        return Continue("no opening round")
    turn.steps += 1
    await turn.events.emit(StepStarted(turn.steps))
    if isinstance(request, ResumeRequest):
        verdict = await resume_tool_round(turn, deps, request.decisions)
        log_phase(turn, "resume_tool_round", verdict)
    else:
        verdict = await run_tool_round(turn, deps, AssistantMessage(None, tool_calls=request.prelude))
        log_phase(turn, "run_prelude", verdict)
    await turn.events.emit(StepEnded(turn.steps, None))
    return _suspended(verdict) if isinstance(verdict, Suspend) else verdict


def _suspended(verdict: Suspend) -> Stop:
    names = ", ".join(waiting.call.name for waiting in verdict.pending)
    return Stop("approval_pending", f"waiting for a decision on: {names}")


async def _ask_model(turn: TurnState, deps: TurnDeps) -> ToolRoundVerdict | TextVerdict:
    """One answer of the model and what follows from it."""
    called = await obtain_response(turn, deps)
    if isinstance(called, Stop):
        return _in_summary(turn, called)
    said = called.response
    if deps.hooks.transform_response:
        said = await transform_response(turn, deps, said)
    response = normalise_response(said, summary_call=turn.summary_call)
    if turn.logged:
        log_phase(turn, "normalise_response", response)
    verdict: ToolRoundVerdict | TextVerdict
    match response:
        case RunTools(message=message):
            phase, verdict = "run_tool_round", await run_tool_round(turn, deps, message)
        case Answer():
            phase, verdict = "finish_text_response", await finish_text_response(turn, deps, response)
        case Discard():
            verdict = await handle_discarded_response(turn, deps, response)
            phase = "handle_discarded_response"
        case unreachable:
            assert_never(unreachable)
    if turn.logged:
        log_phase(turn, phase, verdict)
    if turn.events.listened_to:
        await turn.events.emit(StepEnded(turn.steps, turn.step_usage))
    return verdict


def _in_summary(turn: TurnState, stop: Stop) -> Stop:
    """A summary call that fails changes nothing about why the turn ended."""
    if turn.summary_call and turn.spent is not None and turn.interruption() is None:
        return Stop(turn.spent.reason, f"{turn.spent.text}; no summary: {stop.error}")
    return stop
