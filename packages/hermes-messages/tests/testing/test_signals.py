import asyncio

import pytest

from hermes_messages.testing import InterruptFlag, StepGate


def test_interrupt_wakes_all_waiters() -> None:
    async def main() -> None:
        flag = InterruptFlag()
        waiters = [asyncio.create_task(flag.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        assert not any(waiter.done() for waiter in waiters)
        flag.request()
        await asyncio.gather(*waiters)
        await flag.wait()
        assert flag.requested
        flag.clear()
        assert not flag.requested

    asyncio.run(main())


def test_interrupt_flag_in_two_event_loops() -> None:
    flag = InterruptFlag()

    async def cancelled_wait() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(flag.wait(), 0.01)

    asyncio.run(cancelled_wait())
    flag.request()
    asyncio.run(flag.wait())


def test_steps_let_through_before_they_come() -> None:
    async def main() -> None:
        gate = StepGate()
        gate.let_pass(2)
        await gate()
        await gate()
        third = asyncio.create_task(gate())
        await gate.reached()
        assert gate.waiting == 1
        third.cancel()
        await asyncio.wait({third})
        assert gate.waiting == 0
        gate.open()
        await gate()
        await gate()

    asyncio.run(main())


def test_a_cancelled_waiter_takes_no_step() -> None:
    async def main() -> None:
        gate = StepGate()
        first, second = asyncio.create_task(gate()), asyncio.create_task(gate())
        await gate.reached()
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait({first})
        gate.let_pass()
        await second

    asyncio.run(main())
