"""What a turn may spend. Pure: what was used is told to it."""

from __future__ import annotations

import math
from typing import Final, Literal

from msgspec import Struct

from hermes_messages import ConfigurationError, Usage
from hermes_messages.protocols import TurnExitReason

__all__ = ["Budget", "IterationBudget", "Spent", "TurnBudget", "read_budget", "read_iteration_budget"]


class IterationBudget:
    """`limit` model calls that several agents share: give the same object to an agent and its children.

    It is spent for good: no turn fills it up again. Grace calls for a summary are not counted.
    """

    def __init__(self, limit: int) -> None:
        if type(limit) is not int or limit < 1:
            raise ConfigurationError(
                f"an iteration budget must be a whole number of at least 1, not {limit!r}"
            )
        self._limit = limit
        self._used = 0

    def __repr__(self) -> str:
        return f"IterationBudget(limit={self._limit}, used={self._used})"

    @property
    def limit(self) -> int:
        """How many calls there are in all."""
        return self._limit

    @property
    def used(self) -> int:
        """How many were taken."""
        return self._used

    @property
    def remaining(self) -> int:
        """How many are left."""
        return self._limit - self._used

    def take(self) -> bool:
        """Use one; False when none is left."""
        if self._used >= self._limit:
            return False
        self._used += 1
        return True


class Budget(Struct, frozen=True, kw_only=True):
    """What one turn may use besides iterations; None is no limit.

    `tokens` counts input and output of every answer; what a host does not tell is estimated. `cost_usd` is in
    US dollars; a cost that is not known never counts as 0: with `unknown_cost="stop"` the turn ends after
    that answer, with `"ignore"` only known costs are summed. Both are looked at between model calls, so the
    last answer may go over. `seconds` is the wall time from the turn's admission; it ends a call that runs.

    Raises `ConfigurationError` for a limit that is not above 0.
    """

    tokens: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None
    unknown_cost: Literal["stop", "ignore"] = "stop"

    def __post_init__(self) -> None:
        for name, limit in (("tokens", self.tokens), ("cost_usd", self.cost_usd), ("seconds", self.seconds)):
            is_number = isinstance(limit, int | float) and not isinstance(limit, bool)
            if limit is not None and (not is_number or not math.isfinite(limit) or limit <= 0):
                raise ConfigurationError(f"the budget's {name} must be a number above 0, not {limit!r}")
        if self.unknown_cost not in {"stop", "ignore"}:
            raise ConfigurationError(f"unknown_cost must be 'stop' or 'ignore', not {self.unknown_cost!r}")


NO_LIMITS: Final = Budget()


class Spent(Struct, frozen=True):
    """Which budget is spent. `may_sum_up`: one more call for a summary is still in its spirit."""

    reason: TurnExitReason
    text: str
    may_sum_up: bool = True


class TurnBudget:
    """All budgets of one turn: its own iterations, those that it shares, and what it may use."""

    def __init__(
        self, max_iterations: int, shared: IterationBudget | None = None, limits: Budget = NO_LIMITS
    ) -> None:
        self._own = max_iterations
        self._own_used = 0
        self._shared = shared
        self._tokens = 0
        self._cost_usd = 0.0
        self._cost_is_known = True
        self._grace_used = False
        self.limits = limits

    @property
    def spent(self) -> Spent | None:
        """Which budget is spent by now; None when another model call may be made."""
        if self.limits is not NO_LIMITS:
            spent = self.spent_by_use
            if spent is not None:
                return spent
        if self._own_used >= self._own:
            return Spent("max_iterations", f"the limit of {self._own} model calls is reached")
        if self._shared is not None and not self._shared.remaining:
            text = f"the shared budget of {self._shared.limit} model calls is spent"
            return Spent("budget_exhausted", text)
        return None

    @property
    def spent_by_use(self) -> Spent | None:
        """The same of cost and tokens alone, for a call whose iteration was taken already."""
        limits = self.limits
        if limits.cost_usd is not None:
            if not self._cost_is_known and limits.unknown_cost == "stop":
                text = "a host did not tell what its answer cost, so the cost budget can not be kept"
                return Spent("budget_exhausted", text, may_sum_up=False)
            if self._cost_usd >= limits.cost_usd:
                return Spent("budget_exhausted", f"the cost budget of ${limits.cost_usd:g} is spent")
        if limits.tokens is not None and self._tokens >= limits.tokens:
            return Spent("budget_exhausted", f"the budget of {limits.tokens} tokens is spent")
        return None

    def take(self) -> Spent | None:
        """Use one iteration; which budget is spent when there is none."""
        spent = self.spent
        if spent is None:
            self._own_used += 1
            if self._shared is not None:
                self._shared.take()
        return spent

    @property
    def has_grace(self) -> bool:
        """Whether the one grace call was not used yet."""
        return not self._grace_used

    def take_grace(self) -> bool:
        """Use the one grace call; False when it was used before."""
        if self._grace_used:
            return False
        self._grace_used = True
        return True

    def add(self, usage: Usage | None, estimated_tokens: int = 0) -> None:
        """Count an answer; `estimated_tokens` stand for what `usage` does not tell."""
        known = usage or Usage()
        if known.input_tokens is None or known.output_tokens is None:
            told = (known.input_tokens or 0) + (known.output_tokens or 0)
            self._tokens += max(told, estimated_tokens)
        else:
            self._tokens += known.input_tokens + known.output_tokens
        if known.cost_usd is None or not known.cost_usd >= 0:  # what is no number makes no sum
            self._cost_is_known = False
        else:
            self._cost_usd += known.cost_usd


def read_iteration_budget(given: object) -> IterationBudget | None:
    """What `iteration_budget=` is: an `IterationBudget`, or the number of its calls.

    Raises `ConfigurationError`.
    """
    if given is None or isinstance(given, IterationBudget):
        return given
    if type(given) is int:
        return IterationBudget(given)
    raise ConfigurationError(
        f"iteration_budget must be an IterationBudget or a whole number, not {type(given).__name__}"
    )


def read_budget(given: object) -> Budget:
    """What `budget=` is. Raises `ConfigurationError`."""
    if given is None:
        return NO_LIMITS
    if isinstance(given, Budget):
        return given
    raise ConfigurationError(f"budget must be a Budget, not {type(given).__name__}")
