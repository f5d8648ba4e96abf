"""The table of releases (releases.toml), and the order in which the wheels go out."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

LAYERS = (
    "hermes-messages",
    "hermes-providers",
    "hermes-tools",
    "hermes-store",
    "hermes-loop",
    "hermes-batch",
)
"""Bottom first: when a wheel is published, what it asks for is there already."""


@dataclass(frozen=True)
class Release:
    """One row: the wheel was built from the commit."""

    wheel: str
    version: str
    commit: str

    @property
    def tag(self) -> str:
        """The name of its tag."""
        return f"{self.wheel}-v{self.version}"


def read_releases(root: Path) -> list[Release]:
    """All rows in the order of the file; none where there is no file."""
    file = root / "releases.toml"
    rows = tomllib.loads(file.read_text("utf-8")).get("release", []) if file.is_file() else []
    return [Release(str(row["wheel"]), str(row["version"]), str(row["commit"])) for row in rows]


def is_dated(changelog: str, version: str) -> bool:
    """Whether a changelog gives this version a date: it is released, or about to be."""
    return bool(re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", changelog, re.MULTILINE))
