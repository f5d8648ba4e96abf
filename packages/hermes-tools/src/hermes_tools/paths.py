"""Where file tools may read and write: inside the workspace, links resolved on both sides."""

from __future__ import annotations

import os
import tempfile
from pathlib import PurePath

from hermes_tools import files
from hermes_tools.errors import PathRefusedError

__all__ = ["Workspace", "temporary_root"]


class Workspace:
    """A working directory, and further directories that may be used by full path.

    A path is resolved whole, a link at its end included, and must lie in one of the directories, which are
    resolved as well. What is returned holds no link, and `files` walks it without following one: a link
    that is put there after the check is refused.
    """

    def __init__(self, cwd: str, extra_roots: tuple[str, ...] = ()) -> None:
        self.cwd = cwd
        self._extra_roots = extra_roots

    async def place(self, path: str) -> files.Place:
        """Where `path`, which need not exist, really is. Raises `PathRefusedError`."""
        if not path or path.isspace():
            raise PathRefusedError("the path is empty")
        if "\0" in path:
            raise PathRefusedError(f"the path {path!r} holds a NUL character")
        wanted = PurePath(self.cwd) / PurePath(_expand_home(path))
        try:
            real = PurePath(await files.real_path(str(wanted)))
        except (OSError, ValueError) as error:
            raise PathRefusedError(f"the path {path!r} can not be resolved: {error}") from None
        for root in (self.cwd, *self._extra_roots):
            real_root = await files.real_path(root)
            if real.is_relative_to(real_root):
                return files.Place(real_root, real.relative_to(real_root).parts)
        raise PathRefusedError(f"{path} is outside the working directory {self.cwd}; use a path inside it")

    async def shown(self, real: str) -> str:
        """A resolved path as the model is shown it: relative to the working directory where it is inside."""
        root = await files.real_path(self.cwd)
        pure = PurePath(real)
        return str(pure.relative_to(root)) if pure.is_relative_to(root) else real


def _expand_home(path: str) -> str:
    home = os.environ.get("HOME")
    return home + path[1:] if home and (path == "~" or path.startswith("~/")) else path


async def temporary_root() -> str:
    """The directory for temporary files, as `TMPDIR` says, without trying to write there."""
    for candidate in (os.environ.get("TMPDIR"), os.environ.get("TEMP"), "/tmp", tempfile.tempdir):  # noqa: S108
        if candidate and await files.status_of(candidate) is not None:
            return await files.real_path(candidate)
    return await files.real_path(".")
