"""Starts the servers of others that play hosts, each as a process of its own on a free port."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

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
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    root = f"http://127.0.0.1:{port}"
    with subprocess.Popen([*command(port)], stdout=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + _START_S
            while True:
                try:
                    httpx.get(f"{root}{health}", trust_env=False).raise_for_status()
                    break
                except httpx.HTTPError:
                    assert process.poll() is None, "the server ended by itself"
                    assert time.monotonic() < deadline, "the server did not start"
                    time.sleep(0.1)
            yield root
        finally:
            process.terminate()
