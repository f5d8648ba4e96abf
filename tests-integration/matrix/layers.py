"""The six wheels and their 32 subsets; pure."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Final

__all__ = [
    "BASE",
    "OTHERS",
    "ROOT",
    "WHEELS",
    "extras_of",
    "groups_of",
    "project_of",
    "short",
    "subsets",
    "version_of",
]

ROOT: Final = Path(__file__).resolve().parents[2]
BASE: Final = "hermes-messages"
OTHERS: Final = ("hermes-loop", "hermes-providers", "hermes-tools", "hermes-store", "hermes-batch")
WHEELS: Final = (BASE, *OTHERS)


def subsets() -> Iterator[tuple[str, ...]]:
    """hermes-messages with each subset of the others, the smallest first."""
    for size in range(len(OTHERS) + 1):
        for chosen in combinations(OTHERS, size):
            yield (BASE, *chosen)


def short(wheels: Sequence[str]) -> str:
    """How a table names these wheels: `messages+loop+store`."""
    return "+".join(name.removeprefix("hermes-") for name in WHEELS if name in wheels)


@cache
def pyproject_of(wheel: str, tree: Path = ROOT) -> dict[str, dict[str, object]]:
    """The pyproject.toml of a wheel in a source tree, by default this one."""
    return tomllib.loads((tree / "packages" / wheel / "pyproject.toml").read_text("utf-8"))


def project_of(wheel: str, tree: Path = ROOT) -> dict[str, object]:
    """The table [project] of a wheel."""
    return pyproject_of(wheel, tree)["project"]


def version_of(wheel: str) -> str:
    """The version of a wheel in this tree."""
    return str(project_of(wheel)["version"])


def groups_of(wheel: str, tree: Path = ROOT) -> list[str]:
    """The dependency groups with which the tests of a wheel run."""
    return list(pyproject_of(wheel, tree)["dependency-groups"])


def extras_of(wheel: str, tree: Path = ROOT) -> dict[str, list[str]]:
    """What each extra of a wheel asks for."""
    extras = project_of(wheel, tree).get("optional-dependencies", {})
    assert isinstance(extras, dict)
    return extras
