"""MCP servers are real processes: who owns them, who shares them, and what is left when they end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from hermes_messages import ToolMessage
from mcp_help import MARK, SERVER, Servers


def test_servers_are_closed_in_any_order_and_from_any_task(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        first, second = Servers(bench, ["a"]), Servers(bench, ["b"])
        await first.refresh()
        await asyncio.create_task(second.refresh())
        await first.executor.close()
        assert (await second.call("b__echo")).status == "ok"
        await asyncio.create_task(second.executor.close())
        await second.executor.close()

    run_async(main())


def test_two_parallel_rounds_share_one_server(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        async with Servers(bench, ["plain"]) as servers:
            await servers.refresh()
            rounds = [servers.call("plain__echo", {"n": n}) for n in range(20)]
            results = await asyncio.gather(*rounds)
            assert [result.content for result in results] == [f'echo: {{"n": {n}}}' for n in range(20)]
            assert servers.counted("start") == 1

    run_async(main())


def test_calls_that_find_no_connection_start_one_server_between_them(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        async with Servers(bench, ["plain"]) as servers:
            await servers.refresh()
            await servers.toolset.close()
            results = await asyncio.gather(*(servers.call("plain__echo", {"n": n}) for n in range(5)))
            assert {result.status for result in results} == {"ok"}
            assert servers.counted("start") == 2

    run_async(main())


def test_nothing_is_started_before_a_turn_and_a_closed_toolset_starts_again(
    bench: Any, run_async: Any
) -> None:
    async def main() -> None:
        async with Servers(bench, ["plain"]) as servers:
            assert not bench.processes()
            assert [tool.name for tool in (await servers.refresh()).tools] == ["plain__echo"]
            await servers.executor.close()
            assert not bench.processes()
            await servers.executor.open()
            assert [tool.name for tool in (await servers.refresh()).tools] == ["plain__echo"]

    run_async(main())


def test_a_server_that_ignores_every_request_to_end_is_killed(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        servers = Servers(bench, ["ignores the end"])
        await servers.refresh()
        await servers.executor.close()
        assert not bench.processes()

    run_async(main())


def test_cancelling_the_start_of_a_turn_ends_the_server_that_was_starting(
    bench: Any, run_async: Any, wait_until: Any
) -> None:
    async def main() -> None:
        servers = Servers(bench, ["banner and wait"])
        turn = asyncio.create_task(servers.refresh())
        await wait_until(lambda: servers.counted("start"))
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert not bench.processes()
        # A start that we gave up says nothing about the server: it is tried again at once.
        for _ in range(6):
            turn = asyncio.create_task(servers.refresh())
            before = servers.counted("start")
            await wait_until(lambda before=before: servers.counted("start") > before)
            turn.cancel()
            await asyncio.wait({turn})
        await servers.executor.close()

    run_async(main())


def test_cancelling_a_call_tells_the_server_and_leaves_the_connection(
    bench: Any, run_async: Any, wait_until: Any
) -> None:
    async def main() -> None:
        async with Servers(bench, ["silent call"]) as servers:
            await servers.refresh()
            call = asyncio.create_task(servers.call("silent-call__echo"))
            await wait_until(lambda: servers.counted("call"))
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await wait_until(lambda: servers.counted("cancelled"))
            assert servers.counted("start") == 1

    run_async(main())


def test_an_interrupt_gives_the_call_its_result_and_tells_the_server(
    bench: Any, run_async: Any, wait_until: Any
) -> None:
    async def main() -> ToolMessage:
        async with Servers(bench, ["silent call"]) as servers:
            await servers.refresh()
            call = asyncio.create_task(servers.call("silent-call__echo"))
            await wait_until(lambda: servers.counted("call"))
            bench.interrupt.request()
            result = await call
            await wait_until(lambda: servers.counted("cancelled"))
            return result

    assert run_async(main()).status == "interrupted"


def test_a_second_event_loop_gets_a_connection_of_its_own(bench: Any, run_async: Any) -> None:
    servers = Servers(bench, ["plain"])

    async def turn() -> str:
        await servers.refresh()
        return str((await servers.call("plain__echo", {"n": 1})).content)

    async def last() -> str:
        text = await turn()
        await servers.executor.close()
        return text

    # The first loop ends without a close, as programs do; its server ends with it.
    assert asyncio.run(turn()) == 'echo: {"n": 1}'
    assert not bench.processes()
    assert run_async(last()) == 'echo: {"n": 1}'


PROGRAM = """
import asyncio, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell has it ignored
from hermes_messages.protocols import ExecutorOptions, RoundContext, TurnContext
from hermes_messages import ToolCall
from hermes_messages.testing import InterruptFlag
from hermes_tools import build_executor

async def main():
    server = {"command": sys.executable, "args": [sys.argv[1], "silent call", sys.argv[2]]}
    server["env"] = {"HERMES_TEST_MARK": sys.argv[3]}
    executor = build_executor([], ExecutorOptions(cwd=".", settings={"mcp_servers": {"one": server}}))
    await executor.refresh(TurnContext(session_id="s", task_id="t", turn_id="u", cwd="."))
    async def stored(position, message): pass
    context = RoundContext(
        session_id="s", task_id="t", turn_id="u", cwd=".", interrupt=InterruptFlag(), on_result=stored
    )
    try:
        await executor.execute([ToolCall("1", "one__echo", "{}")], context)
    finally:
        if sys.argv[4] == "closes":
            await executor.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("manners", ["closes", "does not close"])
def test_ctrl_c_leaves_no_server_behind(bench: Any, manners: str) -> None:
    counts = bench.workspace / "counts"
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, SERVER, str(counts), bench.mark, manners],
        stderr=subprocess.PIPE,
        env={**os.environ, MARK: "of the program"},
    )
    try:
        while not (counts.exists() and "call" in counts.read_text()) and program.poll() is None:
            time.sleep(0.02)
        assert len(bench.processes()) == 1
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=100)
    finally:
        with program:  # waits for its end
            program.kill()
    assert errors.rstrip().endswith(b"KeyboardInterrupt"), errors
    assert b"never" not in errors, errors  # retrieved, awaited
    assert not bench.processes()


class Steps:
    """Counts the resumptions of all tasks; at the `at`-th and following ones the `target` is cancelled."""

    def __init__(self, at: int, times: int) -> None:
        self.at = at
        self.times = times
        self.count = 0
        self.target: asyncio.Task[None] | None = None

    def tick(self) -> None:
        if self.target is not None:
            if self.at <= self.count < self.at + self.times:
                self.target.cancel()
            self.count += 1

    def make_task(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        async def counted() -> Any:
            return await Counted(work, self)

        return asyncio.Task(counted(), loop=loop, **options)


class Counted:
    def __init__(self, work: Any, steps: Steps) -> None:
        self.work = work
        self.steps = steps

    def __await__(self) -> Any:
        inner = self.work.__await__()
        error: BaseException | None = None
        while True:
            self.steps.tick()
            try:
                waited = inner.send(None) if error is None else inner.throw(error)
            except StopIteration as end:
                return end.value
            error = None
            try:
                yield waited
            except BaseException as raised:  # noqa: BLE001 - handed on to where it belongs
                error = raised


STRIDE = 1 if os.environ.get("HERMES_TEST_PROFILE") == "nightly" else 9


@pytest.mark.parametrize("times", [1, 2])
def test_a_turn_cancelled_at_any_resumption_leaves_no_process_and_the_next_turn_works(
    bench: Any, run_async: Any, times: int
) -> None:
    async def turn(servers: Servers) -> None:
        await servers.executor.open()
        await servers.refresh()
        await servers.call("plain__echo")
        await servers.executor.close()

    async def cancelled(at: int) -> bool:
        servers = Servers(bench, ["plain"])
        steps = Steps(at, times)
        loop = asyncio.get_running_loop()
        loop.set_task_factory(steps.make_task)
        steps.target = asyncio.create_task(turn(servers))
        await asyncio.wait({steps.target})
        loop.set_task_factory(None)
        assert steps.target.cancelled() or steps.target.exception() is None
        await turn(servers)  # also where the first one was cut off in the middle
        assert not bench.processes()
        return steps.count > at

    async def main() -> int:
        at = 0
        while await cancelled(at):
            at += STRIDE
        return at

    steps = run_async(main())
    assert steps > 80, steps
