"""`finalize_turn`: always the last phase, whatever happened; shielded and bounded in time."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from hermes_loop.closing import close_conversation
from hermes_loop.hook_calls import after_turn
from hermes_loop.result import (
    best_answer_wins,
    build_result,
    ends_trajectory,
    failed_trajectory,
    trajectory_row,
)
from hermes_loop.shielding import finish_despite_cancel
from hermes_loop.trajectories import append_row
from hermes_loop.turn_log import log_phase
from hermes_loop.turn_state import TurnDeps, TurnState
from hermes_loop.verdicts import Ending
from hermes_messages import StoreError
from hermes_messages.protocols import ConversationResult, SessionStore

__all__ = ["finalize_turn"]


async def finalize_turn(turn: TurnState, deps: TurnDeps, ending: Ending) -> ConversationResult:
    """Leave the conversation valid and durable, release what the turn used, build the result.

    Every step stands alone: what one of them raises is kept in `cleanup_errors`. A cancellation that comes
    meanwhile is raised when the steps are done. After a lost lease nothing is written.
    """
    if _is_instant(turn, deps):
        return await _finalize(turn, deps, ending)
    bounds = deps.bounds.cancelled() if ending.reason == "cancelled" else deps.bounds
    try:
        return await finish_despite_cancel(lambda: _finalize(turn, deps, ending), bounds)
    except TimeoutError:
        turn.cleanup_errors.append("finalization did not finish in time; unsaved messages are in the result")
        log_phase(turn, "finalize_turn", "TimedOut", logging.WARNING)
        return build_result(turn, deps, ending)


def _is_instant(turn: TurnState, deps: TurnDeps) -> bool:
    """Whether the steps have nothing to wait for. Then no cancellation can come between them, and the task
    that would hold it off is spared."""
    return (
        deps.store is None
        and deps.trajectory_dir is None
        and deps.idle is not None
        and deps.idle.is_idle(turn.task_id)
        and not deps.hooks.sync_memory
        and not deps.hooks.post_turn
        and not turn.events.called_back
    )


async def _finalize(turn: TurnState, deps: TurnDeps, ending: Ending) -> ConversationResult:
    """Idempotent: it is run again when the shutdown of the event loop cut it off."""
    await _step(turn, "closing the conversation", lambda: _close(turn, deps, ending))
    if not turn.lease.lost:
        if deps.store is not None:
            await _save_session(turn, deps.store)
        if deps.trajectory_dir is not None:
            await _step(turn, "saving the trajectory", lambda: _save_trajectory(turn, deps, ending))
    await _step(turn, "releasing the task's resources", lambda: deps.executor.release(turn.task_id))
    for name, failure in turn.events.failures.items():
        if not name.startswith("hook "):  # those were logged as they failed
            log_phase(turn, "finalize_turn", "CallbackFailed", logging.WARNING, failure)
    log_phase(turn, "finalize_turn", ending.reason, logging.INFO)
    result = build_result(turn, deps, ending)
    await after_turn(turn, deps, result)
    if turn.events.listened_to:
        await turn.events.end(None if ending.reason == "cancelled" else result, turn.conversation.messages)
    return result


async def _save_session(turn: TurnState, store: SessionStore) -> None:
    await _step(turn, "saving the session", lambda: turn.conversation.journal.save(turn.lease.token))
    await _step(turn, "counting tokens", lambda: _count(turn, store))
    await _note_session(turn, store)


async def _step(turn: TurnState, name: str, step: Callable[[], Awaitable[None]]) -> None:
    try:
        await step()
    except Exception as error:  # noqa: BLE001 - one step must not take the others along; it is reported
        failure = f"{name}: {type(error).__name__}: {error}"
        turn.cleanup_errors.append(failure)
        log_phase(turn, "finalize_turn", "StepFailed", logging.WARNING, failure)


async def _close(turn: TurnState, deps: TurnDeps, ending: Ending) -> None:
    if turn.context_built:
        close_conversation(
            turn.conversation,
            ending,
            uid=turn.next_uid(),
            partial_text="" if best_answer_wins(turn, ending) else turn.attempt_text,
            tools_started=turn.tools_started,
            max_iterations=deps.limits.max_iterations,
        )


async def _count(turn: TurnState, store: SessionStore) -> None:
    if turn.context_built and turn.api_calls and not turn.counted:
        turn.counted = True
        await store.update_token_counts(turn.session_id, turn.usage, api_calls=turn.api_calls)


async def _note_session(turn: TurnState, store: SessionStore) -> None:
    """What the next turn finds if nobody else writes meanwhile. Without it, it reads everything anew."""
    if not turn.context_built:
        return
    try:
        turn.conversation.left_at(await store.get_session(turn.session_id))
    except Exception as error:  # noqa: BLE001 - a store's own; nothing is lost by it
        level = logging.DEBUG if isinstance(error, StoreError) else logging.WARNING  # the latter is a bug
        log_phase(turn, "finalize_turn", "SessionNotNoted", level, f"{type(error).__name__}: {error}")


async def _save_trajectory(turn: TurnState, deps: TurnDeps, ending: Ending) -> None:
    if deps.trajectory_dir is None or not turn.context_built or turn.trajectory_saved:
        return
    if not ends_trajectory(ending) or turn.conversation.pending:
        return
    row = trajectory_row(turn, deps, ending)

    def written() -> None:
        turn.trajectory_saved = True

    await append_row(deps.trajectory_dir, row, failed=failed_trajectory(ending), about_to_write=written)
