"""The files of one call."""

from __future__ import annotations

from hermes_messages.protocols import ToolCallContext
from hermes_tools.context import CallContext
from hermes_tools.paths import Workspace
from hermes_tools.task_files import HostFiles, TaskFiles

__all__ = ["task_files"]


def task_files(context: ToolCallContext, *, writable: bool = False) -> TaskFiles:
    """The files that the call may use: those of the task's container, or else the working directory.

    In both cases also the executor's further roots and the task's own temporary files, by full path, so that
    a result too long to show can be paged through; these files are not `writable`.
    """
    roots: tuple[str, ...] = ()
    if isinstance(context, CallContext):
        roots = context.extra_roots
        if not writable and context.resources.directory is not None:
            roots = (*roots, context.resources.directory)
        if context.commands_elsewhere:
            from hermes_tools.containers.files import ContainerFiles  # few tasks have a container

            return ContainerFiles(context.commands, context.round.cwd, roots)
    return HostFiles(Workspace(context.round.cwd, roots))
