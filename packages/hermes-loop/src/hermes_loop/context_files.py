"""Files of a working directory that tell an agent how to work there, read once per conversation."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Final

from hermes_loop.files import read_start
from hermes_messages import ConfigurationError
from hermes_messages.hygiene import clean_text

__all__ = ["DEFAULT_NAMES", "read_context_files", "read_names"]

logger: logging.Logger = logging.getLogger(__name__)

DEFAULT_NAMES: Final = ("AGENTS.md", "CLAUDE.md")
FILE_LIMIT: Final = 32_768
"""How much of one file is read, in bytes."""

FILES_LIMIT: Final = 8


def read_names(names: Sequence[str] | None, cwd: str | None, *, skip: bool) -> tuple[str, ...]:
    """The files to look for: those that were named, or where a `cwd` was given the usual ones.

    Raises `ConfigurationError`.
    """
    if skip:
        return ()
    if names is None:
        return DEFAULT_NAMES if cwd is not None else ()
    if len(names) > FILES_LIMIT:
        raise ConfigurationError(f"context_files names {len(names)} files; at most {FILES_LIMIT} are read")
    return tuple(names)


async def read_context_files(cwd: str, names: Sequence[str]) -> str:
    """The text of those of `names` that exist in `cwd`, each under its name; a file that says the same as one
    before is left out, and what can not be read is logged and left out."""
    seen: dict[str, str] = {}
    for name in names:
        text = await _read(os.path.join(cwd, name))  # noqa: PTH118 - names only
        if text and text not in seen:
            seen[text] = name
    return "\n\n".join(f"# From {name}\n\n{text}" for text, name in seen.items())


async def _read(path: str) -> str:
    try:
        data = await read_start(path, FILE_LIMIT + 1)
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        logger.warning("the context file %s could not be read: %s", path, error)
        return ""
    if data is None:
        return ""
    if b"\0" in data:
        logger.warning("the context file %s is no UTF-8 text; it is left out", path)
        return ""
    text = clean_text(data[:FILE_LIMIT].decode("utf-8-sig", "replace")).strip()
    return f"{text}\n[cut after {FILE_LIMIT} bytes]" if len(data) > FILE_LIMIT else text
