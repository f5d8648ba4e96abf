"""What a turn may spend. Pure."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["IterationBudget"]


class IterationBudget(Struct):
    """Model calls of one turn: `limit` of them, then one grace call for a summary."""

    limit: int
    used: int = 0
    grace_used: bool = False

    @property
    def remaining(self) -> int:
        """How many normal iterations are left."""
        return max(0, self.limit - self.used)

    def take(self) -> bool:
        """Use one iteration; False when none is left."""
        if self.used >= self.limit:
            return False
        self.used += 1
        return True

    def take_grace(self) -> bool:
        """Use the one grace call; False when it was used before."""
        if self.grace_used:
            return False
        self.grace_used = True
        return True
