"""Make the tags that releases.toml says, bottom layer first.

    python .ci/release_tags.py [--check] [ROOT]

A row becomes the annotated tag `WHEEL-vVERSION` at its commit. All rows are looked at before the first tag is
made, and none is made if any is wrong: the commit must be there and belong to the history of HEAD; its
pyproject.toml must give that name and version, its changelog a date for it; a tag of that name must not stand
at another commit. `--check` makes no tag. Nothing is pushed: docs/releasing.md says how that is done.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / ".ci" / "checks"))

from releases import LAYERS, Release, is_dated, read_releases  # noqa: E402 - found through the line above


class Repository:
    """The git repository at `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def git(self, *arguments: str) -> str | None:
        """The output of a git command, or None if it fails."""
        done = subprocess.run(["git", *arguments], cwd=self.root, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else None

    def problem(self, release: Release) -> str | None:
        """Why the release can not be tagged, or None."""
        if self.git("cat-file", "-e", f"{release.commit}^{{commit}}") is None:
            return f"the commit {release.commit} is not here: fetch it"
        if self.git("merge-base", "--is-ancestor", release.commit, "HEAD") is None:
            return f"the commit {release.commit} does not belong to the history of HEAD"
        there = self.tagged(release)
        if there not in {None, release.commit}:
            return f"the tag stands at {there} already, and releases.toml says {release.commit}"
        project = self.git("show", f"{release.commit}:packages/{release.wheel}/pyproject.toml")
        if project is None:
            return f"there is no packages/{release.wheel} at {release.commit}"
        found = tomllib.loads(project)["project"]
        if (found["name"], found["version"]) != (release.wheel, release.version):
            return f"the sources at {release.commit} are {found['name']} {found['version']}"
        changelog = self.git("show", f"{release.commit}:packages/{release.wheel}/CHANGELOG.md") or ""
        if not is_dated(changelog, release.version):
            return f"its changelog at {release.commit} has no dated section {release.version}"
        return None

    def tagged(self, release: Release) -> str | None:
        """The commit at which the release's tag stands, or None."""
        return self.git("rev-parse", "--verify", "--quiet", f"refs/tags/{release.tag}^{{commit}}")

    def tag(self, release: Release) -> None:
        """Make the tag. Exits with git's words if that fails."""
        message = f"{release.wheel} {release.version}"
        done = subprocess.run(
            ["git", "tag", "--annotate", "--message", message, release.tag, release.commit],
            cwd=self.root, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            sys.exit(f"{release.tag}: {done.stderr.strip()}")


def main() -> None:
    """Check all rows, then make the tags that are missing. Exits 1 if a row is wrong."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--check"]
    root = Path(arguments[0]).resolve() if arguments else ROOT
    repository = Repository(root)
    if repository.git("status", "--porcelain", "--", "releases.toml") != "":
        sys.exit("releases.toml is not committed: commit it first")
    rows = sorted(read_releases(root), key=lambda row: (row.wheel not in LAYERS, _layer(row)))
    problems = [f"{row.tag}: {problem}" for row in rows if (problem := repository.problem(row))]
    if problems:
        sys.exit("\n".join([*problems, "no tag was made"]))
    missing = [row for row in rows if repository.tagged(row) is None]
    if "--check" not in sys.argv:
        for row in missing:
            repository.tag(row)
    verb = "missing" if "--check" in sys.argv else "made"
    print("\n".join([f"{verb}: {row.tag}" for row in missing] or ["all tags are there"]))


def _layer(row: Release) -> int:
    return LAYERS.index(row.wheel) if row.wheel in LAYERS else len(LAYERS)


if __name__ == "__main__":
    main()
