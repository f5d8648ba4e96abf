"""The workspace of one call."""

from __future__ import annotations

from hermes_messages.protocols import ToolCallContext
from hermes_tools.context import CallContext
from hermes_tools.paths import Workspace

__all__ = ["file_workspace"]


def file_workspace(context: ToolCallContext, *, writable: bool = False) -> Workspace:
    """Where the call may read: the working directory, the executor's further roots, and the task's own
    temporary files, so that a result too long to show can be paged through. These are not `writable`."""
    if not isinstance(context, CallContext):
        return Workspace(context.round.cwd)
    roots = context.extra_roots
    if not writable and context.resources.directory is not None:
        roots = (*roots, context.resources.directory)
    return Workspace(context.round.cwd, roots, commands_elsewhere=context.commands_elsewhere)
