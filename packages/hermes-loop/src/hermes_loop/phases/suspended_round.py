"""`restore_suspended_round`: find the round that waits for decisions; check these before anything happens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hermes_loop.journal import RoundRecord, with_suspension
from hermes_loop.resume import unknown_result
from hermes_loop.turn_state import TurnDeps, TurnState
from hermes_messages import AssistantMessage, ConfigurationError, SessionNotFoundError, ToolMessage, repair
from hermes_messages.abilities import supports
from hermes_messages.approvals import ApprovalDecision, match_decisions, pending_from_json
from hermes_messages.protocols import (
    PendingApproval,
    SessionStore,
    StoredMessage,
    SupportsDecisions,
    SuspendedRound,
)

__all__ = ["read_pending", "restore_suspended_round"]


async def restore_suspended_round(
    turn: TurnState, deps: TurnDeps, decisions: Mapping[str, ApprovalDecision]
) -> None:
    """Make the suspended round the open one of the turn's conversation.

    Raises `ConfigurationError`, writing nothing: when no call waits, when the executor can not go on with a
    round, and for decisions that do not fit the calls that wait. Raises `StoreError`.
    """
    conversation = turn.conversation
    if not supports(deps.executor, SupportsDecisions):
        raise ConfigurationError(f"{type(deps.executor).__name__} can not finish a round that was suspended")
    if deps.store is not None:
        known = await deps.store.get_session(turn.session_id) if conversation.pending else None
        if not conversation.is_current(known):
            await _read_round(turn, deps.store)
    conversation.left_at(None)  # until this turn's end has noted it anew
    record = conversation.open_round
    if record is None or not record.pending:
        raise ConfigurationError(f"no call of session {turn.session_id!r} waits for a decision")
    match_decisions(record.message.tool_calls, record.results, decisions)


async def read_pending(store: SessionStore, session_id: str) -> tuple[PendingApproval, ...]:
    """The calls of a stored session that wait for a decision. Raises `StoreError`."""
    marked = await _last_suspended(store, session_id)
    return () if marked is None else pending_from_json(marked.pending)


async def _last_suspended(store: SessionStore, session_id: str) -> SuspendedRound | None:
    marks = with_suspension(store)
    if marks is None:
        return None
    try:
        found = await marks.suspended_rounds(session_id)
    except SessionNotFoundError:
        return None
    return found[-1] if found else None


async def _read_round(turn: TurnState, store: SessionStore) -> None:
    """The conversation as stored, up to the round that waits. What was decided before, by a process that did
    not live to tell the result, is unknown."""
    marked = await _last_suspended(store, turn.session_id)
    rows = [] if marked is None else await store.get_messages(turn.session_id)
    index = next((i for i, row in enumerate(rows) if marked and row.seq == marked.round.assistant_seq), None)
    message = rows[index].message if index is not None else None
    if marked is None or index is None or not isinstance(message, AssistantMessage):
        raise ConfigurationError(f"no call of session {turn.session_id!r} waits for a decision")
    pending = pending_from_json(marked.pending)
    record = _record_of(marked, rows[index], message, rows[index + 1 :], pending)
    turn.conversation.replace(repair([row.message for row in rows[:index]]).messages)
    turn.conversation.journal.forget()
    turn.conversation.reopen_tool_round(record)


def _record_of(
    marked: SuspendedRound,
    row: StoredMessage,
    message: AssistantMessage,
    later: Sequence[StoredMessage],
    pending: tuple[PendingApproval, ...],
) -> RoundRecord:
    places = {seq: position for position, seq in enumerate(marked.round.result_seqs)}
    results: list[ToolMessage | None] = [None] * len(message.tool_calls)
    for stored in later:
        if isinstance(stored.message, ToolMessage) and stored.seq in places:
            results[places[stored.seq]] = stored.message
    saved = {position for position, result in enumerate(results) if result is not None}
    waiting = {item.position for item in pending}
    for position, call in enumerate(message.tool_calls):
        if results[position] is None and position not in waiting:
            results[position] = unknown_result(call)
    return RoundRecord(row.uid, message, results, marked.round, saved, pending, pending)
