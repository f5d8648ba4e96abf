from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from hermes_providers.local import LocalServer, LocalServerOptions

FAKE = Path(__file__).with_name("fake_server.py")


@dataclass
class FakeServers:
    """Makes servers whose child is the fake program, and knows the children's pids."""

    folder: Path

    def __post_init__(self) -> None:
        self.model = self.folder / "fake.gguf"
        self.model.write_bytes(b"GGUF")
        self.pid_files: list[Path] = []

    def program(self, behaviour: str) -> list[str]:
        self.pid_files.append(self.folder / f"pid-{len(self.pid_files)}")
        return [sys.executable, str(FAKE), behaviour, str(self.pid_files[-1])]

    def options(self, start_timeout_s: float = 300.0, stop_grace_s: float = 5.0) -> LocalServerOptions:
        return LocalServerOptions(
            model=str(self.model), start_timeout_s=start_timeout_s, stop_grace_s=stop_grace_s
        )

    def server(
        self, behaviour: str, *, start_timeout_s: float = 300.0, stop_grace_s: float = 5.0
    ) -> LocalServer:
        return LocalServer(self.options(start_timeout_s, stop_grace_s), program=self.program(behaviour))

    def pids(self) -> list[int]:
        return [int(file.read_text()) for file in self.pid_files if file.exists()]


@pytest.fixture
def fakes(tmp_path: Path) -> FakeServers:
    return FakeServers(tmp_path)


@pytest.fixture
def is_alive() -> Callable[[int], bool]:
    """Whether a process runs; a zombie that nobody has reaped counts as running."""

    def check(pid: int) -> bool:
        return Path(f"/proc/{pid}").exists()

    if not Path("/proc/self").exists():
        pytest.skip("needs /proc to see processes")
    return check


@pytest.fixture
def has_ended(is_alive: Callable[[int], bool]) -> Callable[[int], bool]:
    """Whether a process runs no more; a zombie does not."""

    def check(pid: int) -> bool:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return not is_alive(pid)
        return state == "Z"

    return check


async def until(condition: Callable[[], bool], limit_s: float = 120.0) -> None:
    """Wait for something that another process does; TimeoutError after `limit_s` seconds."""
    async with asyncio.timeout(limit_s):
        while not condition():  # noqa: ASYNC110 - nothing in this process could set an event
            await asyncio.sleep(0.01)
