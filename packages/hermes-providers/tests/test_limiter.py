"""The shared rate limit: its arithmetic without a clock, and its queue under cancellation."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byte_server import ByteServer, Hold, plain, stream
from hermes_messages import ConfigurationError
from hermes_messages.protocols import ProviderOptions
from hermes_providers import HttpProvider, RateLimiter, from_profile
from hermes_providers.schedule import Limits, Schedule
from no_network import Came, Scripted, SkippingLoop, run_skipping
from wire_help import answer, ask, event, run, text_answer


def schedule(**limits: Any) -> Schedule:
    return Schedule(Limits(**limits), 0.0)


def test_a_minutes_worth_goes_at_once_and_the_next_when_the_first_is_a_minute_old() -> None:
    one = schedule(requests_per_minute=60)
    for number in range(60):
        assert one.wait_s(1, number / 10) == 0
        one.start(1, number / 10)
    assert one.wait_s(1, 6.0) == pytest.approx(54.0)
    assert one.wait_s(1, 60.0) == 0
    one.start(1, 60.0)
    assert one.wait_s(1, 60.0) == pytest.approx(0.1)


def test_a_short_window_spreads_the_minute() -> None:
    one = schedule(requests_per_minute=600, window_s=1)
    for _ in range(10):
        assert one.wait_s(1, 0.0) == 0
        one.start(1, 0.0)
    assert one.wait_s(1, 0.0) == pytest.approx(1.0)
    slow = schedule(requests_per_minute=30, window_s=1)  # less than one in a window: one in two seconds
    slow.start(1, 0.0)
    assert slow.wait_s(1, 0.5) == pytest.approx(1.5)


def test_tokens_count_beside_requests() -> None:
    one = schedule(requests_per_minute=1000, tokens_per_minute=6000)
    one.start(3000, 0.0)
    one.start(2000, 10.0)
    assert one.wait_s(1000, 10.0) == 0
    assert one.wait_s(3000, 10.0) == pytest.approx(50.0)
    assert one.wait_s(5000, 10.0) == pytest.approx(60.0)


def test_a_request_larger_than_the_limit_goes_alone_and_counts_for_longer() -> None:
    one = schedule(tokens_per_minute=600)
    assert one.wait_s(6000, 0.0) == 0
    one.start(6000, 0.0)
    assert one.wait_s(1, 0.0) == pytest.approx(600.0)


def test_concurrency_is_freed_by_the_end_alone() -> None:
    one = schedule(max_concurrent=1)
    one.start(1, 0.0)
    assert math.isinf(one.wait_s(1, 1e9))
    one.end()
    assert one.wait_s(1, 0.0) == 0


def test_real_usage_corrects_the_estimate() -> None:
    one = schedule(tokens_per_minute=600)
    ticket = one.start(600, 0.0)
    one.correct(ticket, 100, 5.0)
    assert one.wait_s(500, 5.0) == 0
    assert one.wait_s(510, 5.0) == pytest.approx(55.0)
    one.correct(ticket, 1200, 6.0)
    assert one.wait_s(1, 6.0) == pytest.approx(54.0 + 60.0)
    one.correct(ticket, 1, 500.0)  # long gone
    assert one.wait_s(600, 500.0) == 0


def test_a_hold_stops_everybody() -> None:
    one = schedule()
    one.hold(5.0, 10.0)
    one.hold(1.0, 10.0)
    assert one.wait_s(1, 12.0) == pytest.approx(3.0)


@pytest.mark.parametrize(
    "limits",
    [
        {"requests_per_minute": 0},
        {"tokens_per_minute": -1},
        {"max_concurrent": 0},
        {"window_s": 0},
        {"window_s": 61},
    ],
)
def test_limits_that_let_nothing_through_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        RateLimiter(**limits)


@given(
    st.lists(st.tuples(st.integers(1, 400), st.floats(0, 20)), min_size=1, max_size=40),
    st.sampled_from([60.0, 10.0]),
)
def test_in_no_window_goes_more_than_its_share(story: list[tuple[int, float]], window_s: float) -> None:
    limits = Limits(tokens_per_minute=2400, requests_per_minute=30, window_s=window_s)
    one, now = Schedule(limits, 0.0), 0.0
    went: list[tuple[float, int]] = []
    for tokens, pause in story:
        now += pause
        wait = one.wait_s(tokens, now)
        assert wait <= 60
        now += wait
        assert one.wait_s(tokens, now) <= 1e-6
        one.start(tokens, now)
        went.append((now, tokens))
    for end, _ in went:
        inside = [tokens for at, tokens in went if end - window_s + 1e-6 < at <= end]
        assert sum(inside) <= 2400 * window_s / 60 + 1e-6
        assert len(inside) <= 30 * window_s / 60 + 1e-6


def unconnected(transport: Scripted, limiter: RateLimiter) -> HttpProvider:
    options = ProviderOptions(base_url="http://h.example/v1")
    return from_profile("custom", options, limiter=limiter, transport=transport)


async def hold(
    limiter: RateLimiter, order: list[int], number: int, gate: asyncio.Event, tokens: int = 1
) -> None:
    async with limiter.admit(tokens):
        order.append(number)
        await gate.wait()


def test_first_come_first_served_also_for_large_requests() -> None:
    async def main() -> None:
        limiter, order = RateLimiter(max_concurrent=1), list[int]()
        gates = [asyncio.Event() for _ in range(5)]
        tasks = []
        for number in range(5):
            tasks.append(asyncio.create_task(hold(limiter, order, number, gates[number], 10 - number)))
            await asyncio.sleep(0)
        for gate in gates:
            gate.set()
        await asyncio.gather(*tasks)
        assert order == [0, 1, 2, 3, 4]
        assert (limiter.running, limiter.waiting) == (0, 0)

    run(main())


@pytest.mark.parametrize("steps", range(6))
def test_cancelling_at_any_step_loses_no_place(steps: int) -> None:
    async def main() -> None:
        limiter, order = RateLimiter(max_concurrent=1), list[int]()
        gate, later = asyncio.Event(), asyncio.Event()
        first = asyncio.create_task(hold(limiter, order, 0, gate))
        await asyncio.sleep(0)
        second = asyncio.create_task(hold(limiter, order, 1, later))
        third = asyncio.create_task(hold(limiter, order, 2, later))
        for step in range(6):
            if step == steps:
                second.cancel()
            if step == 2:
                gate.set()
            await asyncio.sleep(0)
        later.set()
        await first
        await asyncio.gather(second, third, return_exceptions=True)
        assert 2 in order
        assert (limiter.running, limiter.waiting) == (0, 0)
        async with asyncio.timeout(120):
            await hold(limiter, order, 3, later)

    run(main())


def test_cancelled_in_the_moment_of_its_turn_gives_the_turn_on() -> None:
    async def main() -> None:
        limiter, order = RateLimiter(max_concurrent=1), list[int]()
        gate = asyncio.Event()
        gate.set()
        async with limiter.admit(1):
            second = asyncio.create_task(hold(limiter, order, 1, gate))
            third = asyncio.create_task(hold(limiter, order, 2, gate))
            await asyncio.sleep(0)
        second.cancel()  # its turn has come, it has not run yet
        with pytest.raises(asyncio.CancelledError):
            await second
        await third
        assert order == [2]
        assert limiter.running == 0

    run(main())


def test_waits_for_the_pace_without_polling() -> None:
    async def main() -> None:
        limiter = RateLimiter(tokens_per_minute=60_000, window_s=0.05)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SkippingLoop)
        times = list[float]()
        for _ in range(3):
            async with limiter.admit(50):
                times.append(loop.time())
        assert times == pytest.approx([0, 0.05, 0.1])
        assert loop.skipping.waits == 2

    run_skipping(main())


def test_starts_afresh_in_another_event_loop() -> None:
    limiter = RateLimiter(max_concurrent=1)
    leaked: list[Any] = []

    async def first() -> None:
        context = limiter.admit(1)
        await context.__aenter__()
        leaked.append(context)

    async def second() -> None:
        async with asyncio.timeout(120), limiter.admit(1):
            assert limiter.running == 1

    run(first())
    run(second())


def test_is_shared_by_all_providers_that_are_given_it() -> None:
    async def main() -> None:
        gate = Hold()
        slow = [*stream(event({"choices": []}), end=False), gate]
        async with ByteServer([slow, stream(text_answer("ok"))]) as server:
            limiter = RateLimiter(max_concurrent=1)
            one, two = (
                from_profile("custom", ProviderOptions(base_url=server.base_url), limiter=limiter)
                for _ in range(2)
            )
            first = asyncio.create_task(answer(one))
            await gate.reached.wait()
            second = asyncio.create_task(answer(two))
            await asyncio.sleep(0.02)
            assert (len(server.requests), limiter.waiting) == (1, 1)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            assert (await second).message.content == "ok"
            assert limiter.running == 0
            await one.close()
            await two.close()

    run(main())


def test_many_providers_keep_all_three_limits_together_and_a_cancelled_wait_gives_its_place_back() -> None:
    async def main() -> None:
        body = text_answer("ok", usage={"prompt_tokens": 80, "completion_tokens": 20})
        transport = Scripted(*(Came(body) for _ in range(30)), takes_s=0.005)
        limiter = RateLimiter(
            requests_per_minute=6_000, tokens_per_minute=600_000, max_concurrent=4, window_s=0.1
        )  # ten requests, a thousand tokens in a tenth of a second
        providers = [unconnected(transport, limiter) for _ in range(10)]
        tasks = [asyncio.ensure_future(answer(one, ask(max_tokens=20))) for one in providers * 4]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for task in tasks[10:20]:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert sum(isinstance(result, asyncio.CancelledError) for result in results) == 10
        started = transport.started
        assert len(started) == 30
        assert transport.most == 4
        for first, eleventh in zip(started, started[10:], strict=False):
            assert eleventh - first >= 0.1 - 1e-9
        assert started[-1] < 0.3  # three windows: nobody waits for more than the limits ask
        assert (limiter.running, limiter.waiting) == (0, 0)

    run_skipping(main())


def test_usage_of_the_answer_corrects_the_budget() -> None:
    async def main() -> None:
        body = text_answer("ok", usage={"prompt_tokens": 10, "completion_tokens": 5})
        transport = Scripted(*(Came(body) for _ in range(3)))
        provider = unconnected(transport, RateLimiter(tokens_per_minute=10_000))
        for _ in range(3):  # each asks for the whole bucket and uses 15 tokens of it
            await answer(provider, ask(max_tokens=9_900))
        assert transport.started == [0, 0, 0]
        await provider.close()

    run_skipping(main())


@pytest.mark.parametrize("times", [1, 2])
def test_cancel_at_any_moment_of_a_call_leaks_no_permit_and_no_connection(times: int) -> None:
    number = 0

    async def fetch() -> str:
        nonlocal number
        await asyncio.sleep(0)
        number += 1
        return f"key-{number}"

    async def main() -> int:
        refused = plain(b'{"error":{"message":"Incorrect API key provided"}}', "401 Unauthorized")
        # Each call is refused once and renews its key, so a cancellation can also hit in between.
        async with ByteServer([refused, stream(text_answer("ok"))] * 500) as server:
            limiter = RateLimiter(max_concurrent=1)
            provider = from_profile(
                "custom",
                ProviderOptions(base_url=server.base_url, settings={"max_connections": 1}),
                key=fetch,
                limiter=limiter,
            )
            for moment in range(400):
                task = asyncio.ensure_future(answer(provider))
                for _ in range(moment):
                    await asyncio.sleep(0)
                for _ in range(times):
                    task.cancel()
                    await asyncio.sleep(0)
                outcome = (await asyncio.gather(task, return_exceptions=True))[0]
                assert (limiter.running, limiter.waiting) == (0, 0)
                if len(server.requests) % 2:  # the next call begins with its refusal again
                    await answer(provider)
                if not isinstance(outcome, asyncio.CancelledError):
                    break
            async with asyncio.timeout(120):
                await server.wait_until_open(0)
            await provider.close()
            return moment

    assert 5 < run(main()) < 399


def test_limits_by_settings_hold_for_that_provider() -> None:
    settings = {"max_concurrent": 2, "requests_per_minute": 100}
    made = from_profile("custom", ProviderOptions(base_url="http://h.example/v1", settings=settings))
    assert "max_concurrent=2" in repr(made._limiter)
    assert from_profile("custom", ProviderOptions(base_url="http://h.example/v1"))._limiter is None
