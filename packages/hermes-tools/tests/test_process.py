from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_tools import processes
from hermes_tools.builtin import process as process_module
from hermes_tools.builtin import process_table
from hermes_tools.output_log import OutputLog


class Shell:
    """The tools of one executor, by their text."""

    def __init__(self, bench: Any) -> None:
        self.bench = bench
        self.executor = bench.executor("terminal")

    async def result(self, name: str, **arguments: Any) -> Any:
        [result] = (await self.bench.outcome(self.executor, self.bench.call(name, arguments))).results
        return result

    async def start(self, command: str, **more: Any) -> str:
        result = await self.result("terminal", command=command, background=True, **more)
        assert result.status == "ok", result.content
        return str(result.content)

    async def process(self, action: str, process_id: str | None = "p1", **more: Any) -> str:
        if process_id is not None:
            more["process_id"] = process_id
        result = await self.result("process", action=action, **more)
        assert result.status == "ok", result.content
        return str(result.content)

    async def refused(self, action: str, process_id: str | None = "p1", **more: Any) -> str:
        result = await self.result("process", action=action, process_id=process_id, **more)
        assert result.status == "error", result.content
        return str(result.content)


@pytest.fixture
def shell(bench: Any) -> Shell:
    return Shell(bench)


def test_a_command_in_the_background_is_told_of_at_once_and_waited_for_later(
    shell: Shell, bench: Any, run_async: Any
) -> None:
    async def main() -> None:
        assert await shell.process("list", None) == "[no processes]"
        text = await shell.start("echo one; while [ ! -e go ]; do sleep 0.01; done; echo two; exit 3")
        assert re.match(r"p1: running, process \d+, \d+ s\n.*\n\[in the background", text)
        told = text
        while "one" not in told:
            told = await shell.process("poll")
        assert re.match(r"p1: running, process \d+, \d+ s\none\b", told)
        assert "p1: running" in await shell.process("list", None)
        assert (await shell.process("poll")).endswith("[no new output]")
        assert "[still running after 0 s]" in await shell.process("wait", timeout=0)
        (bench.workspace / "go").touch()
        assert await shell.process("wait", timeout=300) == "p1: ended with exit code 3\ntwo"
        assert await shell.process("log") == "one\ntwo\n[p1: lines 1 to 2 of 2]"
        assert await shell.process("list", None) == (
            "p1: ended with exit code 3: echo one; while [ ! -e go ]; do sleep 0.01; done; echo two; exit 3"
        )
        await shell.executor.close()

    run_async(main())


def test_a_command_that_fails_at_once_is_told_of_at_once(shell: Shell, run_async: Any) -> None:
    async def main() -> None:
        text = await shell.start("no-such-command-here")
        for _ in range(100):
            if "exit code 127" in text:
                break
            text = await shell.process("wait", timeout=3)
        assert "exit code 127" in text
        failed = await shell.result("terminal", command="true", background=True, workdir="nowhere")
        assert "no such directory; nothing was run" in failed.content
        await shell.executor.close()

    run_async(main())


def test_a_program_that_asks_is_answered_and_its_input_closed(shell: Shell, run_async: Any) -> None:
    async def main() -> None:
        await shell.start("printf 'name? '; read name; echo hello $name; cat; echo end of input")
        while "name?" not in (text := await shell.process("poll")):
            assert "running" in text
        assert await shell.process("write", text="you\n") == "wrote 4 characters to p1"
        assert await shell.process("write", text="more\n", end_input=True) == (
            "wrote 5 characters to p1; its input is closed"
        )
        text = await shell.process("wait", timeout=300)
        assert text == "p1: ended with exit code 0\nname? hello you\nmore\nend of input"
        assert "nothing was written" in await shell.refused("write", text="x")
        await shell.executor.close()

    run_async(main())


def test_a_program_that_does_not_read_holds_nothing_up(
    shell: Shell, run_async: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "WRITE_LIMIT_S", 0.1)
    monkeypatch.setattr(process_module, "MAX_UNREAD_BYTES", 100_000)
    monkeypatch.setattr(processes, "TERM_GRACE_S", 300.0)

    async def main() -> None:
        await shell.start("sleep 600")
        texts = [await shell.process("write", text="x" * 100_000) for _ in range(2)]
        assert "does not read its input" in texts[-1]
        assert "nothing more was written" in await shell.refused("write", text="x")
        assert "longer than" in await shell.refused("write", text="x" * 200_000)
        assert "give text to write" in await shell.refused("write")
        assert "exit code 143, SIGTERM" in await shell.process("kill")
        text = await shell.start("exec 0<&-; echo closed; exec sleep 600")
        while "closed" not in text:
            text = await shell.process("poll", "p2")
        await shell.result("process", action="write", process_id="p2", text="x")
        assert "input" in await shell.refused("write", "p2", text="x")
        await shell.executor.close()

    run_async(main())


def test_killing_ends_the_whole_tree_also_one_that_ignores_term(
    shell: Shell, bench: Any, run_async: Any, wait_until: Any
) -> None:
    async def main() -> None:
        await shell.start("trap '' TERM; (sleep 600 & sleep 600) & touch up; while :; do sleep 0.05; done")
        await wait_until((bench.workspace / "up").exists)
        await wait_until(lambda: len(bench.processes()) >= 4)
        assert "p1: ended with exit code 137, SIGKILL" in await shell.process("kill")
        assert not bench.processes()
        assert "[it had ended before]" in await shell.process("kill")
        await shell.executor.close()

    run_async(main())


def test_a_child_that_holds_the_pipe_does_not_hide_the_end_of_its_parent(
    shell: Shell, bench: Any, run_async: Any, wait_until: Any
) -> None:
    async def main() -> None:
        await shell.start("(sleep 600; echo late) & echo parent done")
        text = await shell.process("wait", timeout=300)
        assert "p1: ended with exit code 0" in text + await shell.process("list", None)
        await wait_until(bench.processes)  # the child is left
        await shell.process("kill")
        assert not bench.processes()
        await shell.executor.close()

    run_async(main())


def test_what_a_command_left_running_is_listed_and_can_be_killed(
    shell: Shell, bench: Any, run_async: Any, wait_until: Any
) -> None:
    async def main() -> None:
        result = await shell.result("terminal", command="sleep 600 & echo started")
        assert "still running, p1;" in result.content
        assert "p1: left running by a command that has ended" in await shell.process("list", None)
        assert "only kill works" in await shell.refused("log")
        assert "not kept" in await shell.process("poll")
        assert await shell.process("kill") == "p1: stopped"
        assert not bench.processes()
        await shell.result("terminal", command="sleep 0.2 & echo started")
        await wait_until(lambda: not bench.processes())
        async with asyncio.timeout(120):
            while await shell.process("list", None) != "[no processes]":
                pass
        await shell.executor.close()

    run_async(main())


@pytest.mark.parametrize("how", ["release", "close"])
def test_the_end_of_the_task_ends_its_processes_all_at_once_and_no_others(
    shell: Shell, bench: Any, run_async: Any, wait_until: Any, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(processes, "TERM_GRACE_S", 300.0)
    # Each ends only once all three have been told to.
    all_told = "[ -e told1 -a -e told2 -a -e told3 ]"

    async def main() -> None:
        for number in range(1, 4):
            told = f"touch told{number}; until {all_told}; do sleep 0.01; done; exit"
            await shell.start(f"trap '{told}' TERM; touch ready{number}; while :; do sleep 0.05; done")
        await wait_until(lambda: len(list(bench.workspace.glob("ready*"))) == 3)
        call = bench.call("terminal", {"command": "sleep 600", "background": True})
        await bench.outcome(shell.executor, call, task_id="other")
        if how == "release":
            await shell.executor.release("task")
            await wait_until(lambda: len(bench.processes()) == 1)
            assert await shell.process("list", None) == "[no processes]"
        await shell.executor.close()
        assert not bench.processes()
        assert len(list(bench.workspace.glob("told*"))) == 3

    run_async(main())


def test_a_wait_that_is_interrupted_leaves_the_process_running(
    shell: Shell, bench: Any, run_async: Any, wait_until: Any
) -> None:
    async def main() -> None:
        await shell.start("while [ ! -e go ]; do sleep 0.01; done; echo went on")
        call = bench.call("process", {"action": "wait", "process_id": "p1", "timeout": 600})
        started = asyncio.Event()
        round_ = asyncio.ensure_future(
            bench.outcome(shell.executor, call, tool_start=lambda _: started.set())
        )
        await started.wait()
        bench.interrupt.request()
        [result] = (await round_).results
        assert result.status == "interrupted"
        bench.interrupt.__init__()
        (bench.workspace / "go").touch()
        assert "went on" in await shell.process("wait", timeout=300)
        await shell.executor.close()

    run_async(main())


@pytest.mark.parametrize("steps", range(0, 12, 3))
def test_cancelling_while_a_process_is_started_loses_none(
    shell: Shell, bench: Any, run_async: Any, steps: int
) -> None:
    async def main() -> None:
        call = bench.call("terminal", {"command": "sleep 600", "background": True})
        round_ = asyncio.ensure_future(bench.outcome(shell.executor, call))
        for _ in range(steps):
            await asyncio.wait({round_}, timeout=0.002)
        round_.cancel()
        with pytest.raises(asyncio.CancelledError):
            await round_
        await shell.executor.close()
        assert not bench.processes()

    run_async(main())


def test_unknown_names_and_too_many_processes_are_refused(
    shell: Shell, run_async: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_table, "MAX_RUNNING", 2)
    monkeypatch.setattr(process_table, "MAX_ENDED", 1)

    async def main() -> None:
        assert "there is no process 'p1'; known: none" in await shell.refused("poll")
        await shell.start("sleep 600")
        await shell.start("sleep 600")
        result = await shell.result("terminal", command="echo x > x", background=True)
        assert "2 processes are running already" in result.content
        await shell.process("kill", "p1")
        await shell.process("kill", "p2")
        await shell.start("sleep 600")
        assert "known: p2, p3" in await shell.refused("poll")
        await shell.executor.close()

    run_async(main())


def test_the_background_has_no_credentials_and_gives_none_away(
    bench: Any, run_async: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-1")
    (bench.workspace / "file").write_text("key=sk-very-secret-1\n")
    shell = Shell(bench)

    async def main() -> None:
        await shell.start("env | grep API_KEY; cat file; printf '\\033[1mbold\\000\\377\\n'")
        await shell.process("wait", timeout=300)
        assert await shell.process("log") == "key=[hidden]\nbold\u2400\\xff\n[p1: lines 1 to 2 of 2]"
        await shell.executor.close()

    run_async(main())


def test_a_long_log_is_paged_and_its_oldest_lines_are_dropped(
    shell: Shell, bench: Any, run_async: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_table, "LOG_CHARS", 10_000)
    monkeypatch.setattr(process_module, "SHOWN_CHARS", 1_000)

    async def main() -> None:
        await shell.start("while [ ! -e go ]; do sleep 0.01; done; seq 1 5000; while :; do sleep 0.05; done")
        (bench.workspace / "go").touch()
        while "5000" not in (text := await shell.process("log", limit=1)):
            pass
        assert text == "5000\n[p1: lines 5000 to 5000 of 5000]\n[lines before 3001 are no longer kept]"
        page = await shell.process("log", offset=4001, limit=2)
        assert page.startswith("4001\n4002\n[p1: lines 4001 to 4002 of 5000]")
        assert (await shell.process("log", offset=1, limit=1)).startswith("3001\n")
        assert "nothing from line 6000 on" in await shell.process("log", offset=6000)
        polled = await shell.process("poll")
        assert re.search(r"\[\d+ characters before this are left out; see the log\]", polled)
        assert polled.endswith("\n5000")
        assert len(polled) < 1_200
        await shell.executor.close()

    run_async(main())


@given(st.lists(st.text(st.sampled_from("ab\n"), max_size=12)), st.integers(1, 40))
def test_a_log_holds_the_newest_lines_whatever_the_pieces(pieces: list[str], limit: int) -> None:
    log = OutputLog(limit)
    for piece in pieces:
        log.feed(piece)
    text = "".join(pieces)
    assert log.total == len(text)
    page = log.page(None, 1_000)
    assert sum(len(line) + 1 for line in page.lines) <= 2 * limit + 2
    shown, left_out = log.since(0, 10)
    assert text.endswith(shown) or any(len(line) > limit for line in text.split("\n"))
    assert len(shown) + left_out == len(text)


# -- a gigabyte -------------------------------------------------------------------------------------------

_MEASURED = """
def peak_kb():
    # Not ru_maxrss, which begins with that of the process that started this one.
    [line] = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
    return int(line.split()[1])

async def main(run):
    command = "echo first; head -c %d /dev/zero | tr '\\\\0' 'x' %s; echo last"
    await run("terminal", command=command % (1 << 20, ""))
    before = peak_kb()
    wanted = command % (int(sys.argv[2]), sys.argv[3])
    if sys.argv[4] == "foreground":
        _, text = await run("terminal", command=wanted, timeout=600)
    else:
        await run("terminal", command=wanted, background=True)
        text = ""
        while "ended" not in text:
            _, text = await run("process", action="wait", process_id="p1", timeout=600)
    grown = peak_kb() - before
    print(json.dumps([grown, len(text), text[:300], text[-300:]]))
"""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", ["foreground", "background"])
@pytest.mark.parametrize("lines", ["| fold -w 99", ""], ids=["lines", "one line"])
def test_a_gigabyte_of_output_never_is_in_memory(bench: Any, program: Any, how: str, lines: str) -> None:
    size = 1_000_000_000 if os.environ.get("HERMES_TEST_PROFILE") == "nightly" else 50_000_000
    command = [*program(_MEASURED), str(bench.workspace), str(size), lines, how]
    ended = subprocess.run(command, capture_output=True, check=True, timeout=580)
    grown_kb, length, start, end = json.loads(ended.stdout)
    # What is shown, the log of 1 MB, pieces of 64 kB under way, and what Python keeps for itself.
    assert grown_kb < 12_000, f"{grown_kb} kB more in memory"
    assert length < 31_000
    assert "last" in end
    assert how == "background" or start.startswith("first")


def test_what_ended_commands_left_running_is_counted_and_ended_with_the_task(
    shell: Shell, bench: Any, run_async: Any, wait_until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_table, "MAX_RUNNING", 6)
    monkeypatch.setattr(process_table, "MAX_ENDED", 1)

    async def main() -> None:
        for number in range(1, 7):
            await shell.start("sleep 600 >/dev/null 2>&1 & echo started")
            told = await shell.process("wait", f"p{number}", timeout=300)
            assert told.startswith(f"p{number}: ended with exit code 0; processes that it started go on")
        refused = await shell.result("terminal", command="true", background=True)
        assert "6 processes are running already" in refused.content
        assert len((await shell.process("list", None)).splitlines()) == 6, "none is forgotten while it runs"
        assert (await shell.process("kill", "p1")).startswith("p1: ended with exit code 0\n")
        text = await shell.start("echo more")
        if "p7: running" in text:
            text = await shell.process("wait", "p7", timeout=300)
        assert text.startswith("p7: ended with exit code 0")
        await shell.executor.close()
        await wait_until(lambda: not bench.processes())

    run_async(main())


def test_a_process_that_left_its_group_is_not_said_to_be_stopped(
    shell: Shell, bench: Any, run_async: Any
) -> None:
    async def main() -> None:
        leaves = "(setsid sh -c 'touch left; exec sleep 600' &); while [ ! -e left ]; do sleep 0.01; done"
        result = await shell.result("terminal", command=f"{leaves}; echo started")
        assert "p1; it left its process group, so it can not be stopped here" in result.content
        assert "left its process group" in await shell.process("kill")
        await shell.executor.close()

    try:
        run_async(main())
    finally:
        for left in bench.processes():
            os.kill(left, signal.SIGKILL)


def test_a_command_in_the_background_is_judged_as_any_other_and_what_is_typed_into_one_too(
    shell: Shell, run_async: Any
) -> None:
    async def main() -> None:
        result = await shell.result("terminal", command="rm -rf /", background=True)
        assert result.status == "denied"
        await shell.start("cat")
        result = await shell.result("process", action="write", process_id="p1", text="it's\nrm -rf /\n")
        assert result.status == "denied"
        assert "as a command, it " in result.content
        assert "wrote" in await shell.process("write", text="print('it is no command, that''s all\n")
        await shell.executor.close()

    run_async(main())
