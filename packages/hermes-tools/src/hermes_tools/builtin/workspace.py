"""The workspace and the files of one call."""

from __future__ import annotations

from hermes_messages.protocols import ToolCallContext
from hermes_tools.context import CallContext
from hermes_tools.paths import Workspace
from hermes_tools.task_files import HostFiles, TaskFiles

__all__ = ["file_workspace", "task_files"]


def file_workspace(context: ToolCallContext, *, writable: bool = False) -> Workspace:
    """Where the call may read: the working directory, the executor's further roots, and the task's own
    temporary files, so that a result too long to show can be paged through. These are not `writable`."""
    if not isinstance(context, CallContext):
        return Workspace(context.round.cwd)
    roots = _roots(context, writable=writable)
    return Workspace(context.round.cwd, roots, commands_elsewhere=context.commands_elsewhere)


def task_files(context: ToolCallContext, *, writable: bool = False) -> TaskFiles:
    """The files of the task: those that its commands see. Beside a container the executor's further roots and
    the task's own temporary files stay reachable by full path."""
    if isinstance(context, CallContext) and context.commands_elsewhere:
        from hermes_tools.containers.files import ContainerFiles

        return ContainerFiles(context.commands, context.round.cwd, _roots(context, writable=writable))
    return HostFiles(file_workspace(context, writable=writable))


def _roots(context: CallContext, *, writable: bool) -> tuple[str, ...]:
    if writable or context.resources.directory is None:
        return context.extra_roots
    return (*context.extra_roots, context.resources.directory)
