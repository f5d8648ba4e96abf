"""Processes of Ray on this machine, for the tests that kill them and prove that none is left."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

LIMIT_S = 300.0


@dataclass(frozen=True)
class RayCluster:
    """A cluster of this machine, and the process that holds it."""

    address: str
    holder: int

    def workers(self) -> set[int]:
        """The processes of actors that are alive."""
        return {pid for pid in descendants(self.holder) if command_of(pid).startswith("ray::RowWorker")}


def gateway_of(driver: int) -> int:
    """The process through which the run of process `driver` talks to Ray."""
    [found] = [pid for pid in descendants(driver) if "hermes_batch.ray_engine" in command_of(pid)]
    return found


def command_of(pid: int) -> str:
    """How the process is called; nothing when it is over."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace")
    except OSError:
        return ""


def descendants(pid: int) -> set[int]:
    """The processes below `pid`, without those that are over and that nobody has waited for."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = stat.read_text().rsplit(")", 1)[1].split()[:2]
            if state != "Z":
                children.setdefault(int(parent), []).append(int(stat.parent.name))
    found: set[int] = set()
    unseen = [pid]
    while unseen:
        below = children.get(unseen.pop(), [])
        found.update(below)
        unseen.extend(below)
    return found


def running(pids: set[int]) -> list[str]:
    """What those of the processes are called that are not over."""
    return [called for pid in pids if (called := command_of(pid))]


def wait_until(reached: Callable[[], bool], process: subprocess.Popen[bytes] | None = None) -> None:
    """Wait for what other processes make come true; no longer than `process` runs, if one is given."""
    deadline = time.monotonic() + LIMIT_S
    while not reached() and (process is None or process.poll() is None):
        assert time.monotonic() < deadline
        time.sleep(0.005)
