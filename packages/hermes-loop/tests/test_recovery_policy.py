"""The table decides; every path is bounded."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_loop.recovery_policy import (
    RULES,
    Options,
    RecoveryPolicy,
    backoff_s,
    decide_recovery,
    rest_s,
)
from hermes_loop.request_changes import RequestChange
from hermes_loop.verdicts import Compress, Fallback, Resend, Retry, Terminate
from hermes_messages import ErrorKind, ProviderError
from hermes_messages.protocols import TurnExitReason

POLICY = RecoveryPolicy()
NOTHING_LEFT = Options()


def failed(kind: ErrorKind, retry_after_s: float | None = None) -> ProviderError:
    return ProviderError("it failed", kind=kind, retry_after_s=retry_after_s)


def test_every_kind_has_a_row() -> None:
    assert set(RULES) == set(ErrorKind)
    assert {rule.ends_with for rule in RULES.values()} <= set(get_args(TurnExitReason))


@pytest.mark.parametrize(
    "kind", [ErrorKind.RATE_LIMIT, ErrorKind.OVERLOADED, ErrorKind.SERVER, ErrorKind.TRANSPORT]
)
def test_what_may_pass_is_asked_again(kind: ErrorKind) -> None:
    assert isinstance(decide_recovery(failed(kind), 1, NOTHING_LEFT, POLICY, 0.5), Retry)


@pytest.mark.parametrize("kind", [ErrorKind.AUTH, ErrorKind.BILLING, ErrorKind.NOT_FOUND, ErrorKind.FORMAT])
def test_what_can_not_pass_is_not_asked_again(kind: ErrorKind) -> None:
    verdict = decide_recovery(failed(kind), 1, NOTHING_LEFT, POLICY, 0.5)
    assert verdict == Terminate("provider_error", "it failed")


@pytest.mark.parametrize("kind", [ErrorKind.AUTH, ErrorKind.BILLING])
def test_another_key_that_is_ready_is_used_a_few_times(kind: ErrorKind) -> None:
    ready = failed(kind, 0.0)
    verdicts = [decide_recovery(ready, attempt, NOTHING_LEFT, POLICY, 0.5) for attempt in (1, 2, 3)]
    assert [type(verdict) for verdict in verdicts] == [Retry, Retry, Terminate]


def test_a_fixed_refusal_is_not_paid_for_twice() -> None:
    verdict = decide_recovery(failed(ErrorKind.CONTENT_POLICY), 1, NOTHING_LEFT, POLICY, 0.5)
    assert isinstance(verdict, Terminate)
    assert verdict.reason == "refused"


def test_a_format_error_never_reaches_compression() -> None:
    without_routes = Options(can_compress=True)
    assert isinstance(decide_recovery(failed(ErrorKind.FORMAT), 1, without_routes, POLICY, 0.5), Terminate)
    everything = Options(fallback_left=True, can_compress=True)
    assert isinstance(decide_recovery(failed(ErrorKind.FORMAT), 1, everything, POLICY, 0.5), Fallback)


def test_a_change_that_may_help_is_made_before_anything_else() -> None:
    change = RequestChange(repaired=True)
    everything = Options(fallback_left=True, can_compress=True, change=change)
    for kind in ErrorKind:
        verdict = decide_recovery(failed(kind), 1, everything, POLICY, 0.5)
        assert verdict == Resend(change, str(kind))


def test_with_another_route_a_long_wait_is_not_waited() -> None:
    limited = failed(ErrorKind.RATE_LIMIT, 40.0)
    assert isinstance(decide_recovery(limited, 1, NOTHING_LEFT, POLICY, 0.5), Retry)
    assert isinstance(decide_recovery(limited, 1, Options(fallback_left=True), POLICY, 0.5), Fallback)


def test_an_answer_that_the_limit_left_no_room_for_is_cut_off_and_not_an_error() -> None:
    empty = ProviderError("only reasoning", kind=ErrorKind.OUTPUT_CAP, status=200)
    refused = ProviderError("too large", kind=ErrorKind.OUTPUT_CAP, status=400)
    for error, reason in ((empty, "output_truncated"), (refused, "provider_error")):
        verdict = decide_recovery(error, 1, NOTHING_LEFT, POLICY, 0.5)
        assert isinstance(verdict, Terminate)
        assert verdict.reason == reason


@pytest.mark.parametrize(
    ("kind", "alone", "with_all_others"),
    [
        (ErrorKind.RATE_LIMIT, 30.0, 30.0),
        (ErrorKind.AUTH, 30.0, 30.0),
        (ErrorKind.TRANSPORT, 30.0, 30.0),
        (ErrorKind.FORMAT, None, 30.0),
        (ErrorKind.CONTENT_POLICY, None, None),
        (ErrorKind.CONTEXT_OVERFLOW, None, None),
    ],
)
def test_a_route_rests_for_failures_of_its_own(
    kind: ErrorKind, alone: float | None, with_all_others: float | None
) -> None:
    assert rest_s(failed(kind), POLICY, exhausted=False) == alone
    assert rest_s(failed(kind), POLICY, exhausted=True) == with_all_others


@pytest.mark.parametrize(("asked", "rest"), [(5.0, 5.0), (120.0, 120.0), (86_400.0, 3600.0), (0.0, 30.0)])
def test_a_route_rests_as_long_as_its_host_asks(asked: float, rest: float) -> None:
    assert rest_s(failed(ErrorKind.RATE_LIMIT, asked), POLICY, exhausted=False) == rest


def test_an_overflow_compresses_first_then_falls_back_then_ends() -> None:
    overflow = failed(ErrorKind.CONTEXT_OVERFLOW)
    both = Options(fallback_left=True, can_compress=True)
    assert isinstance(decide_recovery(overflow, 1, both, POLICY, 0), Compress)
    assert isinstance(decide_recovery(overflow, 1, Options(fallback_left=True), POLICY, 0), Fallback)
    last = decide_recovery(overflow, 1, NOTHING_LEFT, POLICY, 0)
    assert isinstance(last, Terminate)
    assert last.reason == "context_overflow"


@pytest.mark.parametrize(("asked", "waited"), [(1.25, 1.25), (0.0, 0.0), (-1.0, 0.0), (60.0, 60.0)])
def test_the_wait_that_the_host_asks_for_is_kept(asked: float, waited: float) -> None:
    verdict = decide_recovery(failed(ErrorKind.RATE_LIMIT, asked), 1, NOTHING_LEFT, POLICY, 0.5)
    assert verdict == Retry(waited, "rate_limit")


def test_a_wait_of_a_day_is_not_slept_but_told() -> None:
    verdict = decide_recovery(failed(ErrorKind.RATE_LIMIT, 86_400), 1, NOTHING_LEFT, POLICY, 0.5)
    assert isinstance(verdict, Terminate)
    assert "86400 s" in verdict.error
    elsewhere = decide_recovery(
        failed(ErrorKind.RATE_LIMIT, 86_400), 1, Options(fallback_left=True), POLICY, 0.5
    )
    assert isinstance(elsewhere, Fallback)


@given(st.sampled_from(ErrorKind), st.floats(0, 1, exclude_max=True))
def test_with_a_fallback_left_a_passing_failure_never_ends_the_turn(kind: ErrorKind, jitter: float) -> None:
    options = Options(fallback_left=True)
    for attempt in range(1, 50):
        verdict = decide_recovery(failed(kind), attempt, options, POLICY, jitter)
        if not isinstance(verdict, Retry):
            break
    assert isinstance(verdict, Fallback)


@given(
    st.sampled_from(ErrorKind),
    st.one_of(st.none(), st.floats(-10, 100_000)),
    st.floats(0, 1, exclude_max=True),
    st.booleans(),
    st.booleans(),
)
def test_every_sequence_of_failures_ends(
    kind: ErrorKind, retry_after_s: float | None, jitter: float, fallback: bool, compress: bool
) -> None:
    options = Options(fallback_left=fallback, can_compress=compress)
    slept = 0.0
    for attempt in range(1, POLICY.max_attempts + 1):
        verdict = decide_recovery(failed(kind, retry_after_s), attempt, options, POLICY, jitter)
        if not isinstance(verdict, Retry):
            return
        assert 0 <= verdict.after_s <= POLICY.max_retry_after_s
        slept += verdict.after_s
    pytest.fail(f"no end after {POLICY.max_attempts} attempts")


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_the_backoff_grows_with_jitter_and_has_a_cap(attempt: int, jitter: float) -> None:
    wait = backoff_s(POLICY, attempt, jitter)
    assert POLICY.base_s * 0.5 <= wait <= POLICY.max_backoff_s
    assert wait <= backoff_s(POLICY, attempt + 1, jitter) + 1e-9
