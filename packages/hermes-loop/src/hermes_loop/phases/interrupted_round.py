"""A stored round that died mid-way: run its idempotent calls again, where the host wants that.

Without `AIAgent(rerun_idempotent_tools=True)` nothing here does anything, and every missing result becomes an
"unknown" one.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from hermes_loop.journal import RoundRecord
from hermes_loop.phases.tool_round import execute_calls
from hermes_loop.resume import OpenRound, begin_again, unknown_result, waits_for_decision
from hermes_loop.turn_state import TurnDeps, TurnState
from hermes_messages import ToolMessage, UserMessage
from hermes_messages.abilities import supports
from hermes_messages.protocols import (
    RoundContext,
    RoundOutcome,
    SessionStore,
    StoredMessage,
    SupportsRepetition,
)

__all__ = ["finish_interrupted_round", "read_interrupted_round"]


async def read_interrupted_round(
    turn: TurnState, deps: TurnDeps, store: SessionStore, rows: Sequence[StoredMessage], round_: OpenRound
) -> RoundRecord | None:
    """The round as one that can be gone on with; None where it is settled as it stands: another message came
    after it, it waits for a decision, or nobody says which calls may run again. Raises `StoreError`."""
    if not deps.rerun_idempotent or not supports(deps.executor, SupportsRepetition):
        return None
    before = [row.message for row in rows if row.seq < round_.seq]
    later = [row.message for row in rows if row.seq > round_.seq]
    if not before or not isinstance(before[-1], UserMessage | ToolMessage):
        return None
    if not all(isinstance(message, ToolMessage) for message in later):
        return None
    if await waits_for_decision(store, turn.session_id, round_):
        return None
    stored = await begin_again(store, turn.session_id, round_, turn.lease.token)
    if stored is None:
        return None
    known = {message.tool_call_id: message for message in later if isinstance(message, ToolMessage)}
    results: list[ToolMessage | None] = [known.get(call.id) for call in round_.message.tool_calls]
    saved = {position for position, result in enumerate(results) if result is not None}
    return RoundRecord(round_.uid, round_.message, results, stored, saved)


async def finish_interrupted_round(turn: TurnState, deps: TurnDeps) -> None:
    """Run the calls of the open round that may run twice, and give "unknown" results to the others. What an
    interrupt, or a question to a person, keeps from running is unknown too. Raises `StoreError`."""
    record = turn.conversation.open_round
    executor = deps.executor
    if record is None or not supports(executor, SupportsRepetition):
        return
    calls = record.message.tool_calls
    again = [
        at for at, result in enumerate(record.results) if result is None and executor.may_repeat(calls[at])
    ]

    async def run(context: RoundContext) -> RoundOutcome:
        async def on_result(place: int, result: ToolMessage) -> None:
            await context.on_result(again[place], result)

        chosen = [calls[position] for position in again]
        return await executor.execute(chosen, replace(context, on_result=on_result))

    if again and turn.interruption() is None:
        outcome = await execute_calls(turn, deps, calls, record, run)
        for place, result in enumerate(outcome.results if outcome is not None else ()):
            if result is not None:
                await turn.conversation.journal.save_result(record, again[place], result, turn.lease.token)
    turn.conversation.close_tool_round([unknown_result(call) for call in calls])
