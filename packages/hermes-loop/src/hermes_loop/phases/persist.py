"""Writing what the conversation owes to the store, from inside a phase."""

from __future__ import annotations

from hermes_loop.turn_state import TurnState
from hermes_loop.verdicts import Stop
from hermes_messages import LeaseLostError, StoreError

__all__ = ["save_owed", "stop_for_store_error"]


async def save_owed(turn: TurnState) -> Stop | None:
    """Make everything durable that is owed; Stop when the store can not."""
    journal = turn.conversation.journal
    if journal.store is not None:
        try:
            await journal.save(turn.lease.token)
        except StoreError as error:
            return stop_for_store_error(turn, error)
    return None


def stop_for_store_error(turn: TurnState, error: StoreError) -> Stop:
    """How a turn ends when a write was refused."""
    if isinstance(error, LeaseLostError) or turn.lease.lost:
        turn.interrupt.request(hard=True)
        return Stop("lease_lost", f"{error}; what was not stored is in the result's messages")
    return Stop(
        "session_persistence_failed", f"{error}; no tool was run after this, the messages are kept in memory"
    )
