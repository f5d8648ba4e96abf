"""A Ray cluster of our own: with slow agents, when who wanted it is killed, and where it can not start."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ray_processes import LIMIT_S, descendants, running, wait_until

pytestmark = [pytest.mark.ray_cluster, pytest.mark.ray_nightly, pytest.mark.timeout(400)]

SLOW_AGENTS = """
import time
with open("/proc/self/cmdline") as command:
    if any("agent" in word and word.endswith(".py") for word in command.read().split("\\0")):
        time.sleep(25)
"""
WANTS_IT = """
import asyncio, sys
from hermes_batch.ray_engine.cluster_process import hold_cluster

async def main():
    cluster = await hold_cluster(1)
    print(cluster.pid, flush=True)
    print(await cluster.address(), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_it_starts_although_its_agents_are_slower_than_ray_waits_and_ends_when_nobody_is_left_to_want_it(
    tmp_path: Path, ray_environment: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(SLOW_AGENTS)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    before = set(Path(ray_environment).iterdir())
    with subprocess.Popen(
        [sys.executable, "-c", WANTS_IT], stdout=subprocess.PIPE, env=environment
    ) as wanting:
        assert wanting.stdout is not None
        holder = int(wanting.stdout.readline())
        address = wanting.stdout.readline().decode()
        ours = {holder, *descendants(holder)}
        wanting.kill()
    assert address.partition(":")[2].strip().isdigit(), address
    assert len(ours) > 4
    wait_until(lambda: not running(ours))
    wait_until(lambda: set(Path(ray_environment).iterdir()) == before)


def test_one_that_can_not_start_says_why_and_leaves_nothing(ray_environment: str) -> None:
    before = set(Path(ray_environment).iterdir())
    command = [sys.executable, "-m", "hermes_batch.ray_engine.own_cluster", "1", "--no-such-option"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        told = holder.stdout.readline()
        assert holder.wait(LIMIT_S) == 1
    assert b"--no-such-option" in told
    assert set(Path(ray_environment).iterdir()) == before


def test_it_ends_by_sigterm_too(ray_environment: str) -> None:
    before = set(Path(ray_environment).iterdir())
    command = [sys.executable, "-m", "hermes_batch.ray_engine.own_cluster", "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        wait_until(lambda: set(Path(ray_environment).iterdir()) != before)
        holder.send_signal(signal.SIGTERM)
        assert holder.wait(LIMIT_S) == 0
    assert set(Path(ray_environment).iterdir()) == before
