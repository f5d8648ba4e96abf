"""Running `hermes-batch` as a process of its own, and looking at the processes it starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

HERMES_BATCH = Path(sys.executable).parent / "hermes-batch"
PATIENCE_S = 300.0


def job_environment(home: Path, **extra: str) -> dict[str, str]:
    """What a process of a test sees: no key of the person who runs the tests."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "SSL_CERT_FILE") if name in os.environ}
    return kept | {"HOME": str(home), "PYTHONWARNINGS": "error"} | extra


def run_batch(
    directory: Path, *arguments: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """`hermes-batch ARGUMENTS` in `directory`, to its end."""
    return subprocess.run(
        [HERMES_BATCH, *arguments],
        cwd=directory,
        env=env or job_environment(directory),
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )


def start_batch(directory: Path, *arguments: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """`hermes-batch ARGUMENTS` in `directory`, left running; its progress can be read from `stderr`."""
    return subprocess.Popen(
        [HERMES_BATCH, *arguments],
        cwd=directory,
        env=env or job_environment(directory),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """The lines of the process's progress up to the first that contains `text`."""
    assert process.stderr is not None
    seen = ""
    for line in process.stderr:
        seen += line
        if text in line:
            return seen
    pytest.fail(f"the process ended without a line with {text!r}; it wrote:\n{seen}")


def model_servers(parent: int) -> list[int]:
    """The model servers that the process `parent` started and that are alive."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if int(stat.rpartition(")")[2].split()[1]) == parent and b"server" in command and b"gguf" in command:
            found.append(int(entry.name))
    return found


def alive(pids: Sequence[int]) -> list[int]:
    """Those of `pids` that still run."""
    running = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z":
            running.append(pid)
    return running


def wait_until_gone(pids: Sequence[int]) -> None:
    """Fail unless all of `pids` end soon."""
    deadline = time.monotonic() + PATIENCE_S
    while alive(pids):
        if time.monotonic() > deadline:
            for pid in alive(pids):
                os.kill(pid, signal.SIGKILL)
            pytest.fail(f"still running: {pids}")
        time.sleep(0.05)
