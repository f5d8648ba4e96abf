"""What to do about a failed model call: a table, and one pure function that reads it.

Error kind x attempt x what is left -> Retry | Fallback | Compress | Terminate. The clock and the random
number come from the caller. Every path is bounded: no kind may be retried more often than its row says, and
no request more often than `RecoveryPolicy.max_attempts`.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from hermes_loop.verdicts import Compress, ErrorVerdict, Fallback, Retry, Terminate
from hermes_messages import ErrorKind, ProviderError
from hermes_messages.protocols import TurnExitReason

__all__ = ["RULES", "Options", "RecoveryPolicy", "Rule", "backoff_s", "decide_recovery"]


class Rule(Struct, frozen=True):
    """One row: how often to send again, what to try next, and what the turn ends with."""

    retries: int
    fallback: bool = True
    compress: bool = False
    ends_with: TurnExitReason = "provider_error"


RULES: Final[dict[ErrorKind, Rule]] = {
    ErrorKind.RATE_LIMIT: Rule(retries=4),
    ErrorKind.OVERLOADED: Rule(retries=4),
    ErrorKind.SERVER: Rule(retries=3),
    ErrorKind.TRANSPORT: Rule(retries=3),
    ErrorKind.TIMEOUT: Rule(retries=2),
    ErrorKind.UNKNOWN: Rule(retries=1),
    ErrorKind.BILLING: Rule(retries=0),
    ErrorKind.AUTH: Rule(retries=0),
    ErrorKind.NOT_FOUND: Rule(retries=0),
    # A fixed refusal is refused again by the same route: asking twice only costs.
    ErrorKind.CONTENT_POLICY: Rule(retries=0, ends_with="refused"),
    ErrorKind.CONTEXT_OVERFLOW: Rule(retries=0, compress=True, ends_with="context_overflow"),
    ErrorKind.OUTPUT_CAP: Rule(retries=0, fallback=False),
    ErrorKind.UNSUPPORTED_PARAMETER: Rule(retries=0, fallback=False),
    # A request that is malformed stays malformed; it must not reach compression either.
    ErrorKind.FORMAT: Rule(retries=0, fallback=False),
}


class RecoveryPolicy(Struct, frozen=True, kw_only=True):
    """The bounds. Times are in seconds."""

    base_s: float = 0.5
    factor: float = 2.0
    max_backoff_s: float = 20.0
    max_retry_after_s: float = 60.0
    max_attempts: int = 6


class Options(Struct, frozen=True, kw_only=True):
    """What is left to try."""

    fallback_left: bool = False
    can_compress: bool = False


def backoff_s(policy: RecoveryPolicy, attempt: int, jitter: float) -> float:
    """The wait after failed attempt number `attempt` (from 1), between half and all of the exponential
    step. `jitter` is a random number in [0, 1)."""
    exponent = min(attempt - 1, 30)
    step = min(policy.max_backoff_s, policy.base_s * policy.factor**exponent)
    return step * (0.5 + 0.5 * jitter)


def decide_recovery(
    error: ProviderError, attempt: int, options: Options, policy: RecoveryPolicy, jitter: float
) -> ErrorVerdict:
    """What to do after attempt number `attempt` (from 1) of a request failed with `error`."""
    rule = RULES[error.kind]
    asked = error.retry_after_s
    wait_is_bearable = asked is None or asked <= policy.max_retry_after_s
    if attempt <= rule.retries and attempt < policy.max_attempts and wait_is_bearable:
        wait = backoff_s(policy, attempt, jitter) if asked is None else max(0.0, asked)
        return Retry(wait, str(error.kind))
    if rule.compress and options.can_compress:
        return Compress(str(error.kind))
    if rule.fallback and options.fallback_left:
        return Fallback(str(error.kind))
    return Terminate(rule.ends_with, _explain(error, attempt, bearable=wait_is_bearable))


def _explain(error: ProviderError, attempt: int, *, bearable: bool) -> str:
    text = str(error)
    if not bearable:
        text += f"; the host asks to wait {error.retry_after_s:g} s, which is longer than this turn waits"
    if attempt > 1:
        text += f" (after {attempt} attempts)"
    return text
