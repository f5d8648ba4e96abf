"""The actor: a pool of rows on one event loop, on whatever machine Ray put it.

Nothing but bytes goes in and out, so that a worker needs hermes-batch of the same version and no code of the
driver.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

import msgspec

from hermes_batch.engines import RowJob
from hermes_batch.local_engine import LocalEngine
from hermes_batch.ray_engine.wire import (
    Done,
    Opened,
    Refused,
    Stopped,
    Trouble,
    WorkerJob,
    decode_job,
    decode_row,
)
from hermes_batch.records import Record, encode_record
from hermes_batch.supervision import supervised
from hermes_messages import ConfigurationError

__all__ = ["RowWorker", "read_opening", "read_result"]

_opening: msgspec.msgpack.Decoder[Opened | Refused] = msgspec.msgpack.Decoder(Opened | Refused)
_result: msgspec.msgpack.Decoder[Done | Trouble | Stopped] = msgspec.msgpack.Decoder(Done | Trouble | Stopped)


class RowWorker:
    """Runs rows with the local engine. Its methods are called through Ray, many at once."""

    def __init__(self) -> None:
        self._engine = LocalEngine()
        self._running: dict[int, asyncio.Task[Record]] = {}
        self._cancelled_early: set[int] = set()

    async def open(self, number: int, job: bytes, secrets: bytes, slots: int) -> bytes:
        """Open the agents as worker `number`; `Opened` or `Refused`, encoded."""
        try:
            await self._engine.open(_row_job(decode_job(job, secrets), slots))
        except Exception as error:  # noqa: BLE001 - whatever it is, the driver is to know
            await self._engine.close()
            mistaken = isinstance(error, ConfigurationError)
            reason = str(error) if mistaken else f"{type(error).__name__}: {error}"
            return msgspec.msgpack.encode(Refused(number, mistaken, reason))
        return msgspec.msgpack.encode(Opened())

    async def run_row(self, number: int, row: bytes) -> bytes:
        """One attempt; `Done`, `Trouble` or `Stopped`, encoded."""
        if number in self._cancelled_early:
            self._cancelled_early.discard(number)
            return msgspec.msgpack.encode(Stopped(number))
        task = asyncio.create_task(self._engine.run_row(decode_row(row)))
        self._running[number] = task
        try:
            with suppress(Exception):  # whatever it is, it is told below
                await supervised(task, what=f"row {number} of a worker")
        finally:
            del self._running[number]
        return msgspec.msgpack.encode(_outcome(number, task))

    async def cancel(self, number: int) -> None:
        """Cancel an attempt, also one whose call comes after this one; `run_row` tells the rest."""
        task = self._running.get(number)
        if task is None:
            self._cancelled_early.add(number)
        else:
            task.cancel()

    async def close(self) -> None:
        """Cancel what runs, and release everything."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await supervised(_all_ended(tasks), what="ending the rows of a worker", limit_s=30.0)
        await self._engine.close()


def _row_job(given: WorkerJob, slots: int) -> RowJob:
    """The job as the local engine has it; modules are looked for where the driver looks for them, too."""
    agents = given.options if given.factory is None else given.factory
    if agents is None:
        raise ConfigurationError("no agents are named; hermes-batch is to be of one version everywhere")
    sys.path.extend(path for path in given.paths if path not in sys.path)
    return RowJob(settings=given.settings, agents=agents, num_workers=slots)


async def _all_ended(tasks: list[asyncio.Task[Record]]) -> None:
    await asyncio.wait(tasks)


def _outcome(number: int, task: asyncio.Task[Record]) -> Done | Trouble | Stopped:
    """How an attempt that is over has ended."""
    if task.cancelled():
        return Stopped(number)
    error = task.exception()
    if error is not None:
        return Trouble(number, f"{type(error).__name__}: {error}")
    return Done(number, encode_record(task.result()))


def read_opening(data: bytes) -> Opened | Refused:
    """What `RowWorker.open` returned. Raises `msgspec.DecodeError`."""
    return _opening.decode(data)


def read_result(data: bytes) -> Done | Trouble | Stopped:
    """What `RowWorker.run_row` returned. Raises `msgspec.DecodeError`."""
    return _result.decode(data)
