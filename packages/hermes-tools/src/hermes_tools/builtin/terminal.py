"""`terminal` and `process`: shell commands, and those of them that go on in the background."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes_messages.protocols import SupportsAvailability, Tool, ToolCallContext, Toolset
from hermes_tools.builtin.command_output import CommandOutput
from hermes_tools.builtin.process import LEFT_GROUP, Action, act, described
from hermes_tools.builtin.process_table import ProcessTable
from hermes_tools.builtin.running_command import RunningCommand
from hermes_tools.command_runner import CommandProcess, command_environment
from hermes_tools.context import CallContext
from hermes_tools.errors import ToolFailure
from hermes_tools.processes import exit_text
from hermes_tools.resources import TaskResources
from hermes_tools.tool import tool

__all__ = ["TerminalToolset", "command_environment"]

DEFAULT_TIMEOUT_S = 60
MAX_TIMEOUT_S = 600
FIRST_LOOK_S = 0.2


class TerminalToolset:
    """The toolset `terminal`. Processes that go on after their call belong to the task of the call."""

    def __init__(self) -> None:
        self._own_resources = TaskResources("terminal")
        self._tables: dict[TaskResources, ProcessTable] = {}

        @tool(scheduling="sequential")
        async def terminal(
            context: ToolCallContext,
            command: str,
            timeout: float = DEFAULT_TIMEOUT_S,
            workdir: str | None = None,
            background: bool = False,
        ) -> str:
            """Run a shell command and show its output.

            Args:
                command: shell command
                timeout: seconds to wait
                workdir: directory to run in
                background: do not wait for its end
            """
            own_context = CallContext.of(context, self._own_resources)
            table = self._table_of(own_context.resources)
            if background:
                return await _run_in_background(own_context, command, workdir, table)
            limit_s = min(max(0.05, timeout), MAX_TIMEOUT_S)
            return await _run(own_context, command, workdir, limit_s, table)

        @tool(scheduling="sequential")
        async def process(
            context: ToolCallContext,
            action: Action,
            process_id: str | None = None,
            text: str | None = None,
            end_input: bool = False,
            timeout: float = DEFAULT_TIMEOUT_S,
            offset: int | None = None,
            limit: int = 200,
        ) -> str:
            """Look after commands in the background.

            Args:
                action: what to do
                process_id: which one, like p1
                text: for write, with a newline at its end
                end_input: for write, close the input
                timeout: for wait, seconds
                offset: for log, first line
                limit: for log, number of lines
            """
            own_context = CallContext.of(context, self._own_resources)
            return await act(
                own_context,
                self._table_of(own_context.resources),
                action,
                process_id,
                text=text,
                end_input=end_input,
                timeout_s=timeout,
                offset=offset,
                limit=limit,
            )

        self._tools: tuple[Tool, ...] = (terminal, process)

    def _table_of(self, resources: TaskResources) -> ProcessTable:
        table = self._tables.get(resources)
        if table is None:
            table = self._tables[resources] = ProcessTable()

            async def release() -> None:
                await table.release()
                self._tables.pop(resources, None)

            resources.on_release(release)
        return table

    @property
    def name(self) -> str:
        """The toolset's name."""
        return "terminal"

    @property
    def tools(self) -> Sequence[Tool]:
        """Its two tools."""
        return self._tools

    def unavailable_reason(self) -> str | None:
        """Only systems with POSIX process groups can run it."""
        return "it needs a POSIX system" if sys.platform == "win32" else None

    async def close(self) -> None:
        """End what was left running outside the executor's own tasks."""
        await self._own_resources.release()


async def _started(
    context: CallContext,
    command: str,
    workdir: str | None,
    *,
    with_input: bool,
    output: CommandOutput | None = None,
) -> CommandProcess:
    if not command.strip():
        raise ToolFailure("the command is empty")
    return await context.commands.start(
        command,
        cwd=context.round.cwd,
        workdir=workdir,
        with_input=with_input,
        on_lost_output=output.feed if output is not None else None,
    )


async def _run_in_background(
    context: CallContext, command: str, workdir: str | None, table: ProcessTable
) -> str:
    await table.check_room()
    child = await _started(context, command, workdir, with_input=True)
    process = table.add(command, child, context.masker)
    context.partial_output_from(lambda: described(process))
    await process.wait(FIRST_LOOK_S)  # what fails at once is told at once
    return f"{described(process)}\n[in the background; it is stopped when this task ends]"


async def _run(
    context: CallContext, command: str, workdir: str | None, timeout_s: float, table: ProcessTable
) -> str:
    output = CommandOutput(context)
    context.partial_output_from(output.text)
    child = await _started(context, command, workdir, with_input=False, output=output)
    running = RunningCommand(child, output)
    try:
        code = await running.finish(timeout_s)
        in_group = await running.child.group_lives()
        left_running = in_group or await running.leaves_something()
    except TimeoutError:
        await running.stop()
        raise ToolFailure(_timeout_text(timeout_s, output.text()), status="timed_out") from None
    except BaseException:
        await running.stop()
        raise
    if left_running:
        fate = "it is stopped when this task ends" if in_group else LEFT_GROUP
        name = table.adopt(command, running).id
        return _result_text(output.text(), code, f"a background process is still running, {name}; {fate}")
    await running.stop()  # nothing is left to be ended: it only closes what is open
    return _result_text(output.text(), code)


def _result_text(text: str, code: int | None, note: str = "") -> str:
    notes = []
    if code != 0:
        notes.append(f"[{exit_text(code)}]")
    elif not text.strip():
        notes.append("[no output, exit code 0]")
    if note:
        notes.append(f"[{note}]")
    body = text.rstrip("\n")
    return "\n".join([body, *notes] if body else notes)


def _timeout_text(timeout_s: float, text: str) -> str:
    so_far = f" Output so far:\n{text}" if text.strip() else " There was no output."
    return f"Timed out after {timeout_s:g} s; the command was stopped.{so_far}"


if TYPE_CHECKING:

    def _fits(toolset: TerminalToolset) -> tuple[Toolset, SupportsAvailability]:
        return toolset, toolset
