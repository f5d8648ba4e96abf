"""Scripts of ours in the container of a task, beside its commands."""

from __future__ import annotations

from typing import Protocol

from hermes_messages.abilities import supports
from hermes_tools.command_runner import CommandProcess, CommandRunner
from hermes_tools.containers.file_scripts import command_of
from hermes_tools.errors import ToolFailure

__all__ = ["ContainerShell", "SupportsLeaving", "end"]

_MOST_ANSWER = 1 << 16


class ContainerShell:
    """Runs scripts where the commands of the task run."""

    def __init__(self, runner: CommandRunner, cwd: str) -> None:
        self._runner = runner
        self._cwd = cwd

    async def start(self, script: str, *words: str, with_input: bool = False) -> CommandProcess:
        """Start `script`. Whoever has it closes it with `end`. Raises `ToolFailure`."""
        try:
            return await self._runner.start(
                command_of(script, words), cwd=self._cwd, workdir="/", with_input=with_input
            )
        except ToolFailure as error:
            raise ToolFailure(f"the files of the container can not be reached: {error.text}") from error

    async def ask(self, script: str, *words: str, limit: int = _MOST_ANSWER) -> tuple[int | None, bytes]:
        """The exit code and the output of a script that ends by itself. Raises `ToolFailure`."""
        process = await self.start(script, *words)
        try:
            told = bytearray()
            while len(told) <= limit and (piece := await process.read()):
                told += piece
            return await process.wait(), bytes(told)
        finally:
            await end(process)


class SupportsLeaving(Protocol):
    """A process in a place that is worth more than an orderly end of the process."""

    async def stop_or_leave(self) -> None:
        """Stop it, or leave it to its own end where that can not be done."""
        ...


async def end(process: CommandProcess) -> None:
    """Stop it if need be, and close what leads to it. What a script of ours reads or writes is bounded, so
    no container is given up for one that can not be stopped."""
    try:
        await (process.stop_or_leave() if supports(process, SupportsLeaving) else process.stop())
    finally:
        process.close_pipes()
