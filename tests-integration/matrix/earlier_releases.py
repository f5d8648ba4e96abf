"""What was released, by the table releases.toml, and the commits that hold it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from child_processes import Done, run
from layers import ROOT, WHEELS
from packaging.version import Version

__all__ = ["Release", "ReleaseError", "check_commit", "earlier", "read_releases"]


class ReleaseError(Exception):
    """A release can not be rebuilt; the message says what to do about it."""


@dataclass(frozen=True)
class Release:
    """One version of one wheel, and the commit that it is built from."""

    wheel: str
    version: str
    commit: str

    @property
    def tag(self) -> str:
        """The tag that says the same as the table."""
        return f"{self.wheel}-v{self.version}"


def read_releases(table: Path) -> list[Release]:
    """The table. Raises `ReleaseError` for a wheel that is none of ours and for a row that stands twice."""
    rows = [Release(**row) for row in tomllib.loads(table.read_text("utf-8"))["release"]]
    seen: set[tuple[str, str]] = set()
    for row in rows:
        if row.wheel not in WHEELS:
            raise ReleaseError(f"{table.name} names {row.wheel}, which is no wheel of this workspace")
        if (row.wheel, row.version) in seen:
            raise ReleaseError(f"{table.name} names {row.wheel} {row.version} twice")
        seen.add((row.wheel, row.version))
    return rows


def earlier(releases: Iterable[Release], wheel: str, head: str) -> list[Release]:
    """The releases of `wheel` before the version `head`, the newest first. Pure."""
    older = [r for r in releases if r.wheel == wheel and Version(r.version) < Version(head)]
    return sorted(older, key=lambda r: Version(r.version), reverse=True)


async def check_commit(release: Release, root: Path = ROOT) -> None:
    """The commit is in this repository, and the tag, where the checkout has it, stands on it.

    Raises `ReleaseError`.
    """
    if (await git(root, "cat-file", "-e", f"{release.commit}^{{commit}}")).code:
        raise ReleaseError(
            f"{release.wheel} {release.version} can not be rebuilt: the commit {release.commit[:12]} is not "
            "in this checkout. Fetch the whole history (git fetch --unshallow, or clone without --depth)."
        )
    tagged = await git(root, "rev-parse", "--verify", "--quiet", f"refs/tags/{release.tag}^{{commit}}")
    found = tagged.output.strip()
    if not tagged.code and found != release.commit:
        raise ReleaseError(
            f"the tag {release.tag} stands on {found[:12]}, but releases.toml says {release.commit[:12]}: "
            "a release never moves, so one of them is wrong"
        )


async def git(root: Path, *arguments: str) -> Done:
    """A git command in the repository."""
    return await run(["git", *arguments], cwd=root)
