"""Runs of tests that ended green, kept so that a matrix that was stopped can go on (`--continue`).

A run is known by all that it was made of: the bytes of our wheels, everything else that is installed with its
version, the Python, the tests and the settings beside them, what pytest was asked, and the variables that
tests listen to. If any of these changes the run is another one and happens. Only what ended green is kept,
for a week; a red run removes what was kept of it. What a machine has beside Python (a PostgreSQL server, say)
is not a part of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["Greens", "digest", "digest_of_tree"]

WEEK_S = 7 * 24 * 3600.0


def digest(parts: Iterable[str]) -> str:
    """One name for all of these."""
    return hashlib.sha256(json.dumps(list(parts)).encode()).hexdigest()


def digest_of_tree(tree: Path) -> str:
    """One name for all files below `tree`, their places and their bytes; links are not followed, and what
    Python compiled there by itself does not count."""
    found = (Path(folder, name) for folder, _, names in os.walk(tree) for name in names)
    files = sorted(file for file in found if file.parent.name != "__pycache__")
    return digest(
        part
        for file in files
        for part in (file.relative_to(tree).as_posix(), hashlib.sha256(file.read_bytes()).hexdigest())
    )


class Greens:
    """The kept runs, a file each in `folder`. Without `use` none is found, but all are kept."""

    def __init__(self, folder: Path, *, use: bool) -> None:
        self._folder = folder
        self._use = use

    def find(self, name: str) -> Counter[str] | None:
        """The counts of the run of this name, if it was green in the last week."""
        file = self._file(name)
        if not self._use or not file.is_file() or time.time() - file.stat().st_mtime > WEEK_S:
            return None
        return Counter(json.loads(file.read_text("utf-8"))["counts"])

    def keep(self, name: str, counts: Mapping[str, int], about: Mapping[str, str]) -> None:
        """Keep a run that ended green; `about` is for readers. A file is there whole or not at all."""
        self._folder.mkdir(parents=True, exist_ok=True)
        draft = self._file(name).with_suffix(".new")
        draft.write_text(json.dumps({**about, "counts": counts}, indent=1) + "\n", "utf-8")
        draft.replace(self._file(name))

    def forget(self, name: str) -> None:
        """A run ended red: what was kept under its name does not stand."""
        self._file(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.json"
