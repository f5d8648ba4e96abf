"""The checkpoint of a run: a small cache of where it stands, for people and for monitoring.

The shards are the truth; a lost or old checkpoint loses nothing.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from hermes_batch.files import read_bytes, replace_file

__all__ = ["Checkpoint", "read_checkpoint", "write_checkpoint"]


class Checkpoint(Struct, frozen=True, kw_only=True):
    """Where a run stands. `updated_at` is an ISO time in UTC."""

    run_name: str
    dataset_file: str
    total: int
    finished: int
    updated_at: str


async def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint, whole or not at all."""
    async with replace_file(path) as write:
        await write(msgspec.json.format(msgspec.json.encode(checkpoint)) + b"\n")


async def read_checkpoint(path: Path) -> Checkpoint | None:
    """The checkpoint, or None when there is none that can be read."""
    try:
        return msgspec.json.decode(await read_bytes(path), type=Checkpoint)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
