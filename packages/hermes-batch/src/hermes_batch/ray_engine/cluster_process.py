"""The process that holds a cluster of our own, seen from the run: started, asked for the address, ended."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping

from hermes_batch.errors import EngineStartError
from hermes_batch.ray_engine.own_cluster.holding import STARTED
from hermes_batch.ray_engine.settings import QUIET
from hermes_batch.worker_process import kill

__all__ = ["ClusterProcess", "hold_cluster"]

_END_LIMIT_S = 90.0


class ClusterProcess:
    """A cluster of our own. Whoever has it calls `end`.

    It ends when nobody has the pipe `wanted` any more: neither we nor the processes that were given it.
    `environment` is what those processes need, who are to connect to it.
    """

    def __init__(self, process: Process, wanted: int, environment: Mapping[str, str]) -> None:
        assert process.stdout is not None
        self._process = process
        self._stdout = process.stdout
        self.wanted = wanted
        self.environment = environment

    @property
    def pid(self) -> int:
        """The id of the process that holds it."""
        return self._process.pid

    async def address(self) -> str:
        """Where the cluster is, as soon as it has started. Raises `EngineStartError`. Asked for once."""
        line = (await self._stdout.readline()).decode(errors="replace").strip()
        if not line.startswith(STARTED):
            raise EngineStartError(f"Ray can not be started on this machine: {line or 'it ended'}")
        return line.removeprefix(STARTED)

    async def end(self) -> None:
        """Want it no more, and wait for its end, bounded in time."""
        os.close(self.wanted)
        try:
            async with asyncio.timeout(_END_LIMIT_S):
                await self._process.wait()
        except TimeoutError:
            await kill(self._process)


async def hold_cluster(cpus: int) -> ClusterProcess:
    """Begin to start a cluster that has `cpus`.

    Ray's services listen on the network, and what may talk to them may run anything: they want a word that
    only this run knows. Left to itself, Ray keeps one in the home directory.
    """
    environment = {**QUIET, **os.environ}
    environment.pop("RAY_ADDRESS", None)
    if "RAY_AUTH_MODE" not in environment:
        environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    command = [sys.executable, "-P", "-m", "hermes_batch.ray_engine.own_cluster", str(cpus)]
    read, wanted = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=read, stdout=PIPE, start_new_session=True, env=environment
        )
    except BaseException:
        os.close(wanted)
        raise
    finally:
        os.close(read)
    return ClusterProcess(process, wanted, environment)
