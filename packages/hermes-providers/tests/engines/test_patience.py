"""One timer for all the waits of a request: it ends each in time, and only that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context

import pytest

from hermes_messages import ErrorKind, ProviderError
from hermes_providers.engines.shared import Patience
from hermes_providers.timeouts import StreamClock, Timeouts


class Later:
    """The event loop that runs now, whose time can be moved; `timers` counts those that were set."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.timers = 0
        self._ahead_s = 0.0
        self._time, self._call_at = self.loop.time, self.loop.call_at
        self.loop.time = lambda: self._time() + self._ahead_s  # type: ignore[method-assign]
        self.loop.call_at = self._counted  # type: ignore[method-assign, assignment]

    def _counted(
        self, when: float, callback: Callable[..., object], context: Context | None = None
    ) -> asyncio.TimerHandle:
        self.timers += 1
        return self._call_at(when, callback, context=context)

    async def move(self, seconds: float) -> None:
        """Let so much time go by, and whatever follows of that happen."""
        self._ahead_s += seconds
        for _ in range(10):
            await asyncio.sleep(0)


Use = Callable[[Later, Patience], Awaitable[None]]


def run(use: Use) -> None:
    async def main() -> None:
        later, patience = Later(), Patience()
        await use(later, patience)
        patience.end()
        await later.move(10_000.0)
        task = asyncio.current_task()
        assert task is not None
        assert not task.cancelling()

    asyncio.run(main())


async def begin(later: Later, patience: Patience, clock: StreamClock) -> asyncio.Task[None]:
    """A wait that only its clock can end."""
    task = asyncio.create_task(patience.within(clock, later.loop.create_future()))
    await later.move(0.0)
    return task


async def timed_out(task: asyncio.Task[None]) -> str:
    with pytest.raises(ProviderError) as caught:
        await task
    assert caught.value.kind is ErrorKind.TIMEOUT
    assert not task.cancelling()
    return str(caught.value)


def test_the_many_waits_of_a_long_answer_set_one_timer() -> None:
    async def use(later: Later, patience: Patience) -> None:
        clock = StreamClock(Timeouts(first_event_s=300.0, between_events_s=300.0), later.loop.time())
        for _ in range(100):
            arrival = later.loop.create_future()
            later.loop.call_soon(arrival.set_result, "text")
            assert await patience.within(clock, arrival) == "text"
            clock.event_came()
        assert later.timers == 1

    run(use)


def test_a_wait_has_its_whole_time_though_the_timer_was_set_for_an_earlier_one() -> None:
    async def use(later: Later, patience: Patience) -> None:
        clock = StreamClock(Timeouts(first_event_s=300.0, between_events_s=300.0), later.loop.time())
        await patience.within(clock, asyncio.sleep(0))
        await later.move(200.0)
        clock.event_came()
        waiting = await begin(later, patience, clock)
        await later.move(290.0)
        assert not waiting.done()
        await later.move(20.0)
        assert "between_events_s" in await timed_out(waiting)

    run(use)


def test_a_wait_that_must_end_sooner_moves_the_timer() -> None:
    async def use(later: Later, patience: Patience) -> None:
        clock = StreamClock(Timeouts(first_event_s=300.0, after_finish_s=5.0), later.loop.time())
        await patience.within(clock, asyncio.sleep(0))
        clock.finish_came()
        waiting = await begin(later, patience, clock)
        await later.move(6.0)
        assert "after_finish_s" in await timed_out(waiting)

    run(use)


def test_time_that_goes_by_between_waits_ends_none() -> None:
    async def use(later: Later, patience: Patience) -> None:
        clock = StreamClock(Timeouts(first_event_s=300.0, between_events_s=300.0), later.loop.time())
        await patience.within(clock, asyncio.sleep(0))
        clock.event_came()
        await later.move(1_000.0)
        waiting = await begin(later, patience, clock)
        await later.move(299.0)
        assert not waiting.done()
        await later.move(2.0)
        assert "between_events_s" in await timed_out(waiting)

    run(use)


def test_a_cancellation_is_none_of_ours_also_when_the_time_is_over_in_the_same_moment() -> None:
    async def use(later: Later, patience: Patience) -> None:
        clock = StreamClock(Timeouts(first_event_s=300.0), later.loop.time())
        waiting = await begin(later, patience, clock)
        later.loop.call_soon(waiting.cancel)
        await later.move(301.0)
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert waiting.cancelling() == 1

    run(use)


def test_a_wait_without_a_limit_is_not_ended_by_an_earlier_one() -> None:
    async def use(later: Later, patience: Patience) -> None:
        clock = StreamClock(Timeouts(first_event_s=300.0, between_events_s=None), later.loop.time())
        await patience.within(clock, asyncio.sleep(0))
        clock.event_came()
        waiting = await begin(later, patience, clock)
        await later.move(1_000.0)
        assert not waiting.done()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    run(use)
