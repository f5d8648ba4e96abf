"""Temporary directories that somebody who comes later can tell from those of the living. Plain calls, made in
a thread of aiofiles.

Each is locked while its process lives: `flock`, which the system takes back however that ends, and which
keeps systemd-tmpfiles away too. Whoever gets the lock of one knows that nobody needs it any more.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from hermes_messages.arrivals import Arrival

__all__ = ["Owned", "claim", "release", "remove_abandoned", "remove_all"]

_USUAL: Final = "/tmp"  # noqa: S108 - where temporary files go unless a variable says otherwise
_TRIES: Final = 100
_ENDING: Final = re.compile(
    r"[0-9a-f]{32}"
)  # so that no directory with a name that a person gave is taken for ours


class Owned(Struct, frozen=True):
    """A directory of this process, and the descriptor that locks it."""

    path: Path
    fd: int


def claim(arrival: Arrival[Owned], prefix: str) -> None:
    """Make one where temporary files go. Raises `OSError`. Where the disk knows no such locks nobody can take
    this one's either, and it is never removed by others."""
    for _ in range(_TRIES):
        path = Path(tempfile.gettempdir(), prefix + secrets.token_hex(16))
        path.mkdir(0o700)
        with suppress(FileNotFoundError):
            try:
                fd = _opened(path)
            except OSError:  # no descriptor is left, say
                with suppress(OSError):
                    path.rmdir()
                raise
            if _lock(fd, path) is not False:
                arrival.come(Owned(path, fd))
                return
            os.close(fd)
    raise BlockingIOError(f"{path} and its like are removed as soon as they are made")


def release(owned: Owned) -> None:
    """Remove it and all in it, as far as that can be done."""
    try:
        remove_all(owned.path)
    finally:
        os.close(owned.fd)


def remove_all(path: Path) -> None:
    """Remove a directory and all in it, as far as that can be done: what is too deep for `shutil` stays."""
    with suppress(RecursionError):
        shutil.rmtree(path, ignore_errors=True)


def remove_abandoned(prefix: str) -> None:
    """Remove those of this user's that processes left which are no more: where temporary files go, and where
    they would go if no variable said where."""
    for place in dict.fromkeys((Path(tempfile.gettempdir()), Path(_USUAL))):
        with suppress(OSError):
            for found in sorted(place.glob(f"{prefix}*")):
                if _ENDING.fullmatch(found.name.removeprefix(prefix)):
                    with suppress(OSError):
                        _remove_if_abandoned(found)


def _remove_if_abandoned(path: Path) -> None:
    fd = _opened(path)
    try:
        if os.fstat(fd).st_uid == os.geteuid() and _lock(fd, path):
            remove_all(path)
    finally:
        os.close(fd)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def _lock(fd: int, path: Path) -> bool | None:
    """Whether the directory is there and locked by us now; None where there are no such locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(fd), path.lstat())
    except (BlockingIOError, FileNotFoundError):
        return False
    except OSError:
        return None
