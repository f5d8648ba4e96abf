"""Where a run keeps its files."""

from __future__ import annotations

import re
from pathlib import Path

from hermes_messages import ConfigurationError

__all__ = ["RunFiles"]

_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class RunFiles:
    """The paths of one run: `<output_dir>/<run_name>/...`. Raises `ConfigurationError` for a bad name."""

    def __init__(self, output_dir: Path, run_name: str) -> None:
        if not _RUN_NAME.fullmatch(run_name):
            raise ConfigurationError(
                f"run name {run_name!r}: use letters, digits, dot, dash and underscore, at most 100"
            )
        self.directory: Path = output_dir / run_name
        self.shards: Path = self.directory / "shards"
        self.trajectories: Path = self.directory / "trajectories.jsonl"
        self.statistics: Path = self.directory / "statistics.json"
        self.checkpoint: Path = self.directory / "checkpoint.json"
        self.state_db: Path = self.directory / "state.db"
        self.compressed: Path = self.directory / "compressed.jsonl"
        self.compression: Path = self.directory / "compression.json"
        self.compression_lock: Path = self.directory / ".compression.lock"
        self.lock: Path = self.directory / ".lock"
