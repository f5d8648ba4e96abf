"""`run_whole_turn`: a runtime outside takes the place of the model calls and tool rounds of a turn."""

from __future__ import annotations

from collections.abc import Callable

from hermes_loop.closing import missing_results
from hermes_loop.journal import RoundRecord
from hermes_loop.phases.normalize import answer_text
from hermes_loop.phases.persist import save_owed, stop_for_store_error
from hermes_loop.phases.text_response import finish_text_response
from hermes_loop.runtime import SupportsWholeTurn, WholeTurnAnswer, WholeTurnContext
from hermes_loop.turn_state import TurnDeps, TurnState
from hermes_loop.verdicts import Answer, Stop, TextVerdict
from hermes_messages import (
    AssistantMessage,
    InvariantError,
    ProviderError,
    ReasoningDelta,
    StoreError,
    TextDelta,
    ToolMessage,
    add_usage,
)

__all__ = ["run_whole_turn"]


async def run_whole_turn(turn: TurnState, deps: TurnDeps, runtime: SupportsWholeTurn) -> TextVerdict:
    """One answer of the runtime, with all that it did for it on record."""
    turn.attempt_text = ""
    try:
        answer = await _work(turn, deps, runtime)
    except ProviderError as error:
        turn.error_kind = error.kind
        return Stop("provider_error", str(error))
    except StoreError as error:
        return stop_for_store_error(turn, error)
    if answer is None:
        return turn.interruption() or Stop("interrupted")
    if turn.conversation.open_round is not None:
        turn.conversation.close_tool_round(missing_results(turn.conversation.open_round, ran=True))
    _account(turn, answer)
    message = answer.message
    if message.tool_calls or not answer_text(message).strip():
        return Stop("empty_response", f"{runtime.name} gave no final text")
    return await finish_text_response(turn, deps, Answer(message, "text_response"))


async def _work(turn: TurnState, deps: TurnDeps, runtime: SupportsWholeTurn) -> WholeTurnAnswer | None:
    """What the runtime answers; None when an interrupt ended its work."""
    answer: object = None
    at_work = True
    try:
        with turn.interrupt.scope() as scope:
            answer = await runtime.run_whole_turn(_context(turn, deps, lambda: at_work))
    finally:
        at_work = False
    if scope.cancelled_caught:
        return None
    if not isinstance(answer, WholeTurnAnswer):
        raise TypeError(f"{runtime.name} must return a WholeTurnAnswer, not {type(answer).__name__}")
    return answer


def _context(turn: TurnState, deps: TurnDeps, at_work: Callable[[], bool]) -> WholeTurnContext:
    async def show(event: TextDelta | ReasoningDelta) -> None:
        if isinstance(event, TextDelta):
            turn.attempt_text += event.text
        await turn.events.emit(event)

    async def record(message: AssistantMessage | ToolMessage) -> None:
        if not at_work():  # something that the runtime left running: a later turn may be under way
            raise InvariantError(
                "runtime_ended", "the runtime has ended its turn", index=len(turn.conversation.messages)
            )
        await _record(turn, message)

    return WholeTurnContext(
        session_id=turn.session_id,
        task_id=turn.task_id,
        turn_id=turn.turn_id,
        cwd=deps.cwd,
        system_prompt=turn.conversation.system_prompt or "",
        messages=tuple(turn.conversation.messages),
        tools=turn.snapshot.tools,
        interrupt=turn.interrupt,
        show=show,
        record=record,
    )


async def _record(turn: TurnState, message: AssistantMessage | ToolMessage) -> None:
    """Durable when this returns. Raises `InvariantError`, `StoreError`."""
    conversation = turn.conversation
    round_ = conversation.open_round
    if isinstance(message, ToolMessage):
        await _record_result(turn, round_, message)
        return
    index = len(conversation.messages)
    if round_ is not None:
        raise InvariantError("results_owed", "the calls before have no results yet", index=index)
    if not message.tool_calls:
        raise InvariantError(
            "one_answer_at_a_time", "the final message is what a runtime returns", index=index
        )
    turn.attempt_text = ""
    turn.tools_started = True
    conversation.open_tool_round(turn.next_uid(), message)
    stop = await save_owed(turn)
    if stop is not None:
        raise StoreError(stop.error or stop.reason)


async def _record_result(turn: TurnState, round_: RoundRecord | None, message: ToolMessage) -> None:
    calls = round_.message.tool_calls if round_ is not None else ()
    place = next((i for i, call in enumerate(calls) if call.id == message.tool_call_id), None)
    if round_ is None or place is None:
        raise InvariantError(
            "result_needs_open_call",
            "no call waits for this result",
            index=len(turn.conversation.messages),
            call_id=message.tool_call_id,
        )
    await turn.conversation.journal.save_result(round_, place, message, turn.lease.token)
    if all(result is not None for result in round_.results):
        turn.conversation.close_tool_round(missing_results(round_, ran=True))
        stop = await save_owed(turn)
        if stop is not None:
            raise StoreError(stop.error or stop.reason)


def _account(turn: TurnState, answer: WholeTurnAnswer) -> None:
    turn.api_calls += answer.api_calls
    turn.used.api_calls += answer.api_calls
    turn.used.usage = add_usage(turn.used.usage, answer.usage)
    turn.step_usage = answer.usage
    turn.budget.add(answer.usage, 0)
