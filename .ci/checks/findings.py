"""What every check here shares: a finding, and the way a check reports.

A check is a function from the root of a source tree to its findings. Run alone it takes that root as its
only argument (this workspace by default), prints one line per finding and exits 1 if there is any.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

WORKSPACE = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, order=True)
class Finding:
    """One broken rule at one place; `line` is 0 when the whole file is meant."""

    path: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {self.rule}: {self.message}"


def run_check(name: str, check: Callable[[Path], Iterable[Finding]]) -> None:
    """Run `check` on the root given on the command line and exit 0 (clean) or 1 (findings)."""
    root = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else WORKSPACE
    found = sorted(check(root))
    for finding in found:
        print(finding)
    print(f"{name}: {len(found)} found" if found else f"{name}: clean")
    sys.exit(1 if found else 0)
