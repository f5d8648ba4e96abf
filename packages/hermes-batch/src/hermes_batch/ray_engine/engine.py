"""The engine `ray` as the driver of a run has it: it places rows on workers and waits for their records."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec

import msgspec
from msgspec import Struct

from hermes_batch.agent_options import AgentOptions
from hermes_batch.engines import RowEngine, RowJob
from hermes_batch.errors import EngineLostError, EngineStartError, WorkerLostError
from hermes_batch.ray_engine.cluster_process import ClusterProcess, hold_cluster
from hermes_batch.ray_engine.gateway_process import GatewayProcess, start_gateway
from hermes_batch.ray_engine.pool import Broken, Replace, WorkerPool, share_of_options, slots_of_each
from hermes_batch.ray_engine.settings import (
    OWN,
    RaySettings,
    address_of,
    cpus_of_own_cluster,
    read_settings,
)
from hermes_batch.ray_engine.wire import (
    Begin,
    Cancel,
    Connected,
    Done,
    FromGateway,
    Gone,
    Kill,
    Lost,
    NotConnected,
    Ready,
    Refused,
    RunRow,
    StartWorker,
    Stopped,
    Trouble,
    encode_job,
    encode_row,
)
from hermes_batch.records import Record, decode_record
from hermes_batch.rows import PromptRow
from hermes_batch.supervision import finish
from hermes_messages import ConfigurationError, MissingDependencyError
from hermes_messages.argument_text import JsonValue

__all__ = ["RayEngine", "make_ray_engine"]

logger: logging.Logger = logging.getLogger(__name__)

_Outcome = Done | Trouble | Stopped

_STOP_LIMIT_S = 60.0
"""How long a cancelled attempt may clean up on its worker, in seconds."""
_LATE_S = 120.0
"""How much longer than its own timeout an attempt may take before its worker counts as hung, in seconds."""


class _Call(Struct, frozen=True):
    """An attempt that is under way."""

    worker: int
    outcome: asyncio.Future[_Outcome]


class RayEngine:
    """Runs rows on Ray actors, each a pool of rows on its own event loop."""

    def __init__(self, settings: RaySettings) -> None:
        self._settings = settings
        self._cluster: ClusterProcess | None = None
        self._gateway: GatewayProcess | None = None
        self._connected = False
        self._listening: asyncio.Task[None] | None = None
        self._numbers = itertools.count()
        self._forget()

    def _forget(self) -> None:
        """Know of no run."""
        self._calls: dict[int, _Call] = {}
        self._changed = asyncio.Event()
        self._trouble: str | None = None
        self._refused: Refused | None = None
        self._row_timeout_s: float | None = None

    async def open(self, job: RowJob) -> None:
        """Connect to the cluster, and wait for the first worker.

        Raises `ConfigurationError` for what can not work, `EngineStartError` when there is no cluster or no
        worker within `start_timeout_s`.
        """
        agents = _sendable(job.agents)
        settings = self._settings
        self._forget()
        self._row_timeout_s = job.settings.timeout_s
        address = address_of(settings, os.environ)
        if address == OWN:
            self._cluster = await hold_cluster(cpus_of_own_cluster(settings, os.cpu_count() or 1))
        self._gateway = gateway = await start_gateway(self._cluster)
        state = "the Ray cluster did not answer"
        try:
            async with asyncio.timeout(settings.start_timeout_s):
                machines = await self._connect(gateway, address)
                state = (
                    f"no Ray worker was ready; is there a machine with {settings.cpus_per_actor:g} CPUs free?"
                )
                workers = min(settings.actors or machines, job.num_workers)
                if isinstance(agents, AgentOptions):
                    agents = share_of_options(agents, workers)
                self._job, self._secrets = encode_job(job.settings, agents, sys.path)
                self._slots = slots_of_each(job.num_workers, workers)
                self._pool = WorkerPool(workers, self._slots)
                self._listening = asyncio.get_running_loop().create_task(self._listen(gateway))
                for number in self._pool.numbers:
                    await self._start_worker(number)
                while not self._pool.ready and self._trouble is None:
                    await self._changed.wait()
        except TimeoutError:
            raise EngineStartError(f"{state} (waited {settings.start_timeout_s:g} s)") from None
        if self._refused is not None and self._refused.configuration:
            raise ConfigurationError(f"on a Ray worker: {self._refused.reason}")
        if self._trouble is not None:
            raise EngineStartError(self._trouble)

    async def _connect(self, gateway: GatewayProcess, address: str) -> int:
        """How many machines the cluster has."""
        if self._cluster is not None:
            address = await self._cluster.address()
        await gateway.send(Begin(address))
        match await gateway.receive():
            case Connected(machines=machines):
                self._connected = True
                return max(1, machines)
            case NotConnected(reason=reason):
                raise EngineStartError(f"Ray can not be used at address {address!r}: {reason}")
            case _:
                said = await gateway.last_words()
                raise EngineStartError(f"Ray ended while it connected to {address!r}: {said}")

    async def run_row(self, row: PromptRow) -> Record:
        """One attempt of `row` on a worker. Raises as `RowEngine.run_row`."""
        worker = await self._place(row.index)
        finished = False
        try:
            outcome = await self._call(worker, row)
            finished = True
        finally:
            self._pool.leave(worker, row.index, finished=finished)
            self._has_changed()
        match outcome:
            case Done(record=record):
                return decode_record(record)
            case Trouble(reason=reason):
                raise EngineLostError(f"a Ray worker could not run a row: {reason}")
            case Stopped():
                raise WorkerLostError("the row was cancelled on its worker, which nobody here asked for")

    async def _place(self, index: int) -> int:
        """A worker for the row, as soon as one has room. Raises `EngineLostError` when there is none."""
        patience_s = self._settings.start_timeout_s
        while self._trouble is None:
            worker = self._pool.place(index)
            if worker is not None:
                return worker
            try:
                async with asyncio.timeout(patience_s):
                    await self._changed.wait()
            except TimeoutError:
                if not self._pool.ready:
                    self._break(f"no Ray worker was ready for {patience_s:g} s")
        raise EngineLostError(self._trouble)

    async def _call(self, worker: int, row: PromptRow) -> _Outcome:
        gateway = self._gateway
        assert gateway is not None
        number = next(self._numbers)
        call = _Call(worker, asyncio.get_running_loop().create_future())
        self._calls[number] = call
        late_s = None if self._row_timeout_s is None else self._row_timeout_s + _LATE_S
        try:
            await gateway.send(RunRow(worker, number, encode_row(row)))
            await asyncio.wait({call.outcome}, timeout=late_s)
            if not call.outcome.done():
                await gateway.send(Kill(worker))
            return await call.outcome
        except asyncio.CancelledError:
            await finish(self._stop(gateway, number, call), what=f"ending row {row.index} on its worker")
            raise
        finally:
            del self._calls[number]

    async def _stop(self, gateway: GatewayProcess, number: int, call: _Call) -> None:
        """Cancel an attempt on its worker, and wait until it has ended; a worker that does not obey ends."""
        if call.outcome.done():
            return
        await gateway.send(Cancel(call.worker, number))
        await asyncio.wait({call.outcome}, timeout=_STOP_LIMIT_S)
        if not call.outcome.done():
            await gateway.send(Kill(call.worker))

    async def close(self) -> None:
        """End the workers, the gateway, and a cluster of our own. Idempotent."""
        gateway, self._gateway = self._gateway, None
        listening, self._listening = self._listening, None
        connected, self._connected = self._connected, False
        cluster, self._cluster = self._cluster, None
        try:
            if gateway is not None:
                await finish(gateway.end(at_once=not connected), what="ending the Ray gateway")
            if listening is not None:
                await asyncio.wait({listening})
        finally:
            if cluster is not None:
                await finish(cluster.end(), what="ending the Ray cluster")

    async def _start_worker(self, number: int) -> None:
        gateway = self._gateway
        if gateway is not None:
            cpus = self._settings.cpus_per_actor
            await gateway.send(StartWorker(number, cpus, self._slots, self._job, self._secrets))

    async def _listen(self, gateway: GatewayProcess) -> None:
        """Take what the gateway says, until it is gone."""
        try:
            while (message := await gateway.receive()) is not None:
                await self._take(message)
        except msgspec.DecodeError as error:
            self._break(f"the Ray gateway said what can not be read: {error}")
        if self._gateway is not None:
            self._break(f"the connection to the Ray cluster is lost: {await gateway.last_words()}")

    async def _take(self, message: FromGateway) -> None:
        match message:
            case Done(number=number) | Trouble(number=number) | Stopped(number=number):
                call = self._calls.get(number)
                if call is not None and not call.outcome.done():
                    call.outcome.set_result(message)
            case Ready(worker=worker):
                self._pool.is_ready(worker)
            case Refused(reason=reason):
                self._refused = message
                self._break(f"a Ray worker can not make agents: {reason}")
            case Lost(worker=worker, reason=reason):
                await self._lose(worker, reason)
            case Gone(reason=reason):
                self._break(f"the connection to the Ray cluster is lost: {reason}")
            case Connected() | NotConnected():
                pass
        self._has_changed()

    async def _lose(self, worker: int, reason: str) -> None:
        verdict = self._pool.lost(worker)
        for call in self._calls.values():
            if call.worker == worker and not call.outcome.done():
                call.outcome.set_exception(WorkerLostError(reason))
        match verdict:
            case Replace(worker=number):
                logger.warning("a Ray worker was lost (%s); another takes its place", reason)
                await self._start_worker(number)
            case Broken(losses=losses):
                self._break(f"{losses} Ray workers were lost and no row was finished; the last: {reason}")
            case None:
                pass

    def _break(self, trouble: str) -> None:
        """No row can be run any more."""
        if self._trouble is None:
            self._trouble = trouble
        for call in self._calls.values():
            if not call.outcome.done():
                call.outcome.set_exception(EngineLostError(self._trouble))
        self._has_changed()

    def _has_changed(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def make_ray_engine(settings: Mapping[str, JsonValue]) -> RowEngine:
    """The entry point `ray`. Raises `MissingDependencyError`, `ConfigurationError`."""
    read = read_settings(settings)
    if find_spec("ray") is None:
        raise MissingDependencyError("the engine 'ray' needs ray, which", "pip install 'hermes-batch[ray]'")
    return RayEngine(read)


def _sendable(agents: object) -> AgentOptions | str:
    """Raises `ConfigurationError` for an object that lives in this process."""
    if isinstance(agents, AgentOptions):
        if objects := [hook for hook in agents.hooks if not isinstance(hook, str)]:
            raise ConfigurationError(
                f"among the hooks is a {type(objects[0]).__name__}, an object of this process, which a Ray"
                " worker can not have; give the name of an entry point of hermes.hooks"
            )
        return agents
    if isinstance(agents, str):
        return agents
    raise ConfigurationError(
        "agent_factory is an object of this process, which a Ray worker can not have; give the name of a"
        " callable that makes it, package.module:name"
    )
