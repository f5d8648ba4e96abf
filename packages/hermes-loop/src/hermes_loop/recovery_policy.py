"""What to do about a failed model call: a table, and one pure function that reads it.

Error kind x attempt x what is left -> Retry | Resend | Fallback | Compress | Terminate. The clock and the
random number come from the caller. Every path is bounded: no kind may be retried more often than its row
says, no request more often than `RecoveryPolicy.max_attempts`, no change is made twice, and no route tried
twice for one request. While a route is left that was not tried, no failure ends the turn.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from hermes_loop.request_changes import RequestChange
from hermes_loop.verdicts import Compress, ErrorVerdict, Fallback, Resend, Retry, Terminate
from hermes_messages import ErrorKind, ProviderError
from hermes_messages.protocols import TurnExitReason

__all__ = [
    "DEFAULT_POLICY",
    "RULES",
    "Options",
    "RecoveryPolicy",
    "Rule",
    "backoff_s",
    "decide_recovery",
    "rest_s",
]


Rests = Literal["always", "exhausted", "never"]
"""When a route that failed so rests: each time, only once every route has failed, or never, because it was
the request that failed and not the route."""


class Rule(Struct, frozen=True):
    """One row: how often to send again, what else to try, when the route rests, what the turn ends with."""

    retries: int
    retries_if_ready: int = 0
    """How often where the error says that another credential is ready (`retry_after_s` is 0)."""
    compress: bool = False
    rests: Rests = "always"
    ends_with: TurnExitReason = "provider_error"


RULES: Final[dict[ErrorKind, Rule]] = {
    ErrorKind.RATE_LIMIT: Rule(retries=4),
    ErrorKind.OVERLOADED: Rule(retries=4),
    ErrorKind.SERVER: Rule(retries=3),
    ErrorKind.TRANSPORT: Rule(retries=3),
    ErrorKind.TIMEOUT: Rule(retries=2),
    ErrorKind.UNKNOWN: Rule(retries=1),
    ErrorKind.BILLING: Rule(retries=0, retries_if_ready=2),
    ErrorKind.AUTH: Rule(retries=0, retries_if_ready=2),
    ErrorKind.NOT_FOUND: Rule(retries=0),
    # A fixed refusal is refused again by the same route: asking twice only costs.
    ErrorKind.CONTENT_POLICY: Rule(retries=0, rests="never", ends_with="refused"),
    ErrorKind.CONTEXT_OVERFLOW: Rule(retries=0, compress=True, rests="never", ends_with="context_overflow"),
    # What is malformed stays malformed: changed once, it is sent once more, and it never reaches compression.
    ErrorKind.OUTPUT_CAP: Rule(retries=0, rests="exhausted"),
    ErrorKind.UNSUPPORTED_PARAMETER: Rule(retries=0, rests="exhausted"),
    ErrorKind.FORMAT: Rule(retries=0, rests="exhausted"),
}


class RecoveryPolicy(Struct, frozen=True, kw_only=True):
    """The bounds. Times are in seconds.

    A host that asks for a longer wait than `max_retry_after_s` is not waited for; with another route left it
    is not for more than `patience_s`. A route that rests does so for `rest_s`, or for as long as its host
    asks, at most `max_rest_s`.
    """

    base_s: float = 0.5
    factor: float = 2.0
    max_backoff_s: float = 20.0
    max_retry_after_s: float = 60.0
    patience_s: float = 10.0
    max_attempts: int = 6
    rest_s: float = 30.0
    max_rest_s: float = 3600.0


DEFAULT_POLICY: Final = RecoveryPolicy()


class Options(Struct, frozen=True, kw_only=True):
    """What is left to try; `change` is one to the request that may please the host."""

    fallback_left: bool = False
    can_compress: bool = False
    change: RequestChange | None = None


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
    if options.change is not None:
        return Resend(options.change, str(error.kind))
    asked = error.retry_after_s
    longest = policy.patience_s if options.fallback_left else policy.max_retry_after_s
    wait_is_bearable = asked is None or asked <= longest
    retries = max(rule.retries, rule.retries_if_ready if asked == 0 else 0)
    if attempt <= retries and attempt < policy.max_attempts and wait_is_bearable:
        wait = backoff_s(policy, attempt, jitter) if asked is None else max(0.0, asked)
        return Retry(wait, str(error.kind))
    if rule.compress and options.can_compress:
        return Compress(str(error.kind))
    if options.fallback_left:
        return Fallback(str(error.kind))
    ends_with = rule.ends_with
    if error.kind is ErrorKind.OUTPUT_CAP and error.status is not None and error.status < 400:
        ends_with = "output_truncated"  # it was answered, and the limit left no room for text
    return Terminate(ends_with, _explain(error, attempt, bearable=wait_is_bearable))


def rest_s(error: ProviderError, policy: RecoveryPolicy, *, exhausted: bool) -> float | None:
    """How long a route that failed with `error` rests; None when it does not. `exhausted`: every route has
    failed."""
    rests = RULES[error.kind].rests
    if rests == "never" or (rests == "exhausted" and not exhausted):
        return None
    asked = error.retry_after_s
    return policy.rest_s if not asked else min(max(asked, 0.0), policy.max_rest_s)


def _explain(error: ProviderError, attempt: int, *, bearable: bool) -> str:
    text = str(error)
    if not bearable:
        text += f"; the host asks to wait {error.retry_after_s:g} s, which is longer than this turn waits"
    if attempt > 1:
        text += f" (after {attempt} attempts)"
    return text
