"""Which releases came before, and the commits that hold them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from child_processes import Done, run
from layers import ROOT
from packaging.version import Version
from shared import Release

__all__ = ["ReleaseError", "check_commit", "earlier"]


class ReleaseError(Exception):
    """A release can not be rebuilt; the message says what to do about it."""


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
