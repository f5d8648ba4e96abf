"""What belongs to one task and is released with it: temporary files, processes left running."""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable
from pathlib import PurePath

from hermes_tools import files
from hermes_tools.paths import temporary_root

__all__ = ["TaskResources"]

logger: logging.Logger = logging.getLogger(__name__)

_NAME_TRIES = 100
Release = Callable[[], Awaitable[None]]


class TaskResources:
    """The temporary directory and the clean-ups of one task. Nothing is made before it is asked for."""

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        self.directory: str | None = None
        self._releases: list[Release] = []
        self._files = 0

    async def new_file(self, label: str) -> files.OpenFile:
        """A new file in the task's directory, which only this user can enter. Raises `OSError`."""
        root = await temporary_root()
        if self.directory is None:
            self.directory = str(PurePath(root) / f"hermes-{secrets.token_hex(8)}")
        directory = self.directory
        with contextlib.suppress(FileExistsError):  # ours already; if it is a link by now, it is not followed
            await files.make_private_directory(directory)
        for _ in range(_NAME_TRIES):
            self._files += 1
            with contextlib.suppress(FileExistsError):  # a command may have put something there, a link too
                return await files.create_file(files.Place(directory, (f"{label}-{self._files}.txt",)))
        raise FileExistsError(f"{directory}: every name is taken")

    def on_release(self, release: Release) -> None:
        """Have `release` awaited when the task's resources are released. It must be safe to call twice."""
        self._releases.append(release)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to release."""
        return not self._releases and self.directory is None

    def forget(self, release: Release) -> None:
        """Take back what was registered; what is not there is fine."""
        with contextlib.suppress(ValueError):
            self._releases.remove(release)

    async def release(self) -> None:
        """Run what was registered, newest first, then remove the directory. Idempotent."""
        while self._releases:
            release = self._releases[-1]
            try:
                await release()
            except Exception as error:  # noqa: BLE001 - one clean-up that fails must not keep the others from running
                logger.warning("clean-up of task %s failed: %r", self.task_id, error)
            self.forget(release)
        if self.directory is not None:
            directory = self.directory
            try:
                await files.remove_directory(directory)
            except OSError as error:
                logger.warning("temporary directory %s could not be removed: %s", directory, error)
            self.directory = None
