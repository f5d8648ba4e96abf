"""A dataset from standard input. Blocking, and used before the event loop runs."""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

from hermes_messages import ConfigurationError

__all__ = ["kept_standard_input"]

_CHUNK = 1 << 20


def kept_standard_input(directory: Path) -> Path:
    """Copy standard input to a file in `directory`, named after its content, and return that file.

    A run reads its rows twice, and again when it goes on; a pipe gives them once. Raises
    `ConfigurationError`, with the unfinished copy removed.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".stdin.", delete=False) as copy:
            unfinished = Path(copy.name)
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
