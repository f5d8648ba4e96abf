"""What becomes of a row whose worker was lost. Pure."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["MOST_HAND_OUTS", "GiveUpRow", "HandOutAgain", "LeaveForResume", "after_loss"]

MOST_HAND_OUTS = 3
"""A row whose workers died so often is taken for what killed them."""


class HandOutAgain(Struct, frozen=True, tag=True):
    """Run the row once more: most likely it had nothing to do with it."""


class GiveUpRow(Struct, frozen=True, tag=True):
    """End the row as an error, which `error` explains."""

    error: str


class LeaveForResume(Struct, frozen=True, tag=True):
    """Leave the row without a record: the run stops, and resume runs it."""


def after_loss(losses: int, *, last: str, stopping: bool) -> HandOutAgain | GiveUpRow | LeaveForResume:
    """What to do with a row that was lost `losses` times, the last time for the reason `last`."""
    if losses >= MOST_HAND_OUTS:
        return GiveUpRow(f"{losses} workers died while they ran this row; the last: {last}")
    return LeaveForResume() if stopping else HandOutAgain()
