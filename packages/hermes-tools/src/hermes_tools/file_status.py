"""What a file tool asks about a file, wherever the file is. Pure."""

from __future__ import annotations

import stat

from msgspec import Struct

from hermes_tools.standalone.anchored import kind_of

__all__ = ["FileStatus"]


class FileStatus(Struct, frozen=True):
    """What is there: `mode` is an `st_mode`, `size` in bytes, and `version` another one after any change."""

    mode: int
    size: int
    version: tuple[int, ...] | str

    @property
    def kind(self) -> str:
        """In words: a regular file, a directory, ..."""
        return kind_of(self.mode)

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_regular(self) -> bool:
        """Whether it is a regular file."""
        return stat.S_ISREG(self.mode)
