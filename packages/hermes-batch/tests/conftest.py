"""What the tests of this package share with others of the workspace, and a Ray cluster of this machine."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parents[3] / ".ci"))  # for the module `browser`

# No test of properties fails because the machine is busy.
settings.register_profile(
    "hermes-batch", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("hermes-batch")

START_LIMIT_S = 150.0


def command_of_cluster(address: str, directory: str) -> list[str]:
    """Starts a cluster at an address that leads to this machine only, and holds it.

    What is not needed is left out: a machine that has not started its agents, which are programs in Python,
    within 15 seconds ends, and all that starts at once takes time from them.
    """
    host, _, port = address.partition(":")
    return [
        sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--no-monitor",
        "--include-log-monitor=false", "--include-dashboard=false", f"--node-ip-address={host}",
        f"--port={port}", "--num-cpus=2", f"--object-store-memory={100 * 1024 * 1024}",
        f"--temp-dir={directory}/ray",
    ]  # fmt: skip


def free_address() -> str:
    """Where nobody listens now."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.2", 0))
        return f"127.0.0.2:{listening.getsockname()[1]}"


def has_started(process: subprocess.Popen[bytes], log: Path) -> bool:
    """Wait for the cluster, which says that it has started or ends."""
    deadline = time.monotonic() + START_LIMIT_S
    while process.poll() is None and time.monotonic() < deadline:
        if b"Ray runtime started" in log.read_bytes():
            return True
        time.sleep(0.1)
    return False


@pytest.fixture(scope="session")
def ray_environment() -> Iterator[str]:
    """The directory of Ray's sockets and logs, and an environment with a word that only we know."""
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as directory:
        ours = {
            "RAY_TMPDIR": directory,  # short: paths of sockets have a limit
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # the cluster is not to get a copy of the sources
            "RAY_prestart_worker_first_driver": "0",  # idle workers would only take this machine's time
            "PYTHONDONTWRITEBYTECODE": "",  # a machine whose agents take 15 s to start, compiling, gives up
            "RAY_agent_register_timeout_ms": "200000",  # patience, for a machine that is busy
            "RAY_worker_register_timeout_seconds": "200",
        }
        before = {name: os.environ.get(name) for name in ours}
        os.environ.update(ours)
        yield directory
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@pytest.fixture(scope="session")
def ray_address(ray_environment: str) -> Iterator[str]:
    """The address of a cluster that is held by a process of its own."""
    log = Path(ray_environment, "start.log")
    for _attempt in range(4):
        address = free_address()
        with log.open("wb") as output:
            process = subprocess.Popen(
                command_of_cluster(address, ray_environment),
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        try:
            if has_started(process, log):
                yield address
                return
        finally:
            end_cluster(process)
    raise AssertionError(f"Ray did not start: {log.read_text()}")


def end_cluster(process: subprocess.Popen[bytes]) -> None:
    """In order, and what then is left of it by force."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(30)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
