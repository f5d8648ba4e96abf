"""What the matrix has in common with the other checks, which lies in .ci."""

from __future__ import annotations

import sys
from pathlib import Path

CI = Path(__file__).resolve().parents[2] / ".ci"
sys.path[:0] = [str(CI), str(CI / "checks")]

from ending import run_command, run_until_stopped  # noqa: E402 - found through the line above
from releases import Release, read_releases  # noqa: E402

__all__ = ["Release", "read_releases", "run_command", "run_until_stopped"]
