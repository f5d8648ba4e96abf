"""A dataset from standard input. Blocking, and used before the event loop runs."""

from __future__ import annotations

import fcntl
import hashlib
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from hermes_messages import ConfigurationError

__all__ = ["kept_standard_input"]

_CHUNK = 1 << 20
_UNFINISHED = ".stdin."


def kept_standard_input(directory: Path) -> Path:
    """Copy standard input to a file in `directory`, named after its content, and return that file.

    A run reads its rows twice, and again when it goes on; a pipe gives them once. Raises
    `ConfigurationError`, with the unfinished copy removed.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(directory)
        with tempfile.NamedTemporaryFile(dir=directory, prefix=_UNFINISHED, delete=False) as copy:
            unfinished = Path(copy.name)
            with suppress(OSError):  # a disk without such locks: nobody can take it for abandoned either
                fcntl.flock(copy, fcntl.LOCK_EX | fcntl.LOCK_NB)
            digest = hashlib.sha256()
            try:
                while chunk := sys.stdin.buffer.read(_CHUNK):
                    digest.update(chunk)
                    copy.write(chunk)
                copy.flush()
                kept = directory / f"stdin-{digest.hexdigest()[:16]}"
                unfinished.replace(kept)
            except BaseException:
                unfinished.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise ConfigurationError(
            f"standard input can not be kept in {directory}: {error.strerror or error}"
        ) from error
    return kept


def _remove_abandoned(directory: Path) -> None:
    """Remove what killed processes had copied; what a live one copies to is locked."""
    for found in directory.glob(f"{_UNFINISHED}*"):
        with suppress(OSError), found.open("rb") as copy:
            fcntl.flock(copy, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found.unlink()
