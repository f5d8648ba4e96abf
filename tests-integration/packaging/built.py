"""What the tests of built wheels share."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
NODE_PACKAGES = ROOT / ".cache" / "node" / "node_modules"
"""Where `.ci/node_packages.py` installs what .ci/node names."""


def uv(*arguments: str | Path) -> str:
    """The output of a uv command, which must succeed."""
    done = subprocess.run(["uv", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
