"""Where the commands of `terminal` run: the seam between the tool and a place for processes.

`HostCommands` is this machine; `hermes_tools.containers` runs them in a container of the task.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Awaitable, Callable
from pathlib import PurePath
from typing import TYPE_CHECKING, Protocol

from hermes_tools import files
from hermes_tools.errors import ToolFailure
from hermes_tools.processes import ChildProcess
from hermes_tools.secrets import COMMAND_VARIABLES, scrubbed_environment

__all__ = [
    "CommandProcess",
    "CommandRunner",
    "HostCommands",
    "command_environment",
    "command_place",
]

_SHELLS = ("/bin/bash", "/bin/sh")


class CommandProcess(Protocol):
    """A command that was started, with all that it starts in its process group. Whoever has it must `stop`
    it or see its end with `wait`, and then `close_pipes`."""

    @property
    def pid(self) -> int:
        """Its number where it runs."""
        ...

    async def read(self) -> bytes:
        """The next piece of output, errors in it; empty once everyone who could write has closed it."""
        ...

    async def wait(self) -> int | None:
        """The exit code once it has ended: 128+n for signal n, None where nobody knows. Somebody must go on
        reading meanwhile."""
        ...

    async def group_lives(self) -> bool:
        """Whether a process of the group is left, be it only a child of the one that was started."""
        ...

    async def stop(self) -> None:
        """End the whole group: TERM, a moment, KILL; within 3.9 s, whoever cancels. Again does nothing."""
        ...

    async def write(self, data: bytes) -> None:
        """Give it input. Raises `BrokenPipeError` when its input is closed, on either side."""
        ...

    def unwritten(self) -> int:
        """How many bytes of the input wait for it to read."""
        ...

    def end_input(self) -> None:
        """Let it see the end of its input, after what was written. Again does nothing."""
        ...

    def close_pipes(self) -> None:
        """Close our ends of the pipes. Again does nothing."""
        ...


class CommandRunner(Protocol):
    """A place where shell commands of one task can be started."""

    async def start(
        self,
        command: str,
        *,
        cwd: str,
        workdir: str | None,
        with_input: bool,
        on_lost_output: Callable[[bytes], Awaitable[None]] | None = None,
    ) -> CommandProcess:
        """Start `command` with bash where there is one, else sh, in `cwd`, or in `workdir` seen from there.

        Without `with_input` it has no input. Raises `ToolFailure` when it can not be started, with nothing
        left running, as is the case after a cancellation; what the command wrote before that, as far as it
        was seen, goes to `on_lost_output`.
        """
        ...


class HostCommands:
    """Runs commands as processes of this machine, without the credentials of our environment."""

    async def start(
        self,
        command: str,
        *,
        cwd: str,
        workdir: str | None,
        with_input: bool,
        on_lost_output: Callable[[bytes], Awaitable[None]] | None = None,
    ) -> ChildProcess:
        """See `CommandRunner`."""
        place = command_place(cwd, workdir)
        status = await files.status_of(await files.real_path(place))
        if status is None or not stat.S_ISDIR(status.st_mode):
            raise ToolFailure(f"{workdir or place}: no such directory; nothing was run")
        shell = _SHELLS[0] if await files.status_of(_SHELLS[0]) is not None else _SHELLS[1]
        try:
            return await ChildProcess.start(
                (shell, "-c", command),
                cwd=place,
                environment=command_environment(),
                with_input=with_input,
                on_lost_output=on_lost_output,
            )
        except OSError as error:
            raise ToolFailure(f"the command could not be started: {error.strerror or error}") from error


def command_place(cwd: str, workdir: str | None) -> str:
    """The directory that is meant. Raises `ToolFailure` for one that can not exist."""
    place = str(PurePath(cwd) / workdir) if workdir else cwd
    if "\0" in place:
        raise ToolFailure(f"workdir {workdir!r} holds a NUL character; nothing was run")
    return place


def command_environment() -> dict[str, str]:
    """What a command sees of our environment: all but credentials, and no pager that waits for a key."""
    return scrubbed_environment(os.environ) | COMMAND_VARIABLES


if TYPE_CHECKING:

    def _fits(child: ChildProcess) -> CommandProcess:
        return child

    def _runs(host: HostCommands) -> CommandRunner:
        return host
