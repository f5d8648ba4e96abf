from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_tools import ApprovalPolicy, processes
from hermes_tools.builtin import command_output, process_table
from hermes_tools.builtin.process_table import BackgroundProcess, LoggedOutput
from hermes_tools.builtin.running_command import QUIET_S, RunningCommand
from hermes_tools.processes import CHUNK_BYTES, ChildProcess
from hermes_tools.secrets import SecretMasker
from hermes_tools.terminal_text import TerminalText


def shell(bench: Any, command: str, **more: Any) -> str:
    return str(bench.text("terminal", {"command": command, **more}, "terminal"))


def failed(bench: Any, command: str, **more: Any) -> Any:
    [result] = bench.run(bench.call("terminal", {"command": command, **more}), toolsets=("terminal",))
    assert result.status != "ok", result.content
    return result


# -- what comes back --------------------------------------------------------------------------------------


def test_output_errors_and_exit_code_come_back(bench: Any) -> None:
    assert shell(bench, "echo out; echo err >&2") == "out\nerr"
    assert shell(bench, "echo out; exit 3") == "out\n[exit code 3]"
    assert shell(bench, "true") == "[no output, exit code 0]"
    assert shell(bench, "pwd") == str(bench.workspace)
    assert shell(bench, "cat") == "[no output, exit code 0]"  # there is no input to wait for


def test_a_death_by_signal_is_reported_as_the_shell_does(bench: Any) -> None:
    assert shell(bench, "kill -KILL $$") == "[exit code 137, SIGKILL]"
    assert shell(bench, "exec sh -c 'kill -SEGV $$'") == "[exit code 139, SIGSEGV]"
    assert shell(bench, "exit 200") == "[exit code 200]"


def test_a_working_directory_may_be_given(bench: Any) -> None:
    (bench.workspace / "sub").mkdir()
    assert shell(bench, "pwd", workdir="sub") == str(bench.workspace / "sub")
    assert "no such directory" in failed(bench, "pwd", workdir="nowhere").content
    assert "NUL" in failed(bench, "pwd", workdir="a\0b").content


def test_commands_that_can_not_be_run_are_refused(bench: Any) -> None:
    assert failed(bench, "  ").content == "the command is empty"
    assert "null byte" in failed(bench, "echo a\0b").content
    long = "x" * 3_000_000
    assert "too many to be judged" in failed(bench, long).content
    call = bench.call("terminal", {"command": long})
    trusting = {"approval_policy": ApprovalPolicy(dangerous="allow")}
    [result] = bench.run(call, toolsets=("terminal",), settings=trusting)
    assert "could not be started: Argument list too long" in result.content


def test_the_environment_holds_no_credentials(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "GH_TOKEN", "AWS_SECRET_ACCESS_KEY", "MYSQL_PWD"):
        monkeypatch.setenv(name, "sk-very-secret-1")
    monkeypatch.setenv("DATABASE_URL", "postgres://user:sk-very-secret-2@host/db")
    monkeypatch.setenv("PLAIN", "kept")
    shown = shell(bench, "env")
    assert "secret" not in shown
    assert "PLAIN=kept" in shown
    assert "PATH=" in shown


def test_a_credential_that_a_file_gives_away_is_hidden_also_in_the_file_of_the_full_text(
    bench: Any, monkeypatch: pytest.MonkeyPatch, run_async: Any
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-1")
    (bench.workspace / "env").write_text("x" * 50_000 + "\nkey=sk-very-secret-1\n" + "y" * 50_000)

    async def main() -> None:
        executor = bench.executor("terminal")
        [result] = (await bench.outcome(executor, bench.call("terminal", {"command": "cat *v"}))).results
        path = result.content.split("all of it is in ")[1].split(" ...]")[0]
        text = kept(path)
        assert "key=[hidden]" in text
        assert "secret" not in text
        await executor.close()

    run_async(main())


def kept(path: str) -> str:
    return Path(path).read_text()


# -- children that stay -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "( sleep 600 & ) ; echo started",
        "sleep 600 </dev/null >/dev/null & echo started",  # it still holds the error stream
        "sleep 600 </dev/null >/dev/null 2>&1 & echo started",
        "nohup sleep 600 & echo started",
    ],
)
def test_a_background_child_keeps_neither_the_call_waiting_nor_living_on(bench: Any, command: str) -> None:
    text = shell(bench, command, timeout=300)
    assert text.startswith("started") or "started\n" in text
    assert "background process is still running" in text


def test_a_child_that_left_the_group_does_not_hold_the_call(bench: Any) -> None:
    child = "touch left; echo $$ > pid; exec sleep 600"
    text = shell(bench, f"setsid sh -c '{child}' & while [ ! -s pid ]; do sleep 0.01; done; echo started")
    os.kill(int((bench.workspace / "pid").read_text()), signal.SIGKILL)  # it is still there
    assert "started" in text


def test_a_child_left_running_that_never_stops_writing_is_slowed_down(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        executor = bench.executor("terminal")
        outcome = await bench.outcome(executor, bench.call("terminal", {"command": "yes & echo started"}))
        assert "still running" in outcome.results[0].content
        [table] = executor._toolsets[0]._tables.values()
        output = table.all[0].running._output
        read = output.bytes_read
        for _ in range(3):
            await asyncio.sleep(QUIET_S)
        pauses_read = output.bytes_read - read
        assert pauses_read < 40 * CHUNK_BYTES, "it is read without a pause"
        await executor.close()

    run_async(main())


def test_a_child_left_running_goes_on_until_the_task_is_released(
    bench: Any, run_async: Any, wait_until: Any
) -> None:
    async def main() -> None:
        executor = bench.executor("terminal")
        command = "(while echo tick; do sleep 0.01; echo x >> ticks; done) & echo started"
        await bench.outcome(executor, bench.call("terminal", {"command": command}))
        ticks = bench.workspace / "ticks"
        await wait_until(lambda: ticks.exists() and ticks.stat().st_size > 20)
        assert bench.processes()
        await executor.release("other task")
        assert bench.processes()
        await executor.release("task")
        await wait_until(lambda: not bench.processes())
        await executor.close()

    run_async(main())


# -- being stopped ----------------------------------------------------------------------------------------


def test_a_timeout_keeps_the_output_so_far_and_ends_the_whole_tree(
    bench: Any, growing_limits: tuple[float, ...]
) -> None:
    for limit_s in growing_limits:
        result = failed(bench, "echo a; (sleep 600; echo no) & sleep 600; touch x", timeout=limit_s)
        assert result.status == "timed_out"
        if "There was no output" not in result.content:
            break
    told = f"Timed out after {limit_s:g} s; the command was stopped. Output so far:\na\n"
    assert result.content == told
    assert not (bench.workspace / "x").exists()


def test_a_command_that_ignores_term_is_killed(bench: Any, growing_limits: tuple[float, ...]) -> None:
    for limit_s in growing_limits:
        result = failed(bench, "trap '' TERM; echo deaf; while :; do sleep 0.05; done", timeout=limit_s)
        assert result.status == "timed_out"
        if "There was no output" not in result.content:
            break
    assert "deaf" in result.content


def test_a_command_that_is_interrupted_says_what_it_did(bench: Any, run_async: Any, wait_until: Any) -> None:
    async def main() -> None:
        executor = bench.executor("terminal", "todo")
        command = "echo begun; touch began; sleep 30 && touch x"
        calls = [bench.call("terminal", {"command": command}), bench.call("todo")]
        round_ = asyncio.ensure_future(bench.outcome(executor, *calls))
        await wait_until((bench.workspace / "began").exists)
        bench.interrupt.request()
        running, waiting = (await round_).results
        assert running.status == "interrupted"
        assert "begun" in running.content
        assert waiting.status == "not_started"
        assert not bench.processes()
        await executor.close()

    run_async(main())
    assert not (bench.workspace / "x").exists()


def test_what_a_command_wrote_while_it_was_being_started_is_kept(
    bench: Any, run_async: Any, wait_until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    exec_ = asyncio.create_subprocess_exec

    async def noticed_late(*words: Any, **options: Any) -> asyncio.subprocess.Process:
        process = await exec_(*words, **options)
        await wait_until((bench.workspace / "began").exists)
        bench.interrupt.request()
        for _ in range(10):  # for the interrupt to cancel the call, which has no process yet
            await asyncio.sleep(0)
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noticed_late)
    [result] = bench.run(
        bench.call("terminal", {"command": "echo begun; touch began; sleep 30"}), toolsets=("terminal",)
    )
    assert result.status == "interrupted"
    assert "begun" in result.content
    assert not bench.processes()


def test_cancelling_again_and_again_still_ends_the_whole_tree(
    bench: Any, run_async: Any, wait_until: Any
) -> None:
    async def main() -> None:
        executor = bench.executor("terminal")
        command = "trap '' TERM; touch began; sleep 600 & sleep 600"
        round_ = asyncio.ensure_future(bench.outcome(executor, bench.call("terminal", {"command": command})))
        await wait_until((bench.workspace / "began").exists)
        for _ in range(4):
            round_.cancel()
            await asyncio.wait({round_}, timeout=0.05)
        with pytest.raises(asyncio.CancelledError):
            await round_
        await wait_until(lambda: not bench.processes())
        await executor.close()

    run_async(main())


@pytest.mark.parametrize("steps", range(0, 12, 2))
def test_cancelling_while_the_process_is_being_started_leaves_none(
    bench: Any, run_async: Any, wait_until: Any, steps: int
) -> None:
    async def main() -> None:
        executor = bench.executor("terminal")
        round_ = asyncio.ensure_future(
            bench.outcome(executor, bench.call("terminal", {"command": "sleep 600"}))
        )
        for _ in range(steps):
            await asyncio.wait({round_}, timeout=0.001)
        round_.cancel()
        with pytest.raises(asyncio.CancelledError):
            await round_
        await wait_until(lambda: not bench.processes())
        await executor.close()

    run_async(main())


def test_cancelling_again_while_a_process_is_being_started_waits_for_its_end(
    bench: Any, run_async: Any
) -> None:
    async def main() -> None:
        before = children_not_waited_for()  # servers of other packages' tests, in one run with them
        for steps in range(60):
            starting = asyncio.ensure_future(
                ChildProcess.start(
                    ("/bin/sleep", "600"), cwd="/", environment={"HERMES_TEST_MARK": bench.mark}
                )
            )
            for _ in range(steps % 12):
                await asyncio.sleep(0)
            for _ in range(1 + steps // 12):
                starting.cancel()
                await asyncio.sleep(0)
            try:
                child = await starting
            except asyncio.CancelledError:
                assert not bench.processes()
                assert not children_not_waited_for() - before
                continue
            await child.stop()
            child.close_pipes()

    run_async(main())


def children_not_waited_for() -> set[str]:
    known = Path(f"/proc/self/task/{os.getpid()}/children")  # not every kernel tells
    return set(known.read_text().split()) if known.exists() else set()


def test_the_end_of_the_loop_ends_the_command(bench: Any, wait_until: Any) -> None:
    async def main() -> None:
        executor = bench.executor("terminal")
        forgotten = asyncio.ensure_future(
            bench.outcome(executor, bench.call("terminal", {"command": "touch began; sleep 600"}))
        )
        await wait_until((bench.workspace / "began").exists)
        del forgotten

    asyncio.run(main())


def test_the_end_of_a_child_that_asyncio_misses_is_found_all_the_same(
    run_async: Any, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_MISSED_EXIT_POLL_S", 0.02)
    monkeypatch.setattr(processes, "_LATE_NOTICE_S", 0.02)

    async def main() -> None:
        child = await ChildProcess.start(("/bin/sh", "-c", "exit 7"), cwd="/", environment={})

        async def never() -> int:
            await asyncio.Event().wait()
            return 0

        real = child._process.wait
        monkeypatch.setattr(child._process, "wait", never)
        async with asyncio.timeout(120):
            assert await child.wait() in (7, None)
            await child.stop()
        assert await real() == 7
        child.close_pipes()

    run_async(main())


# -- odd and huge output ----------------------------------------------------------------------------------


def test_odd_bytes_colours_and_progress_bars_become_plain_text(bench: Any) -> None:
    assert shell(bench, r"printf '\377\376 ok\n'") == r"\xff\xfe ok"
    assert shell(bench, r"printf '\033[31mred\033[0m \033]0;title\007plain'") == "red plain"
    assert shell(bench, r"printf ' 10%%\r 50%%\r100%%\r\ndone\r\n'") == "100%\ndone"
    assert shell(bench, r"printf 'a\000b'") == "a\u2400b"
    assert shell(bench, r"printf 'x\010xbold'") == "xbold"
    assert shell(bench, r"printf '\302\2332Jseen'") == "2Jseen"


PIECES = st.lists(
    st.sampled_from(
        [
            *[b"a", "漢".encode(), b"\r", b"\n", b"\x1b[1;31m", b"\x1b]0;t\x07", b"\xff", b"\x08"],
            *[b"\x1b", b"\x1b]", b"\x1bP", b"\x1b(", b"\\", b"[", b" ", b"\x07", b"\xc2\x9b"],
        ]
    )
)


@given(PIECES, st.integers(1, 7))
def test_text_is_the_same_however_the_bytes_are_cut(pieces: list[bytes], size: int) -> None:
    data = b"".join(pieces)
    whole = TerminalText()
    expected = whole.feed(data) + whole.finish()
    cut = TerminalText()
    got = "".join(cut.feed(data[start : start + size]) for start in range(0, len(data), size)) + cut.finish()
    assert got == expected
    assert "\x1b" not in got
    assert "\x9b" not in got


@pytest.mark.parametrize(
    "broken", [b"\x1b\n", b"\x1b]0;title\n", b"\x1b\x01", b"\x1b[31\n", b"\x1b\xe2\x82\xac\n"]
)
def test_a_broken_control_sequence_does_not_hold_back_what_follows(broken: bytes) -> None:
    text = TerminalText()
    assert text.feed(broken + b"hello\nPassword? ").endswith("hello\n")
    assert text.held_back() == "Password? "


def test_an_endless_control_sequence_and_line_are_bounded() -> None:
    text = TerminalText()
    total = sum(len(text.feed(b"\x1b]0;" + b"x" * 10_000)) for _ in range(50))
    assert total > 100_000
    assert len(text.held_back()) < 200_000


def test_huge_output_is_shown_in_part_and_kept_in_a_file_of_bounded_size(
    bench: Any, run_async: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_output, "FILE_LIMIT_BYTES", 1_000_000)

    async def main() -> None:
        executor = bench.executor("terminal", "file")
        command = "echo first; head -c 100000000 /dev/zero | tr '\\0' 'x' | fold -w 99; echo last"
        [result] = (await bench.outcome(executor, bench.call("terminal", {"command": command}))).results
        assert result.status == "ok"
        assert len(result.content) < 31_000
        assert result.content.startswith("first\nxxx")
        assert result.content.endswith("\nxlast")
        assert "characters left out; the first 0 MB are in " in result.content
        path = result.content.split(" MB are in ")[1].split(" ...]")[0]
        [read] = (await bench.outcome(executor, bench.call("read_file", {"path": path, "limit": 1}))).results
        assert read.content.startswith("first")
        assert size_of(path) == 1_000_000
        await executor.close()

    run_async(main())


class StandsStill:
    """A command that has ended; its output is in the pipe, and this process is stopped while it reads it."""

    def __init__(self) -> None:
        self.pieces = [b"x"] * 100 + [b""]

    async def wait(self) -> int:
        return 0

    async def read(self) -> bytes:
        await asyncio.sleep(0)
        if len(self.pieces) == 100:
            time.sleep(20 * QUIET_S)  # noqa: ASYNC251 - the machine stands still
        return self.pieces.pop(0)


def test_output_is_not_lost_because_the_machine_stood_still(run_async: Any) -> None:
    async def main() -> str:
        output = LoggedOutput(SecretMasker(()))
        running = RunningCommand(StandsStill(), output)  # type: ignore[arg-type]
        assert await running.ended() == 0
        return output.line_so_far()

    assert run_async(main()) == "x" * 100


class SlowToAsk:
    """A command that is killed, in a place that takes long to say whether it left something running."""

    def __init__(self, *, tells_its_end: bool) -> None:
        self.pid = 7
        self.killed = asyncio.Event()
        self.asked = asyncio.Event()
        self.tells_its_end = tells_its_end

    async def wait(self) -> int:
        await self.killed.wait()
        if not self.tells_its_end:
            await asyncio.Event().wait()
        return 143

    async def read(self) -> bytes:
        await self.killed.wait()
        return b""

    async def group_lives(self) -> bool:
        self.asked.set()
        await asyncio.Event().wait()
        return False

    async def stop(self) -> None:
        self.killed.set()

    def close_pipes(self) -> None:
        pass


@pytest.mark.parametrize(
    ("tells_its_end", "state"), [(True, "ended with exit code 143, SIGTERM"), (False, "stopped")]
)
def test_a_process_that_was_killed_is_said_to_run(
    run_async: Any, monkeypatch: pytest.MonkeyPatch, tells_its_end: bool, state: str
) -> None:
    monkeypatch.setattr(process_table, "_END_LIMIT_S", 0.01)

    async def main() -> str:
        output = LoggedOutput(SecretMasker(()))
        child = SlowToAsk(tells_its_end=tells_its_end)
        process = BackgroundProcess("p1", "sleep 9", RunningCommand(child, output), output)  # type: ignore[arg-type]
        if tells_its_end:
            child.killed.set()
            await child.asked.wait()
        await process.stop()
        return process.state()

    assert run_async(main()) == state


def size_of(path: str) -> int:
    return Path(path).stat().st_size


def test_output_that_can_not_be_kept_is_still_shown_in_part(
    bench: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp" / "gone"))
    monkeypatch.setattr("hermes_tools.resources.temporary_root", gone(tmp_path))
    text = shell(bench, "seq 100000")
    assert "they could not be kept" in text
    assert text.endswith("100000")


def gone(tmp_path: Path) -> Any:
    async def temporary_root() -> str:
        return str(tmp_path / "not there")

    return temporary_root
