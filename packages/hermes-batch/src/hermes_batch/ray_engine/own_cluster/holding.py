"""Holds a cluster until nobody wants it: until standard input ends, or SIGTERM.

Standard input is a pipe that everybody has who needs the cluster. They may end in whatever way; when the last
has, the cluster is ended and its directory removed. Standard output gets one line: `at HOST:PORT` when the
cluster has started, else the reason why not, and then the exit code is 1.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from asyncio import StreamReader
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path

from hermes_batch.files import list_names, make_temporary_directory, remove_tree, replace_file

__all__ = ["STARTED", "command_of_cluster", "hold"]

STARTED = "at "
"""What the line begins with that tells the address."""
STARTS = 3
"""A port may be taken by somebody else between our looking and Ray's using it, and some waits of Ray can not
be made longer."""
PORTS = ("port", "runtime-env-agent-port", "ray-client-server-port")
"""Options of `ray start`; the last one only where there is a client server, then else at a fixed port."""
PATIENCE = {
    "RAY_agent_register_timeout_ms": "600000",
    "RAY_worker_register_timeout_seconds": "600",
    "RAY_prestart_worker_first_driver": "0",  # one for each CPU, for nothing
}
"""How long Ray waits for its own programs, unless whoever runs this says otherwise; the driver bounds all."""

SHORT = "/tmp" if sys.platform == "darwin" else None  # noqa: S108 - the directory in it has a name of its own
"""Where directories are made; the paths of Ray's sockets in them may have about a hundred characters."""

GCS_FILE = "gcs_server_port_"
"""What the name of the file begins with that Ray's first program writes; then comes the node's id."""
AGENT_FILES = ("metrics_agent_port_", "metrics_export_port_", "dashboard_agent_listen_port_")

_LOOK_S = 0.05
_END_LIMIT_S = 20.0
_LAST_LINES = 12
_LAST_WORDS_S = 2.0
_REMOVALS = 120
"""Processes that are being killed may still write their logs."""


def command_of_cluster(cpus: int, ports: Sequence[int], directory: Path, options: Sequence[str]) -> list[str]:
    """Starts a cluster of one machine and holds it. Port 0: workers take any that is free."""
    return [
        sys.executable, "-P", "-m", "ray.scripts.scripts", "start", "--head", "--block", f"--num-cpus={cpus}",
        "--include-dashboard=false", "--include-log-monitor=false", f"--temp-dir={directory}",
        "--min-worker-port=0", "--max-worker-port=0",
        *(f"--{name}={port}" for name, port in zip(PORTS, ports, strict=False)), *options,
    ]  # fmt: skip


def free_ports(count: int) -> list[int]:
    """Where nobody listens now."""
    with ExitStack() as sockets:
        bound = [sockets.enter_context(socket.socket()) for _ in range(count)]
        for one in bound:
            one.bind(("", 0))
        return [int(one.getsockname()[1]) for one in bound]


async def hold(cpus: int, options: Sequence[str]) -> int:
    """Start the cluster, tell where, hold it; the exit code."""
    loop = asyncio.get_running_loop()
    unwanted = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, unwanted.set)
    watching = loop.create_task(_end_of_input(unwanted))
    try:
        reason = ""
        for _ in range(STARTS):
            if unwanted.is_set():
                return 0
            reason = await _hold_one(cpus, options, unwanted)
            if not reason:
                return 0
        _say(reason)
        return 1
    finally:
        watching.cancel()


async def _end_of_input(unwanted: asyncio.Event) -> None:
    reader = StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer
    )
    while await reader.read(1024):
        pass
    unwanted.set()


async def _hold_one(cpus: int, options: Sequence[str], unwanted: asyncio.Event) -> str:
    """One cluster, from its start to its end; why it did not start, or nothing."""
    directory = await make_temporary_directory("ray-", os.environ.get("RAY_TMPDIR") or SHORT)
    try:
        return await _hold_one_in(directory, cpus, options, unwanted)
    finally:
        await _remove(directory)


async def _hold_one_in(directory: Path, cpus: int, options: Sequence[str], unwanted: asyncio.Event) -> str:
    loop = asyncio.get_running_loop()
    ports = free_ports(len(PORTS) - (find_spec("grpc") is None))
    process = await asyncio.create_subprocess_exec(
        *command_of_cluster(cpus, ports, directory, options),
        stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, start_new_session=True,
        env={**PATIENCE, **os.environ},
    )  # fmt: skip
    assert process.stdout is not None
    output = _Output(process.stdout)
    reading = loop.create_task(output.read())
    stopping = loop.create_task(unwanted.wait())
    telling = loop.create_task(_tell_of_no_service(directory))
    try:
        starting = loop.create_task(output.started.wait())
        ending = loop.create_task(process.wait())
        await asyncio.wait({starting, ending, stopping}, return_when=asyncio.FIRST_COMPLETED)
        starting.cancel()
        if output.started.is_set():
            _say(f"{STARTED}{output.host}:{ports[0]}")
        await asyncio.wait({ending, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if output.started.is_set() or unwanted.is_set():
            return ""
        await asyncio.wait({reading}, timeout=_LAST_WORDS_S)
        return output.reason
    finally:
        stopping.cancel()
        telling.cancel()
        await _end(process)
        reading.cancel()


async def _tell_of_no_service(directory: Path) -> None:
    """Say for the dashboard's agent that it serves at no port; so it says itself without `ray[default]`.

    It tells its ports by files, and Ray's main program ends if one is missing 15 seconds later, while the
    agent alone takes three seconds of a processor until then. No setting makes that longer, and a port that
    is given is waited for, too (https://github.com/ray-project/ray/issues/65983). The cluster has no
    dashboard that would ask. A Ray that does not know these files does not see them.
    """
    while True:
        for session in await list_names(directory):
            names = await list_names(directory / session) if session.startswith("session_") else []
            nodes = [name.removeprefix(GCS_FILE) for name in names if name.startswith(GCS_FILE)]
            for node in nodes:
                for port in AGENT_FILES:
                    async with replace_file(directory / session / f"{port}{node}") as write:
                        await write(b"-1")
                return
        await asyncio.sleep(_LOOK_S)


class _Output:
    """What `ray start` says."""

    def __init__(self, stream: StreamReader) -> None:
        self._stream = stream
        self._lines: list[str] = []
        self.started = asyncio.Event()
        self.host = ""

    async def read(self) -> None:
        """Read to the end."""
        while line := (await self._stream.readline()).decode(errors="replace"):
            if "Local node IP:" in line:
                self.host = line.partition("Local node IP:")[2].strip()
            if "Ray runtime started" in line:
                self.started.set()
            self._lines = [*self._lines, line.strip()][-_LAST_LINES:]

    @property
    def reason(self) -> str:
        """The last of it."""
        told = [line for line in self._lines if line]
        return told[-1] if told else "ray start ended and said nothing"


async def _end(process: Process) -> None:
    """In order, and what is left after `_END_LIMIT_S` seconds by force."""
    if process.returncode is None:
        process.terminate()
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_LIMIT_S):
                await process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(_END_LIMIT_S):
            await process.wait()


async def _remove(directory: Path) -> None:
    for _ in range(_REMOVALS):
        await remove_tree(directory)
        if not await list_names(directory):
            return
        await asyncio.sleep(0.25)


def _say(line: str) -> None:
    with suppress(OSError):  # nobody is there any more
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
