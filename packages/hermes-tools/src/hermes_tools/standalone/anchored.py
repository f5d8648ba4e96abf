"""Files reached from an open directory, component by component, without ever following a link.

A path is checked first and used later. Whoever may write in between can put a link in the place of a
directory; a walk that opens each component with `O_NOFOLLOW` relative to the one before (openat(2)) finds
that link and stops, whenever it was planted. All functions here block.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from typing import NamedTuple

__all__ = [
    "Place",
    "UnfitError",
    "directory",
    "group_lives",
    "kind_of",
    "list_names",
    "open_directory",
    "open_file",
    "open_file_in",
    "open_inside",
    "read_all",
    "read_in",
    "sizes_of",
    "status_of",
]

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class UnfitError(OSError):
    """What is there is of the wrong kind: a link, a pipe, a device, a directory where a file is wanted."""


class Place(NamedTuple):
    """Where a file is: a trusted directory, by its real path, and the way from there without links."""

    root: str
    parts: tuple[str, ...]

    @classmethod
    def of(cls, path: str) -> Place:
        """The file of this path, its directory being trusted."""
        return cls(os.path.dirname(path) or ".", (os.path.basename(path),))  # noqa: PTH119, PTH120

    @property
    def path(self) -> str:
        """The whole path."""
        return os.path.join(self.root, *self.parts)  # noqa: PTH118

    @property
    def name(self) -> str:
        """The last component; empty for the root itself."""
        return self.parts[-1] if self.parts else ""

    @property
    def parent(self) -> Place:
        """The directory that holds it."""
        return Place(self.root, self.parts[:-1])

    def __truediv__(self, name: str) -> Place:
        return Place(self.root, (*self.parts, name))


def kind_of(mode: int) -> str:
    """What a file of this `st_mode` is, in words."""
    return next((name for test, name in _KINDS if test(mode)), "a regular file")


def open_directory(root: str, parts: Sequence[str] = (), *, create: bool = False) -> int:
    """A descriptor of the directory; the caller closes it. `create` makes what is missing.

    Raises `UnfitError` where a component is a link or no directory, other `OSError` as the system says.
    """
    current = os.open(root, _DIRECTORY_FLAGS)
    for part in parts:
        outer = current
        try:
            current = _step(outer, part, create=create)
        finally:
            os.close(outer)
    return current


def _step(outer: int, part: str, *, create: bool) -> int:
    try:
        return os.open(part, _DIRECTORY_FLAGS, dir_fd=outer)
    except FileNotFoundError:
        if not create:
            raise
        with contextlib.suppress(FileExistsError):
            os.mkdir(part, 0o777, dir_fd=outer)
        return os.open(part, _DIRECTORY_FLAGS, dir_fd=outer)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        mode = os.stat(part, dir_fd=outer, follow_symlinks=False).st_mode
        raise UnfitError(error.errno, f"{part} is {kind_of(mode)}, not a directory") from None


@contextlib.contextmanager
def directory(place: Place, *, create: bool = False) -> Iterator[int]:
    """`open_directory` that closes it again."""
    descriptor = open_directory(place.root, place.parts, create=create)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_file(place: Place, flags: int, mode: int = 0o600) -> tuple[int, os.stat_result]:
    """A descriptor of a regular file, and its status; never waits for the other end of a pipe.

    Raises `UnfitError` for what is no regular file, other `OSError` as the system says.
    """
    with directory(place.parent) as outer:
        return open_file_in(outer, place.name, flags, mode)


def open_file_in(outer: int, name: str, flags: int, mode: int = 0o600) -> tuple[int, os.stat_result]:
    """The same in a directory that is open."""
    if not flags & os.O_EXCL:
        with contextlib.suppress(FileNotFoundError):  # opening a device may already do something
            _check_kind(name, os.stat(name, dir_fd=outer, follow_symlinks=False))
    descriptor = os.open(name, flags | _FILE_FLAGS, mode, dir_fd=outer)
    try:
        status = os.fstat(descriptor)
        _check_kind(name, status)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, status


def _check_kind(name: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UnfitError(errno.EINVAL, f"{name} is {kind_of(status.st_mode)}, not a regular file")


def status_of(place: Place) -> os.stat_result | None:
    """The status of the place itself, a link not followed, or None when there is nothing."""
    try:
        with directory(place.parent) as outer:
            return os.stat(place.name or ".", dir_fd=outer, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnfitError as error:
        if error.errno == errno.ENOTDIR and "symbolic link" not in str(error):
            return None
        raise


def list_names(place: Place) -> list[str]:
    """The names in a directory, sorted. Raises `OSError`."""
    with directory(place) as descriptor:
        return sorted(os.listdir(descriptor))  # noqa: PTH208


def open_inside(outer: int, name: str) -> int:
    """A descriptor of a directory in one that is open. Raises `UnfitError`, other `OSError`."""
    return _step(outer, name, create=False)


def read_all(place: Place, limit: int) -> bytes:
    """The content of a regular file, at most `limit` bytes of it. Raises `OSError`."""
    with directory(place.parent) as outer:
        return read_in(outer, place.name, limit)


def read_in(outer: int, name: str, limit: int) -> bytes:
    """The same in a directory that is open."""
    descriptor, _ = open_file_in(outer, name, os.O_RDONLY)
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123
        pieces: list[bytes] = []
        while limit > 0 and (piece := file.read(min(limit, 1 << 20))):
            pieces.append(piece)
            limit -= len(piece)
    return b"".join(pieces)


def group_lives(group: int) -> bool:
    """Whether a process of the group is alive; a dead one that nobody has waited for does not count.

    Where the system does not tell (no `/proc`), True.
    """
    try:
        names = os.listdir("/proc")  # noqa: PTH208
    except OSError:
        return True
    wanted = str(group).encode()
    for name in filter(str.isdigit, names):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                line = file.read()
        except OSError:
            continue
        # proc_pid_stat(5): after the name in brackets come state, parent and process group
        fields = line.rpartition(b")")[2].split()
        if fields[2:3] == [wanted] and fields[0] not in (b"Z", b"X"):
            return True
    return False


def sizes_of(root: str, paths: Sequence[str]) -> list[int]:
    """The sizes in bytes of the regular files among `paths` below `root`; 0 for anything else."""
    sizes = []
    for path in paths:
        try:
            status = os.lstat(f"{root}/{path}")
        except (OSError, ValueError):
            sizes.append(0)
        else:
            sizes.append(status.st_size if stat.S_ISREG(status.st_mode) else 0)
    return sizes
