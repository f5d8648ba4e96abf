"""The gateway: Ray's driver, on an event loop of its own, that does what the driver of the run says.

It decides nothing. When the driver of the run goes (its end of the pipe closes, in whatever way), the workers
are told to end, and after `CLOSE_LIMIT_S` seconds they are ended.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import StreamReader, Task
from contextlib import suppress
from typing import BinaryIO

import msgspec
import ray
from ray.actor import ActorHandle
from ray.exceptions import RayActorError, RayError

from hermes_batch.ray_engine.frames import read_frame
from hermes_batch.ray_engine.wire import (
    Begin,
    Cancel,
    Connected,
    FromGateway,
    Gone,
    Kill,
    Lost,
    Opened,
    Ready,
    RunRow,
    StartWorker,
    Trouble,
    decode_to_gateway,
    frame,
)
from hermes_batch.ray_engine.worker import RowWorker, read_opening, read_result
from hermes_batch.worker_process import WorkerError

__all__ = ["CLOSE_LIMIT_S", "serve"]

CLOSE_LIMIT_S = 30.0

_CONTROL_CALLS = 16
"""How many calls beside rows an actor takes at once: opening, cancellations, the close."""
_LONGEST_REASON = 400
OUR_NODE_IS_GONE = "its owner has died"
"""How Ray tells that an actor ended since we count as dead: what keeps us in the cluster, the raylet of this
machine, is gone, and nothing can be run through it any more."""


async def serve(incoming: BinaryIO, outgoing: BinaryIO) -> None:
    """Do as the frames of `incoming` say until it ends; then end the workers."""
    loop = asyncio.get_running_loop()
    reader = StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), incoming)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, outgoing)
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    gateway = _Gateway(writer)
    try:
        gateway.say(Connected(sum(bool(node["Alive"]) for node in ray.nodes())))
        while (body := await read_frame(reader)) is not None:
            gateway.take(decode_to_gateway(body))
            with suppress(ConnectionError):
                await writer.drain()
    finally:
        await gateway.close()
        transport.close()


class _Gateway:
    """The actors by number, and the calls that are under way; each call's task is kept until it ends."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._actors: dict[int, ActorHandle] = {}
        self._opened: set[int] = set()
        self._calls: set[Task[None]] = set()

    def say(self, message: FromGateway) -> None:
        """Tell the driver of the run, if it is still there."""
        with suppress(ConnectionError):
            self._writer.write(frame(message))

    def take(self, message: object) -> None:
        """Begin what the driver asks for."""
        match message:
            case StartWorker():
                self._begin(self._start(message))
            case RunRow(worker=worker) if worker in self._actors:
                self._begin(self._run(message, self._actors[worker]))
            case Cancel(worker=worker, number=number) if worker in self._actors:
                self._begin(self._cancel(number, self._actors[worker]))
            case Kill(worker=worker) if worker in self._actors:
                self._lose(worker, "it was ended, since it did not answer")
            case Begin():
                raise WorkerError("the gateway has begun already")
            case _:
                pass  # the worker was lost meanwhile, which the driver has been told

    def _begin(self, call: object) -> None:
        assert asyncio.iscoroutine(call)
        task: Task[None] = asyncio.get_running_loop().create_task(call)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _start(self, asked: StartWorker) -> None:
        actor_class = ray.remote(RowWorker).options(
            num_cpus=asked.cpus,
            max_concurrency=asked.slots + _CONTROL_CALLS,
            max_restarts=0,
            scheduling_strategy="SPREAD",
        )
        actor = self._actors[asked.worker] = actor_class.remote()
        try:
            answer = await actor.open.remote(asked.worker, asked.job, asked.secrets, asked.slots)
            opened = read_opening(answer)
        except (RayError, msgspec.DecodeError) as error:
            self._lose(asked.worker, _reason(error))
            return
        if isinstance(opened, Opened):
            self._opened.add(asked.worker)
            self.say(Ready(asked.worker))
        else:
            self.say(opened)

    async def _run(self, asked: RunRow, actor: ActorHandle) -> None:
        try:
            self.say(read_result(await actor.run_row.remote(asked.number, asked.row)))
        except RayActorError as error:  # also one that is only out of reach: its rows must not run twice
            self._lose(asked.worker, _reason(error))
        except (RayError, msgspec.DecodeError) as error:
            self.say(Trouble(asked.number, _reason(error)))

    async def _cancel(self, number: int, actor: ActorHandle) -> None:
        with suppress(RayError):  # its rows tell that it is lost
            await actor.cancel.remote(number)

    def _lose(self, worker: int, reason: str) -> None:
        actor = self._actors.pop(worker, None)
        if actor is not None:
            ray.kill(actor)
            self.say(Gone(reason) if OUR_NODE_IS_GONE in reason else Lost(worker, reason))

    async def close(self) -> None:
        """Let the workers end, then end them. Rows that run are cancelled."""
        for call in self._calls:
            call.cancel()
        opened = [actor for number, actor in self._actors.items() if number in self._opened]
        closing = [asyncio.create_task(_close(actor)) for actor in opened]
        if closing:
            await asyncio.wait(closing, timeout=CLOSE_LIMIT_S)
        for task in closing:
            task.cancel()
        for actor in self._actors.values():
            ray.kill(actor)


async def _close(actor: ActorHandle) -> None:
    with suppress(RayError):
        await actor.close.remote()


def _reason(error: Exception) -> str:
    """An error of Ray in one line: its texts are pages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("The actor is dead", "The node"))]
    text = (telling or lines or [type(error).__name__])[0]
    sys.stderr.write(f"{error}\n")
    return text.partition(" Some common causes")[0][:_LONGEST_REASON]
