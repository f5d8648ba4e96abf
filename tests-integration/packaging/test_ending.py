"""What a runner started ends with it: what listens may clean up first, what does not listen is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

CI = Path(__file__).parents[2] / ".ci"
RUNNER = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from ending import end, run_until_stopped

async def main():
    process = await asyncio.create_subprocess_exec(*sys.argv[3:], start_new_session=True)
    try:
        await process.wait()
    finally:
        await end(process, float(sys.argv[2]))

run_until_stopped(main())
"""
LISTENS = 'trap "echo cleaned > $1.done; exit" INT; exec 9> $1; echo started >&9; sleep 1000 & wait'
DEAF = 'trap "" INT; exec 9> $1; echo started >&9; sleep 1000 & wait'
LEAVES = "exec 9> $1; echo started >&9; sleep 1000 &"


@pytest.fixture
def ready(tmp_path: Path) -> Path:
    """A pipe whose other end the child and all that it starts hold open."""
    os.mkfifo(tmp_path / "ready")
    return tmp_path / "ready"


def run(shell: str, ready: Path, grace_s: float, *signals: signal.Signals) -> int:
    """The runner's exit code; nothing that holds the pipe outlives it."""
    command = [sys.executable, "-c", RUNNER, str(CI), str(grace_s), "sh", "-c", shell, "sh", str(ready)]
    with subprocess.Popen(command) as runner:
        with ready.open() as held:
            assert held.readline() == "started\n"
            for number in signals:
                runner.send_signal(number)
            assert held.read() == ""
        return runner.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_runner_lets_its_child_clean_up(ready: Path, number: signal.Signals) -> None:
    assert run(LISTENS, ready, 300, number) == 128 + number
    assert ready.with_suffix(".done").read_text() == "cleaned\n"


def test_a_child_that_does_not_listen_is_killed_with_its_own(ready: Path) -> None:
    assert run(DEAF, ready, 0.1, signal.SIGTERM) == 128 + signal.SIGTERM


def test_what_a_child_leaves_behind_is_killed(ready: Path) -> None:
    assert run(LEAVES, ready, 300) == 0
