"""`terminal`: shell commands."""

from __future__ import annotations

from collections.abc import Sequence

from hermes_messages.protocols import Tool
from hermes_tools.context import CallContext
from hermes_tools.errors import ToolFailure
from hermes_tools.tool import tool

__all__ = ["TerminalToolset"]

DEFAULT_TIMEOUT_S = 60
MAX_TIMEOUT_S = 600


@tool(scheduling="sequential")
async def terminal(
    context: CallContext,
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
    raise ToolFailure("not built yet")


class TerminalToolset:
    """The toolset `terminal`."""

    @property
    def name(self) -> str:
        """The toolset's name."""
        return "terminal"

    @property
    def tools(self) -> Sequence[Tool]:
        """Its one tool."""
        return (terminal,)
