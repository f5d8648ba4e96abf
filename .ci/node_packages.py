"""Install the Node packages that tests talk to: what .ci/node/package-lock.json names, into .cache/node.

    python3 .ci/node_packages.py

Standard library only. Nothing is done when they are there already. No script of a package is run. Tests find
the packages below .cache/node/node_modules, and skip, saying what is missing, where there are none.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / ".ci" / "node"
HOME = ROOT / ".cache" / "node"
STAMP = HOME / "installed.json"


def main() -> None:
    """Install, unless the lock file is the one of the last time. Exits 1 with npm's words if it fails."""
    lock = (SOURCE / "package-lock.json").read_bytes()
    if STAMP.is_file() and STAMP.read_bytes() == lock:
        return
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        sys.exit("node and npm are needed: install them (Debian: apt-get install nodejs npm)")
    HOME.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(SOURCE / name, HOME / name)
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run(command, cwd=HOME, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"npm ci failed:\n{done.stderr or done.stdout}")
    STAMP.write_bytes(lock)


if __name__ == "__main__":
    main()
