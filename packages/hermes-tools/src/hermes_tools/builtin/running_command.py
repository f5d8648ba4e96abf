"""A command that runs, and the task that reads what it puts out."""

from __future__ import annotations

import asyncio
from typing import Protocol

from hermes_tools.command_runner import CommandProcess
from hermes_tools.shielding import finish_despite_cancel

__all__ = ["OutputSink", "RunningCommand"]

QUIET_S = 0.1
DRAIN_ROUNDS = 10
STOP_LIMIT_S = 3.9


class OutputSink(Protocol):
    """Where the output goes."""

    @property
    def bytes_read(self) -> int:
        """How much came in so far."""
        ...

    @property
    def closed(self) -> bool:
        """Whether nothing is kept any more."""
        ...

    async def feed(self, data: bytes) -> None:
        """Take the next piece; once closed it is dropped."""
        ...

    async def close(self) -> None:
        """Take no more. Again does nothing."""
        ...


class RunningCommand:
    """Reads the output of `child` into `output` until nobody writes any more, also after the command's end:
    no process that it left running is ended by a full or closed pipe. Of one in the `background` it reads no
    more than half of the time."""

    def __init__(self, child: CommandProcess, output: OutputSink, *, background: bool = False) -> None:
        self.child = child
        self._output = output
        self._background = background
        self._pump = asyncio.create_task(self._read_on())

    async def finish(self, timeout_s: float) -> int | None:
        """Its exit code, once it has ended and what it wrote has been read. Raises `TimeoutError`."""
        async with asyncio.timeout(timeout_s):
            code = await self.child.wait()
        await self._drain()
        await self._output.close()
        return code

    async def ended(self) -> int | None:
        """The same without a limit; what children of it write is still taken."""
        code = await self.child.wait()
        await self._drain()
        return code

    async def leaves_something(self) -> bool:
        """Whether processes that it started go on."""
        return not self._pump.done() or await self.child.group_lives()

    async def stop(self) -> None:
        """End all of it. Bounded, finished even when cancelled, safe to call again."""
        await finish_despite_cancel(self._stop, STOP_LIMIT_S)

    async def _stop(self) -> None:
        await self.child.stop()
        await asyncio.wait({self._pump}, timeout=QUIET_S)  # for what the dying wrote
        self._pump.cancel()
        await asyncio.wait({self._pump})
        self.child.close_pipes()
        await self._output.close()

    async def _read_on(self) -> None:
        clock = asyncio.get_running_loop().time
        while chunk := await self.child.read():
            began = clock()
            await self._output.feed(chunk)
            # A command that never pauses must not keep the loop to itself; one left running is slowed down.
            busy_s = clock() - began if self._background else 0
            await asyncio.sleep(QUIET_S if self._output.closed else busy_s)

    async def _drain(self) -> None:
        """Take in what is still in the pipe: to its end, or until it is quiet because a child holds it.

        Of a child that never is quiet some rounds are taken; by the clock, what was written would be lost
        when this process was stopped for a moment (Ctrl-Z, a busy machine).
        """
        seen = -1
        for _ in range(DRAIN_ROUNDS):
            if self._pump.done() or seen == self._output.bytes_read:
                return
            seen = self._output.bytes_read
            await asyncio.wait({self._pump}, timeout=QUIET_S)
