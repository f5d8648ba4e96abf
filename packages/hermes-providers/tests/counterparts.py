"""Starts the servers of others that play hosts, each as a process of its own on a free port."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
from quiet_port import quiet_port

__all__ = ["AIMOCK", "NODE_IS_TOO_OLD", "NODE_VERSION", "serving"]

_NODE_OF_AIMOCK = (20, 15)
_START_S = 300.0


def _aimock() -> str | None:
    """The program that `.ci/run` installed, or the one that the environment names."""
    installed = Path(__file__).parents[3] / ".cache/node/node_modules/@copilotkit/aimock/dist/cli.js"
    return os.environ.get("AIMOCK") or (str(installed) if installed.exists() else None)


def _node_version() -> tuple[int, ...]:
    node = shutil.which("node")
    if node is None:
        return ()
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    return tuple(int(part) for part in said.strip().lstrip("v").split(".") if part.isdecimal())


AIMOCK = _aimock()
NODE_VERSION = _node_version()
NODE_IS_TOO_OLD = bool(NODE_VERSION) and NODE_VERSION < _NODE_OF_AIMOCK


@contextmanager
def serving(command: Callable[[int], Sequence[str]], health: str) -> Iterator[str]:
    """The address of the server that `command` starts at a port, once it answers at the path `health`."""
    process, root = _start(command, health)
    try:
        yield root
    finally:
        process.terminate()
        process.wait()


def _start(command: Callable[[int], Sequence[str]], health: str) -> tuple[subprocess.Popen[bytes], str]:
    for _ in range(5):
        port = quiet_port()
        root = f"http://127.0.0.1:{port}"
        process = subprocess.Popen([*command(port)], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + _START_S
        while process.poll() is None:
            with suppress(httpx.HTTPError):
                httpx.get(f"{root}{health}", trust_env=False, verify=False).raise_for_status()
                return process, root
            if time.monotonic() > deadline:
                process.kill()
            time.sleep(0.1)
    raise AssertionError(f"the server ended by itself with {process.wait()}, or did not start in time")
