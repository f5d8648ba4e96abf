"""What an interrupt does to the code that waits in its scope, whoever asks for it and when."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from hermes_loop import interrupts
from hermes_loop.interrupts import InterruptFlag


async def for_ever() -> None:
    await asyncio.Event().wait()


async def in_a_scope(
    flag: InterruptFlag, work: Callable[[], Awaitable[None]], *, hard_only: bool = False, grace_s: float = 0.0
) -> bool:
    """Whether an interrupt cut `work` short. Nothing of it may reach what is done afterwards."""
    with flag.scope(hard_only=hard_only, grace_s=grace_s) as scope:
        await work()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)
    return scope.cancelled_caught


def test_a_wait_ends_and_nothing_of_the_interrupt_is_left_behind() -> None:
    async def main() -> None:
        flag = InterruptFlag()
        waiting = asyncio.create_task(in_a_scope(flag, for_ever))
        await asyncio.sleep(0)
        flag.request()
        assert await waiting
        assert await in_a_scope(flag, for_ever)  # asked for before

    asyncio.run(main())


@pytest.mark.parametrize("grace_s", [0.0, 0.001])
def test_an_interrupt_that_the_body_asks_for_itself_ends_its_next_wait_or_nothing(grace_s: float) -> None:
    async def main() -> None:
        flag = InterruptFlag()

        async def ask() -> None:
            flag.request()

        async def ask_and_wait() -> None:
            flag.request()
            await for_ever()

        assert not await in_a_scope(flag, ask, grace_s=grace_s)
        assert await in_a_scope(flag, ask_and_wait, grace_s=grace_s)

    asyncio.run(main())


def test_a_clean_up_that_hangs_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "AGAIN_S", 0.001)
    times = 0

    async def stubborn() -> None:
        nonlocal times
        while True:
            try:
                await for_ever()
            except asyncio.CancelledError:
                times += 1
                if times == 3:
                    raise

    async def main() -> None:
        flag = InterruptFlag()
        flag.request()
        assert await in_a_scope(flag, stubborn)

    asyncio.run(main())
    assert times == 3


def test_a_body_that_swallows_its_cancellation_was_not_cut_short() -> None:
    async def deaf() -> None:
        try:
            await for_ever()
        except asyncio.CancelledError:
            return

    async def main() -> None:
        flag = InterruptFlag()
        flag.request()
        assert not await in_a_scope(flag, deaf)

    asyncio.run(main())


@pytest.mark.parametrize("host_first", [True, False])
def test_a_cancellation_by_the_host_is_not_taken_for_the_interrupt(host_first: bool) -> None:
    async def main() -> None:
        flag = InterruptFlag()
        waiting = asyncio.create_task(in_a_scope(flag, for_ever))
        await asyncio.sleep(0)
        steps: list[Callable[[], object]] = [waiting.cancel, flag.request]
        for step in steps if host_first else reversed(steps):
            step()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert waiting.cancelled()

    asyncio.run(main())


def test_a_scope_for_hard_interrupts_stays_when_a_soft_one_comes() -> None:
    async def main() -> None:
        flag = InterruptFlag()
        flag.request()
        waiting = asyncio.create_task(in_a_scope(flag, for_ever, hard_only=True))
        for _ in range(3):
            await asyncio.sleep(0)
        assert not waiting.done()
        flag.request(hard=True)
        assert await waiting

    asyncio.run(main())


def test_an_interrupt_within_another_scope_ends_the_outer_one_too() -> None:
    async def main() -> None:
        flag = InterruptFlag()
        inner: list[bool] = []

        async def with_grace() -> None:
            inner.append(await in_a_scope(flag, for_ever, grace_s=60.0))

        flag.request()
        assert await in_a_scope(flag, with_grace)
        assert inner == []

    asyncio.run(main())
