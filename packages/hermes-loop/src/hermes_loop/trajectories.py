"""Trajectory files: one JSON object per line, each line written whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from hermes_loop.files import append_line

__all__ = ["FAILED_FILE", "SAMPLES_FILE", "append_row"]

SAMPLES_FILE: Final = "trajectory_samples.jsonl"
FAILED_FILE: Final = "failed_trajectories.jsonl"


async def append_row(
    directory: str,
    row: Mapping[str, object],
    *,
    failed: bool,
    about_to_write: Callable[[], None] = lambda: None,
) -> None:
    """Append `row` to the file of finished or of failed trajectories in `directory`, which is made if needed.

    `about_to_write` is called right before it is written. Raises `OSError`.
    """
    line = msgspec.json.encode(row) + b"\n"
    path = os.path.join(directory, FAILED_FILE if failed else SAMPLES_FILE)  # noqa: PTH118 - names only
    about_to_write()
    await append_line(path, line)
