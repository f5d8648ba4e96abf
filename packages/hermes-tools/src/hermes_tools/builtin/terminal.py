"""`terminal`: shell commands."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from hermes_messages.protocols import SupportsAvailability, Tool, ToolCallContext, Toolset
from hermes_tools import files
from hermes_tools.builtin.command_output import CommandOutput
from hermes_tools.context import CallContext
from hermes_tools.errors import ToolFailure
from hermes_tools.processes import ChildProcess, exit_text
from hermes_tools.resources import TaskResources
from hermes_tools.secrets import scrubbed_environment
from hermes_tools.shielding import finish_despite_cancel
from hermes_tools.tool import tool

__all__ = ["TerminalToolset", "command_environment"]

DEFAULT_TIMEOUT_S = 60
MAX_TIMEOUT_S = 600
QUIET_S = 0.1
DRAIN_LIMIT_S = 1.0
STOP_LIMIT_S = 3.5
_SHELLS = ("/bin/bash", "/bin/sh")
_FIXED_ENVIRONMENT = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}


class TerminalToolset:
    """The toolset `terminal`. Processes that a command leaves running belong to the task of the call."""

    def __init__(self) -> None:
        self._own_resources = TaskResources("terminal")

        @tool(scheduling="sequential")
        async def terminal(
            context: ToolCallContext,
            command: str,
            timeout: float = DEFAULT_TIMEOUT_S,
            workdir: str | None = None,
        ) -> str:
            """Run a shell command and show its output.

            Args:
                command: shell command
                timeout: seconds to wait
                workdir: directory to run in
            """
            own_context = CallContext.of(context, self._own_resources)
            return await _run(own_context, command, min(max(0.05, timeout), MAX_TIMEOUT_S), workdir)

        self._tools: tuple[Tool, ...] = (terminal,)

    @property
    def name(self) -> str:
        """The toolset's name."""
        return "terminal"

    @property
    def tools(self) -> Sequence[Tool]:
        """Its one tool."""
        return self._tools

    def unavailable_reason(self) -> str | None:
        """Only systems with POSIX process groups can run it."""
        return "it needs a POSIX system" if sys.platform == "win32" else None

    async def close(self) -> None:
        """End what was left running outside the executor's own tasks."""
        await self._own_resources.release()


def command_environment() -> dict[str, str]:
    """What a command sees of our environment: all but credentials, and no pager that waits for a key."""
    return scrubbed_environment(os.environ) | _FIXED_ENVIRONMENT


async def _run(context: CallContext, command: str, timeout_s: float, workdir: str | None) -> str:
    if not command.strip():
        raise ToolFailure("the command is empty")
    cwd = await _working_directory(context, workdir)
    shell = _SHELLS[0] if await files.status_of(_SHELLS[0]) is not None else _SHELLS[1]
    output = CommandOutput(context)
    context.partial_output_from(output.text)
    try:
        child = await ChildProcess.start((shell, "-c", command), cwd=cwd, environment=command_environment())
    except OSError as error:
        raise ToolFailure(f"the command could not be started: {error.strerror or error}") from error
    running = _RunningCommand(child, output)
    try:
        code = await running.finish(timeout_s)
        left_running = await running.leaves_something()
    except TimeoutError:
        await running.stop()
        raise ToolFailure(_timeout_text(timeout_s, output.text()), status="timed_out") from None
    except BaseException:
        await running.stop()
        raise
    if left_running:
        context.resources.on_release(running.stop)
    else:
        await running.stop()  # nothing is left to be ended: it only closes what is open
    return _result_text(output.text(), code, left_running=left_running)


async def _working_directory(context: CallContext, workdir: str | None) -> str:
    cwd = context.round.cwd
    if workdir:
        cwd = str(PurePath(cwd) / workdir)
    if "\0" in cwd:
        raise ToolFailure(f"workdir {workdir!r} holds a NUL character; nothing was run")
    status = await files.status_of(await files.real_path(cwd))
    if status is None or not stat.S_ISDIR(status.st_mode):
        raise ToolFailure(f"{workdir or cwd}: no such directory; nothing was run")
    return cwd


class _RunningCommand:
    """A command and the task that reads its output."""

    def __init__(self, child: ChildProcess, output: CommandOutput) -> None:
        self._child = child
        self._output = output
        self._pump = asyncio.create_task(self._read_on())

    async def finish(self, timeout_s: float) -> int | None:
        """Its exit code, once it has ended and what it wrote has been read. Raises `TimeoutError`."""
        async with asyncio.timeout(timeout_s):
            code = await self._child.wait()
        await self._drain()
        await self._output.close()
        return code

    async def leaves_something(self) -> bool:
        """Whether processes that it started go on."""
        return not self._pump.done() or await self._child.group_lives()

    async def stop(self) -> None:
        """End all of it. Bounded, finished even when cancelled, safe to call again."""
        await finish_despite_cancel(self._stop, STOP_LIMIT_S)

    async def _stop(self) -> None:
        await self._child.stop()
        await asyncio.wait({self._pump}, timeout=QUIET_S)  # for what the dying wrote
        self._pump.cancel()
        await asyncio.wait({self._pump})
        self._child.close_pipes()
        await self._output.close()

    async def _read_on(self) -> None:
        """Read until nobody writes any more; also after the end of the call, so that no process that was left
        running is killed by a full or closed pipe."""
        while chunk := await self._child.read():
            await self._output.feed(chunk)
            # A command that never pauses must not keep the loop to itself; one left running is slowed down.
            await asyncio.sleep(QUIET_S if self._output.closed else 0)

    async def _drain(self) -> None:
        """Take in what is still in the pipe: to its end, or until it is quiet because a child holds it."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DRAIN_LIMIT_S
        seen = -1
        while not self._pump.done() and seen != self._output.bytes_read and loop.time() < deadline:
            seen = self._output.bytes_read
            await asyncio.wait({self._pump}, timeout=QUIET_S)


def _result_text(text: str, code: int | None, *, left_running: bool) -> str:
    notes = []
    if code != 0:
        notes.append(f"[{exit_text(code)}]")
    elif not text.strip():
        notes.append("[no output, exit code 0]")
    if left_running:
        notes.append("[a background process is still running; it is stopped when this task ends]")
    body = text.rstrip("\n")
    return "\n".join([body, *notes] if body else notes)


def _timeout_text(timeout_s: float, text: str) -> str:
    so_far = f" Output so far:\n{text}" if text.strip() else " There was no output."
    return f"Timed out after {timeout_s:g} s; the command was stopped.{so_far}"


if TYPE_CHECKING:

    def _fits(toolset: TerminalToolset) -> tuple[Toolset, SupportsAvailability]:
        return toolset, toolset
