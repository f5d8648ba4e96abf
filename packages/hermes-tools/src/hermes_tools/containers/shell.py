"""Scripts of ours in the container of a task, beside its commands."""

from __future__ import annotations

from typing import Protocol

from hermes_messages.abilities import supports
from hermes_tools.command_runner import CommandProcess, CommandRunner
from hermes_tools.containers.file_scripts import BEGUN, command_of
from hermes_tools.errors import ToolFailure

__all__ = ["ContainerShell", "ScriptProcess", "SupportsLeaving"]

_MOST_ANSWER = 1 << 16
_MOST_BEFORE = 1 << 12


class ContainerShell:
    """Runs scripts where the commands of the task run."""

    def __init__(self, runner: CommandRunner, cwd: str) -> None:
        self._runner = runner
        self._cwd = cwd

    async def start(self, script: str, *words: str, with_input: bool = False) -> ScriptProcess:
        """Start `script`. Whoever has it closes it with `end`. Raises `ToolFailure`."""
        try:
            process = await self._runner.start(
                command_of(script, words), cwd=self._cwd, workdir="/", with_input=with_input
            )
        except ToolFailure as error:
            raise ToolFailure(f"the files of the container can not be reached: {error.text}") from error
        return ScriptProcess(process)

    async def ask(self, script: str, *words: str, limit: int = _MOST_ANSWER) -> tuple[int | None, bytes]:
        """The exit code and the output of a script that ends by itself. Raises `ToolFailure`."""
        process = await self.start(script, *words)
        try:
            told = bytearray()
            while len(told) <= limit and (piece := await process.read()):
                told += piece
            return await process.wait(), bytes(told)
        finally:
            await process.end()


class SupportsLeaving(Protocol):
    """A process in a place that is worth more than an orderly end of the process."""

    async def stop_or_leave(self) -> None:
        """Stop it, or leave it to its own end where that can not be done."""
        ...


class ScriptProcess:
    """A script that runs. What the shell says before it begins is left out: bash warns of a locale that the
    image lacks, and runs the file that `BASH_ENV` names."""

    def __init__(self, process: CommandProcess) -> None:
        self._process = process
        self._begun = False

    async def read(self) -> bytes:
        """The next piece of what the script says; empty at its end. Of a script that never began, what was
        said instead of it."""
        before = b""
        while piece := await self._process.read():
            if self._begun:
                return piece
            said, begun, after = (before + piece).partition(BEGUN)
            self._begun = bool(begun)
            if after:
                return after
            before = said[-_MOST_BEFORE:]
        return b"" if self._begun else before

    async def wait(self) -> int | None:
        """See `CommandProcess`."""
        return await self._process.wait()

    async def write(self, data: bytes) -> None:
        """See `CommandProcess`."""
        await self._process.write(data)

    def end_input(self) -> None:
        """See `CommandProcess`."""
        self._process.end_input()

    async def end(self) -> None:
        """Stop it if need be, and close what leads to it. What a script of ours reads or writes is bounded,
        so no container is given up for one that can not be stopped."""
        process = self._process
        try:
            await (process.stop_or_leave() if supports(process, SupportsLeaving) else process.stop())
        finally:
            process.close_pipes()
