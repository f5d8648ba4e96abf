"""A run that is stopped, cancelled or started wrongly at any point leaves nothing behind and can go on."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hermes_batch import BatchRunner, BatchStatistics, RunLockedError
from hermes_batch.rows import BadRow, Row
from hermes_batch.testing import ScriptedAgents, conversation
from hermes_batch.workers import StopSignal, run_workers
from hermes_messages import ConfigurationError
from hermes_messages.protocols import ConversationResult


def good(prompt: str) -> ConversationResult:
    return conversation(prompt, answer="fine", echo="x")


def batch(tmp_path: Path, rows: int, agents: ScriptedAgents, **options: Any) -> BatchRunner:
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(f'{{"prompt": "p{number}"}}\n' for number in range(rows)))
    settings: dict[str, Any] = {
        "run_name": "run",
        "output_dir": tmp_path / "data",
        "require_reasoning": False,
    }
    return BatchRunner(path, agent_factory=agents, **(settings | options))


class Opening(ScriptedAgents):
    """Agents whose `open` does what it is told."""

    def __init__(self, open_: Callable[[], Awaitable[None]]) -> None:
        super().__init__(good)
        self._open = open_

    async def open(self) -> None:
        await self._open()


def descriptors() -> set[str]:
    found = set()
    for fd in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.add(str(fd.readlink()))
    return {name for name in found if "data/run" in name}


def test_a_stop_asked_for_before_the_run_starts_no_row(tmp_path: Path) -> None:
    agents = ScriptedAgents(good)
    runner = batch(tmp_path, 3, agents)
    runner.request_stop()
    statistics = asyncio.run(runner.run())
    assert (statistics.interrupted, statistics.pending, agents.requests) == (True, 3, [])
    assert asyncio.run(runner.run(resume=True)).ok == 3, "the stop is spent"


@pytest.mark.parametrize("now", [True, False])
def test_a_stop_while_the_agents_are_opened_gives_the_opening_up(tmp_path: Path, now: bool) -> None:
    async def run() -> BatchStatistics:
        opening = asyncio.Event()

        async def hang() -> None:
            opening.set()
            await asyncio.Event().wait()

        runner = batch(tmp_path, 3, Opening(hang))
        task = asyncio.create_task(runner.run())
        await opening.wait()
        runner.request_stop(now=now)
        return await task

    statistics = asyncio.run(run())
    assert (statistics.interrupted, statistics.pending) == (True, 3)


def test_agents_that_can_not_be_opened_leave_nothing(tmp_path: Path) -> None:
    async def fail() -> None:
        raise ConfigurationError("no such model")

    with pytest.raises(ConfigurationError, match="no such model"):
        asyncio.run(batch(tmp_path, 3, Opening(fail)).run())
    assert not (tmp_path / "data").exists()


def test_one_runner_does_one_run_at_a_time(tmp_path: Path) -> None:
    async def both() -> None:
        running, leave = asyncio.Event(), asyncio.Event()

        async def waits(prompt: str) -> ConversationResult:
            running.set()
            await leave.wait()
            return good(prompt)

        runner = batch(tmp_path, 2, ScriptedAgents(waits))
        first = asyncio.create_task(runner.run())
        await running.wait()
        with pytest.raises(ConfigurationError, match="at work already"):
            await runner.run(resume=True)
        with pytest.raises(ConfigurationError, match="at work already"):
            await runner.merge()
        leave.set()
        assert (await first).ok == 2
        assert (await runner.run(resume=True)).ok == 2

    asyncio.run(both())


def test_whoever_finds_the_run_taken_opens_no_agents(tmp_path: Path) -> None:
    async def both() -> None:
        running, leave = asyncio.Event(), asyncio.Event()

        async def waits(prompt: str) -> ConversationResult:
            running.set()
            await leave.wait()
            return good(prompt)

        first = asyncio.create_task(batch(tmp_path, 2, ScriptedAgents(waits)).run())
        await running.wait()
        second = ScriptedAgents(good)
        with pytest.raises(RunLockedError):
            await batch(tmp_path, 2, second).run(resume=True)
        assert second.opened == 0
        leave.set()
        await first

    asyncio.run(both())


def test_no_row_is_begun_by_a_worker_that_waited_for_it_when_the_stop_came() -> None:
    begun: list[int] = []

    async def run() -> None:
        stop = StopSignal()
        two_began = asyncio.Event()

        async def rows() -> AsyncGenerator[Row, None]:
            for number in range(10):
                if number == 2:
                    await two_began.wait()
                    stop.request()
                yield BadRow(index=number, line=number, content_hash="", reason="")

        async def handle(row: Row) -> None:
            begun.append(row.index)
            if len(begun) == 2:
                two_began.set()

        await run_workers(rows(), range(10), handle, num_workers=4, stop=stop, grace_s=1)

    asyncio.run(run())
    assert begun == [0, 1]


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_run_inside_a_task_group_that_is_cancelled_at_any_step(tmp_path: Path, times: int) -> None:
    """Cancelled, and again while it cleans up, after each possible number of steps of the event loop."""

    async def cancel_after(steps: int, where: Path) -> bool:
        agents = ScriptedAgents(good)
        runner = batch(where, 6, agents, num_workers=2, batch_size=2)
        ended = False

        async def run() -> None:
            nonlocal ended
            await runner.run(resume=True)
            ended = True

        task = asyncio.create_task(run())
        for _ in range(steps):
            await asyncio.sleep(0.0005)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        try:
            await task
        except asyncio.CancelledError:
            assert not ended
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert all(agent.closed for agent in agents.agents)
        assert descriptors() == set()
        return ended

    steps = 0
    ended = False
    while not ended:
        where = tmp_path / str(steps)
        where.mkdir()
        ended = asyncio.run(cancel_after(steps, where))
        agents = ScriptedAgents(good)
        assert asyncio.run(batch(where, 6, agents).run(resume=True)).ok == 6
        assert not [path for path in where.rglob("*") if path.name.endswith(".tmp")]
        steps += 3
    assert steps > 10


def test_a_cancelled_run_keeps_the_rows_that_wait_to_be_written(tmp_path: Path) -> None:
    """Rows that ended while the disk was busy were paid for."""

    async def run() -> None:
        answered = asyncio.Event()
        count = 0

        def behave(prompt: str) -> ConversationResult:
            nonlocal count
            count += 1
            if count == 8:
                answered.set()
            return good(prompt)

        task = asyncio.create_task(batch(tmp_path, 8, ScriptedAgents(behave), num_workers=8).run())
        await answered.wait()
        for _ in range(10):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    again = ScriptedAgents(good)
    assert asyncio.run(batch(tmp_path, 8, again).run(resume=True)).ok == 8
    assert len(again.requests) <= 8
