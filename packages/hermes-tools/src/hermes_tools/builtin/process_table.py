"""The processes of one task that outlive the call that started them."""

from __future__ import annotations

import asyncio
import logging
import time

from hermes_tools.builtin.command_output import CommandText
from hermes_tools.builtin.running_command import RunningCommand
from hermes_tools.command_runner import CommandProcess
from hermes_tools.errors import ToolFailure
from hermes_tools.output_log import OutputLog
from hermes_tools.processes import exit_text
from hermes_tools.secrets import SecretMasker

__all__ = ["BackgroundProcess", "LoggedOutput", "ProcessTable"]

logger: logging.Logger = logging.getLogger(__name__)

LOG_CHARS = 1_000_000
MAX_RUNNING = 32
MAX_ENDED = 32
_END_LIMIT_S = 1.0


class LoggedOutput:
    """Takes bytes into a log of bounded size. Credentials are hidden before anything is kept."""

    def __init__(self, masker: SecretMasker) -> None:
        self._text = CommandText(masker)
        self.log: OutputLog = OutputLog(LOG_CHARS)
        self.bytes_read: int = 0
        self.closed: bool = False

    async def feed(self, data: bytes) -> None:
        """See `OutputSink`."""
        self.bytes_read += len(data)
        if not self.closed:
            self.log.feed(self._text.feed(data))

    async def close(self) -> None:
        """See `OutputSink`."""
        if not self.closed:
            self.closed = True
            self.log.feed(self._text.finish())

    def line_so_far(self) -> str:
        """The line that is being written and is not in the log yet (a prompt, say)."""
        return "" if self.closed else self._text.held_back()


class BackgroundProcess:
    """A command in the background. `output` is None where only children of a command were left running."""

    def __init__(
        self, process_id: str, command: str, running: RunningCommand, output: LoggedOutput | None
    ) -> None:
        self.id = process_id
        self.command = command
        self.running = running
        self.output = output
        self.read_to = 0
        """How far into its output the model has been told."""
        self.gone: bool = False
        """Whether the command and all that it started in its group have been seen to be gone."""
        self._how_ended = ""
        self._started = time.monotonic()
        self._end = asyncio.create_task(self._see_end())

    async def _see_end(self) -> None:
        self._how_ended = f"ended with {exit_text(await self.running.ended())}"
        if self.output is not None and not await self.running.leaves_something():
            try:
                await self.running.stop()  # nothing is left to be ended: it only closes what is open
                self.gone = True
            except TimeoutError as error:
                logger.warning("process %s: %s", self.id, error)

    @property
    def has_ended(self) -> bool:
        """Whether the command itself has; what it started may go on."""
        return self._end.done() and self.output is not None

    async def look(self) -> None:
        """Find out whether what the command left running is gone by now."""
        ended = self._end.done() or self.output is None
        if ended and not self.gone and not await self.running.leaves_something():
            await self.stop()

    async def wait(self, limit_s: float) -> bool:
        """Whether it ended within `limit_s` seconds."""
        await asyncio.wait({self._end}, timeout=limit_s)
        return self._end.done()

    def state(self) -> str:
        """How it is, in words."""
        if self.output is None:
            return "left running by a command that has ended"
        if self._end.done() and self._how_ended:
            return self._how_ended + ("" if self.gone else "; processes that it started go on")
        if self.gone:
            return "stopped"
        return f"running, process {self.running.child.pid}, {time.monotonic() - self._started:.0f} s"

    async def stop(self) -> None:
        """End it and all that it started. Bounded; safe to call again."""
        try:
            await self.running.stop()
            self.gone = True
        finally:
            await asyncio.wait({self._end}, timeout=_END_LIMIT_S)
            self._end.cancel()
            await asyncio.wait({self._end})


class ProcessTable:
    """The processes of one task, by names that are given in the order of their start."""

    def __init__(self) -> None:
        self._processes: dict[str, BackgroundProcess] = {}
        self._count = 0

    @property
    def all(self) -> tuple[BackgroundProcess, ...]:
        """In the order of their start."""
        return tuple(self._processes.values())

    async def sweep(self) -> None:
        """See what is gone by now, and forget that of which there is nothing to read."""
        for process in self.all:
            await process.look()
            if process.gone and process.output is None:
                self._processes.pop(process.id, None)

    async def check_room(self) -> None:
        """Raises `ToolFailure` when no further process may be started."""
        await self.sweep()
        running = sum(not process.gone for process in self._processes.values())
        if running >= MAX_RUNNING:
            raise ToolFailure(f"{running} processes are running already; kill one first. Nothing was run.")

    def add(self, command: str, child: CommandProcess, masker: SecretMasker) -> BackgroundProcess:
        """Take charge of a process that was just started."""
        output = LoggedOutput(masker)
        return self._keep(command, RunningCommand(child, output, background=True), output)

    def adopt(self, command: str, running: RunningCommand) -> BackgroundProcess:
        """Take charge of what a command left running."""
        return self._keep(command, running, None)

    def _keep(self, command: str, running: RunningCommand, output: LoggedOutput | None) -> BackgroundProcess:
        ended = [process for process in self._processes.values() if process.gone]
        for process in ended[: max(0, len(ended) - MAX_ENDED)]:
            del self._processes[process.id]
        self._count += 1
        process = BackgroundProcess(f"p{self._count}", command, running, output)
        self._processes[process.id] = process
        return process

    def find(self, process_id: str | None) -> BackgroundProcess:
        """Raises `ToolFailure` for an unknown name, with those that are known."""
        found = self._processes.get((process_id or "").strip())
        if found is None:
            known = ", ".join(self._processes) or "none"
            raise ToolFailure(f"there is no process {process_id!r}; known: {known}")
        return found

    def forget(self, process: BackgroundProcess) -> None:
        """Drop one that is gone and of which there is nothing to read."""
        self._processes.pop(process.id, None)

    async def release(self) -> None:
        """End all of them, at the same time. Idempotent."""
        async with asyncio.TaskGroup() as group:
            for process in self._processes.values():
                group.create_task(process.stop())
        self._processes.clear()
