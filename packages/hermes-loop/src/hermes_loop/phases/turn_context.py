"""`build_turn_context`: all that happens once per turn before the first model call."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from hermes_loop.closing import missing_results
from hermes_loop.context_files import read_context_files
from hermes_loop.hook_calls import gather_note
from hermes_loop.journal import RoundRecord
from hermes_loop.phases.interrupted_round import finish_interrupted_round, read_interrupted_round
from hermes_loop.phases.persist import save_owed, stop_for_store_error
from hermes_loop.resume import (
    answered,
    close_open_rounds,
    find_open_rounds,
    superseded_results,
    unsaved_tail,
)
from hermes_loop.system_prompt import build_system_prompt, needs_rebuild
from hermes_loop.turn_log import log_phase
from hermes_loop.turn_state import TurnDeps, TurnRequest, TurnState
from hermes_loop.verdicts import Stop
from hermes_messages import Message, StoreError, SystemMessage, content_text, repair
from hermes_messages.protocols import SessionRecord, SessionStore, StoredMessage, ToolSnapshot, TurnContext

__all__ = ["build_turn_context"]


async def build_turn_context(turn: TurnState, deps: TurnDeps) -> Stop | None:
    """Resume or create the session, refresh the tools, restore or build the system prompt, and make the
    user's message durable. A turn that finishes a suspended round has restored its messages before."""
    request = turn.request
    try:
        record = await _open_session(turn, deps)
        if isinstance(request, TurnRequest):
            await _restore_messages(turn, deps, record, request.history)
    except StoreError as error:
        return stop_for_store_error(turn, error)
    snapshot: object = await deps.executor.refresh(_tool_context(turn, deps))
    if not isinstance(snapshot, ToolSnapshot):
        raise TypeError(f"the tool executor must return a ToolSnapshot, not {type(snapshot).__name__}")
    turn.snapshot = snapshot
    for absent in turn.snapshot.unavailable:
        text = f"{absent.name}: {absent.reason}"
        log_phase(turn, "build_turn_context", "ToolUnavailable", logging.INFO, text)
    try:
        await _settle_system_prompt(turn, deps, record)
        if isinstance(request, TurnRequest):
            await finish_interrupted_round(turn, deps)
    except StoreError as error:
        return stop_for_store_error(turn, error)
    if isinstance(request, TurnRequest):
        await gather_note(turn, deps, request.user_message)
        turn.conversation.append(turn.next_uid(), request.user_message)
    turn.context_built = True
    return await save_owed(turn)


def _tool_context(turn: TurnState, deps: TurnDeps) -> TurnContext:
    return TurnContext(
        session_id=turn.session_id,
        task_id=turn.task_id,
        turn_id=turn.turn_id,
        cwd=deps.cwd,
        history=turn.conversation.messages,
        store=deps.store,
        agent_factory=deps.agent_factory,
        clarify=deps.callbacks.clarify,
    )


async def _open_session(turn: TurnState, deps: TurnDeps) -> SessionRecord | None:
    if deps.store is None:
        return None
    return await deps.store.ensure_session(turn.session_id, deps.session_info)


async def _restore_messages(
    turn: TurnState, deps: TurnDeps, record: SessionRecord | None, given: Sequence[Message] | None
) -> None:
    conversation = turn.conversation
    superseded = frozenset(item.call.id for item in conversation.pending)
    if conversation.open_round is not None:  # suspended, or a turn was dropped without its finalization
        conversation.fill_tool_round(missing_results(conversation.open_round, ran=True))
        conversation.close_tool_round(superseded_results(conversation.open_round.message))
    known: Sequence[Message] = ()
    if deps.store is not None and (given is not None or not conversation.is_current(record)):
        rows = await deps.store.get_messages(turn.session_id)
        if given is not None or not conversation.ends_like(_messages(rows)):
            if given is not None:
                known = _without_system_row(answered(repair(_messages(rows)).messages, superseded))
            stored, unfinished = await _settle_open_rounds(turn, deps, deps.store, rows, given is None)
            if given is None:
                conversation.replace(_without_system(turn, _repaired(turn, stored, "the stored session")))
            conversation.journal.forget()
            if unfinished is not None:
                conversation.reopen_tool_round(unfinished)
                turn.tools_started = True  # they may have run, in the process that died
    if given is not None:
        history = _without_system(turn, _repaired(turn, given, "the given history", superseded))
        conversation.replace(history)
        if deps.store is not None:
            for message in unsaved_tail(known, history):  # both mended: what was stored odd is stored
                conversation.journal.add(turn.next_uid(), message)
    conversation.left_at(None)  # until this turn's end has noted it anew


async def _settle_open_rounds(
    turn: TurnState, deps: TurnDeps, store: SessionStore, rows: Sequence[StoredMessage], goes_on: bool
) -> tuple[list[Message], RoundRecord | None]:
    """What is stored once every round has all of its results; apart from it the last round, where the
    conversation goes on from there and calls of it may run again."""
    rounds = find_open_rounds(rows)
    record = None
    if rounds and goes_on:
        record = await read_interrupted_round(turn, deps, store, rows, rounds[-1])
    if record is not None:
        last = rounds.pop()
        rows = [row for row in rows if row.seq < last.seq]
    if rounds:
        text = f"{len(rounds)} stored tool rounds lack results; each gets an explicit one"
        log_phase(turn, "build_turn_context", "RoundsClosed", logging.WARNING, text)
        await close_open_rounds(store, turn.session_id, rounds, turn.lease.token)
        rows = await store.get_messages(turn.session_id)
        rows = [row for row in rows if record is None or row.seq < last.seq]
    return _messages(rows), record


def _messages(rows: Sequence[StoredMessage]) -> list[Message]:
    return [row.message for row in rows]


def _repaired(
    turn: TurnState, messages: Sequence[Message], what: str, superseded: frozenset[str] = frozenset()
) -> Sequence[Message]:
    repaired = repair(messages)
    for change in repaired.changes:
        text = f"{what}: {change.kind} at message {change.index}"
        log_phase(turn, "build_turn_context", "Repaired", logging.WARNING, text)
    messages = answered(repaired.messages, superseded)
    if len(messages) > len(repaired.messages):
        text = f"{what}: it ends with calls that have no result; each gets an explicit one"
        log_phase(turn, "build_turn_context", "Repaired", logging.WARNING, text)
    return messages


def _without_system(turn: TurnState, messages: Sequence[Message]) -> Sequence[Message]:
    """The system text of a history is the turn's, unless the host gave one apart from it."""
    if not messages or not isinstance(messages[0], SystemMessage):
        return messages
    if turn.system_message is None:
        turn.system_message = content_text(messages[0].content)
    return _without_system_row(messages)


def _without_system_row(messages: Sequence[Message]) -> Sequence[Message]:
    return messages[1:] if messages and isinstance(messages[0], SystemMessage) else messages


async def _settle_system_prompt(turn: TurnState, deps: TurnDeps, record: SessionRecord | None) -> None:
    conversation = turn.conversation
    if conversation.system_prompt is None and record is not None:
        conversation.system_prompt = record.system_prompt
    if needs_rebuild(conversation.system_prompt, turn.system_message):
        conversation.system_prompt = build_system_prompt(
            system_prompt=deps.system_prompt,
            identity=deps.identity,
            system_message=turn.system_message,
            tool_guidance=turn.snapshot.guidance,
            context_text=await read_context_files(deps.cwd, deps.context_files),
            cwd=deps.cwd,
            has_tools=bool(turn.snapshot.tools),
        )
        if deps.store is not None:
            await deps.store.update_session_meta(turn.session_id, system_prompt=conversation.system_prompt)
    parts = filter(None, (conversation.system_prompt, deps.ephemeral_system_prompt))
    conversation.set_front("\n\n".join(parts), deps.prefill)
