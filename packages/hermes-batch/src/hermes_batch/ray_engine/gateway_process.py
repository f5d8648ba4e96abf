"""The child process that is Ray's driver, seen from the run: frames to it, frames from it, and its end."""

from __future__ import annotations

import asyncio
import sys
from asyncio import StreamReader, Task
from asyncio.subprocess import PIPE, Process
from contextlib import suppress

from hermes_batch.ray_engine.cluster_process import ClusterProcess
from hermes_batch.ray_engine.frames import read_frame
from hermes_batch.ray_engine.wire import FromGateway, ToGateway, decode_from_gateway, frame
from hermes_batch.worker_process import kill

__all__ = ["GatewayProcess", "start_gateway"]

_END_LIMIT_S = 45.0
_TAIL_BYTES = 2_000


class GatewayProcess:
    """A gateway that runs. Whoever has it calls `end`."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._tail = bytearray()
        self._listening: Task[None] = asyncio.get_running_loop().create_task(self._listen(process.stderr))

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    async def send(self, message: ToGateway) -> None:
        """Say something, at the pace at which it is read. That it is gone shows in what it says."""
        with suppress(ConnectionError, RuntimeError):  # RuntimeError: the pipe is closed by `end`
            self._stdin.write(frame(message))
            await self._stdin.drain()

    async def receive(self) -> FromGateway | None:
        """What it says next; None when it is gone. Raises `msgspec.DecodeError`."""
        body = await read_frame(self._stdout)
        return None if body is None else decode_from_gateway(body)

    async def last_words(self) -> str:
        """The end of what a gateway that is gone complained of, in one line."""
        await asyncio.wait({self._listening}, timeout=1.0)
        lines = self._tail.decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else "it said nothing"

    async def end(self, *, at_once: bool = False) -> None:
        """Let it end its workers and itself, bounded in time; `at_once`, or late: kill it."""
        self._stdin.close()
        try:
            if not at_once:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_END_LIMIT_S):
                        await self._process.wait()
        finally:
            await kill(self._process)
            await asyncio.wait({self._listening}, timeout=1.0)
            self._listening.cancel()

    async def _listen(self, stderr: StreamReader) -> None:
        while piece := await stderr.read(4096):
            self._tail += piece
            del self._tail[:-_TAIL_BYTES]


async def start_gateway(cluster: ClusterProcess | None) -> GatewayProcess:
    """Start the gateway; it waits for `Begin`. Its modules are never looked for in the current directory.

    The cluster, if it is ours, stays until the gateway has ended, too, whatever becomes of this process.
    """
    command = [sys.executable, "-P", "-m", "hermes_batch.ray_engine"]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True,
        env=None if cluster is None else cluster.environment,
        pass_fds=() if cluster is None else (cluster.wanted,),
    )  # fmt: skip
    return GatewayProcess(process)
