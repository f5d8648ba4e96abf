"""What one running call may use, beyond what the Protocol promises."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from hermes_messages import ToolCall
from hermes_messages.protocols import RoundContext, ToolCallContext
from hermes_tools.secrets import SecretMasker

if TYPE_CHECKING:
    from hermes_tools.command_runner import CommandRunner
    from hermes_tools.middleware import Invocation, Outcome
    from hermes_tools.resources import TaskResources

__all__ = ["CallContext"]


class CallContext:
    """The context of one call, as our executor hands it out; it satisfies `ToolCallContext`.

    `resources` owns the temporary files and processes of the task. `masker` hides credentials in text that
    leaves the tool by another way than its result. `extra_roots` are directories outside the working
    directory that file tools may use as well. `commands` starts shell commands where the task's are to run.
    """

    def __init__(
        self,
        call: ToolCall,
        round_: RoundContext,
        *,
        resources: TaskResources,
        masker: SecretMasker | None = None,
        extra_roots: tuple[str, ...] = (),
        commands: CommandRunner | None = None,
    ) -> None:
        self._call = call
        self._round = round_
        self._partial: Callable[[], str] | None = None
        self._reported: list[str] = []
        self.end_of_path: Callable[[Invocation], Awaitable[Outcome]]
        """What runs the tool itself, behind all middleware; set when the call begins."""
        self.resources = resources
        self.masker: SecretMasker = masker or SecretMasker(())
        self.extra_roots = extra_roots
        self._commands = commands
        self.commands_elsewhere: bool = commands is not None
        """Whether commands run where they see other files than the tools here, as in a container."""

    @classmethod
    def of(cls, context: ToolCallContext, resources: TaskResources) -> CallContext:
        """`context` itself when our executor made it, else one around it that uses `resources`."""
        if isinstance(context, CallContext):
            return context
        return cls(context.call, context.round, resources=resources)

    @property
    def commands(self) -> CommandRunner:
        """What starts shell commands where the task's are to run."""
        if self._commands is None:
            from hermes_tools.command_runner import (
                HostCommands,
            )  # it loads what reads files and runs processes

            self._commands = HostCommands()
        return self._commands

    @property
    def session_id(self) -> str:
        """The conversation."""
        return self._round.session_id

    @property
    def task_id(self) -> str:
        """The task, whose `resources` are released at its end."""
        return self._round.task_id

    @property
    def turn_id(self) -> str:
        """The turn."""
        return self._round.turn_id

    @property
    def cwd(self) -> str:
        """The working directory."""
        return self._round.cwd

    @property
    def call(self) -> ToolCall:
        """The call as the model made it."""
        return self._call

    @property
    def round(self) -> RoundContext:
        """The round it belongs to."""
        return self._round

    async def progress(self, text: str) -> None:
        """Tell the host how it goes. Until a tool names a better source, this is its output so far.
        Credentials are hidden."""
        text = self.masker.mask(text)
        self._reported.append(text)
        callback = self._round.tool_progress
        if callback is not None:
            waiting = callback(self._call, text)
            if inspect.isawaitable(waiting):
                await waiting

    def partial_output_from(self, source: Callable[[], str]) -> None:
        """Name the function that gives the output so far, should the call be stopped before its end."""
        self._partial = source

    def partial_output(self) -> str:
        """What the call has put out so far."""
        return self._partial() if self._partial is not None else "\n".join(self._reported)
