"""Hold each wheel's public surface against its last release, its version and its changelog.

    python .ci/checks/api_contract.py [ROOT]          check
    python .ci/checks/api_contract.py --write [ROOT]  write the snapshots (`make api`)

`packages/*/api/head.txt` is the surface of the sources, `packages/*/api/<version>.txt` that of a release.
Both are in git, so that no tag and no history is needed to compare them. `--write` also makes the snapshot of
a release of `releases.toml` that has none, from its commit. The rules are in docs/releasing.md, the settings
in .ci/api.toml.

snapshot   head.txt is what the sources say; the last release has its file
version    a breaking change needs another minor version (from 1.0 on: another major one); what is released
           does not change under its number
changelog  a breaking change is named in the changelog since the release; any change needs a line there
unlisted   a module that a sibling imports or a document shows is one of the listed ones
accepted   `accepted.toml` beside the snapshots names a change that breaks nobody, and why; it still happens
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from api_changes import Change, compare
from api_surface import load_packages, surface_text
from findings import WORKSPACE, Finding, run_check
from packaging.version import Version
from releases import Release, read_releases

_IMPORT = re.compile(r"^\s*(?:from|import) ((?:hermes_\w+|run_agent|batch_runner)(?:\.\w+)*)", re.MULTILINE)


@dataclass(frozen=True)
class Settings:
    """What .ci/api.toml says."""

    modules: dict[str, list[str]]
    may_grow: frozenset[str]

    @classmethod
    def read(cls, root: Path) -> Settings:
        """The settings of the workspace at `root`."""
        data = tomllib.loads((root / ".ci" / "api.toml").read_text("utf-8"))
        return cls(data["modules"], frozenset(data.get("may_grow", [])))


def releases(root: Path) -> list[Release]:
    """All releases, oldest first."""
    return sorted(read_releases(root), key=lambda release: Version(release.version))


def snapshots(root: Path, settings: Settings) -> dict[str, str]:
    """The surface of every wheel below `root`, from its sources."""
    packages = load_packages(root)
    return {
        wheel: surface_text(packages, root / "packages" / wheel, modules)
        for wheel, modules in settings.modules.items()
        if (root / "packages" / wheel).is_dir()
    }


def check(root: Path) -> Iterator[Finding]:
    """All rules over all wheels below `root`."""
    settings = Settings.read(root)
    last = {release.wheel: release for release in releases(root)}
    for wheel, text in snapshots(root, settings).items():
        folder = root / "packages" / wheel
        head = folder / "api" / "head.txt"
        if not head.is_file() or head.read_text("utf-8") != text:
            yield _finding(wheel, "head.txt", "snapshot", "is not what the sources say: run `make api`")
        if wheel in last:
            yield from _against(last[wheel], folder, text, settings)
        yield from _unlisted(root, wheel, settings)


def _finding(wheel: str, file: str, rule: str, message: str) -> Finding:
    return Finding(f"packages/{wheel}/api/{file}", 0, rule, message)


def _against(release: Release, folder: Path, text: str, settings: Settings) -> Iterator[Finding]:
    """The rules that compare a wheel with its last release."""
    wheel, file = release.wheel, f"{release.version}.txt"
    released = folder / "api" / file
    if not released.is_file():
        yield _finding(wheel, file, "snapshot", "is missing: run `make api` where the commit is at hand")
        return
    changes = compare(released.read_text("utf-8"), text, settings.may_grow)
    accepted = _accepted(folder, release.version)
    breaking = [change for change in changes if change.breaking and str(change) not in accepted]
    for line in accepted - {str(change) for change in changes if change.breaking}:
        yield _finding(wheel, "accepted.toml", "accepted", f"no such change since {release.version}: {line}")
    version = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    if changes and Version(version) <= Version(release.version):
        yield _finding(wheel, file, "version", f"the surface changed since {version}: take a higher one")
    elif not _may_break(release.version, version):
        for change in breaking:
            needed = _next(release.version)
            yield _finding(wheel, file, "version", f"{change} (breaks who uses {release.version}: {version} "
                           f"must become {needed})")  # fmt: skip
    yield from _unsaid(changes, breaking, folder, release)


def _may_break(released: str, version: str) -> bool:
    old, new = Version(released), Version(version)
    return new.release[:1] > old.release[:1] or (new.major == old.major == 0 and new.minor > old.minor)


def _next(released: str) -> str:
    old = Version(released)
    return f"0.{old.minor + 1}.0" if old.major == 0 else f"{old.major + 1}.0.0"


def _accepted(folder: Path, version: str) -> set[str]:
    """The changes since `version` that `accepted.toml` lists; each row says why."""
    file = folder / "api" / "accepted.toml"
    rows = tomllib.loads(file.read_text("utf-8")).get("accepted", []) if file.is_file() else []
    return {row["change"] for row in rows if row["since"] == version and row["why"].strip()}


def _unsaid(
    changes: list[Change], breaking: list[Change], folder: Path, release: Release
) -> Iterator[Finding]:
    """Changes that the changelog is silent about."""
    said = changes_since((folder / "CHANGELOG.md").read_text("utf-8"), release.version)
    changelog = f"packages/{release.wheel}/CHANGELOG.md"
    lines = [line for line in said.splitlines() if line.startswith("- ") and line != "- Nothing yet."]
    if changes and not lines:
        first = ", ".join(sorted({change.name for change in changes})[:3])
        yield Finding(changelog, 0, "changelog", f"has no line on what changed ({first})")
        return
    for change in breaking:
        words = {part for part in change.name.split(".")[1:] if part[:1].isupper()} or {
            change.name.rpartition(".")[2]
        }
        if not any(re.search(rf"\b{re.escape(word)}\b", said) for word in words):
            yield Finding(
                f"packages/{release.wheel}/CHANGELOG.md", 0, "changelog", f"does not name: {change}"
            )


def changes_since(changelog: str, version: str) -> str:
    """What stands above the section of `version`."""
    return re.split(rf"^## \[?{re.escape(version)}\b", changelog, maxsplit=1, flags=re.MULTILINE)[0]


def _unlisted(root: Path, wheel: str, settings: Settings) -> Iterator[Finding]:
    """Modules of `wheel` that others import, by file; each must be listed."""
    own = {path.parent.name for path in (root / "packages" / wheel / "src").glob("*/__init__.py")}
    listed = set(settings.modules[wheel])
    sources = [p for p in (root / "packages").glob("*/src/**/*.py") if wheel not in p.parts]
    documents = [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("packages/*/README.md")]
    for file in sorted([*sources, *documents, *root.glob("examples/**/*.py")]):
        for name in sorted(set(_IMPORT.findall(file.read_text("utf-8")))):
            if name.split(".")[0] in own and name not in listed:
                yield Finding(
                    file.relative_to(root).as_posix(), 0, "unlisted", f"{name} is not in .ci/api.toml"
                )


def write(root: Path) -> None:
    """Write head.txt of every wheel, and the snapshot of each release that has none yet."""
    settings = Settings.read(root)
    for wheel, text in snapshots(root, settings).items():
        _save(root / "packages" / wheel / "api" / "head.txt", text)
    missing = [r for r in releases(root) if not _path(root, r).is_file()]
    for commit in sorted({release.commit for release in missing}):
        with tempfile.TemporaryDirectory() as place:
            texts = snapshots_of_commit(root, commit, settings, Path(place))
        for release in missing:
            if release.commit == commit:
                _save(_path(root, release), texts[release.wheel])


def snapshots_of_commit(root: Path, commit: str, settings: Settings, place: Path) -> dict[str, str]:
    """The surfaces at a commit of the repository, whose packages are unpacked at `place`.

    Exits with git's words if the commit is not there.
    """
    done = subprocess.run(["git", "archive", commit, "packages"], cwd=root, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{commit} can not be read, fetch it first: {done.stderr.decode().strip()}")
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(place, filter="data")
        else:  # Python before 3.11.4, as in Debian 12
            archive.extractall(place)
    return snapshots(place, settings)


def _path(root: Path, release: Release) -> Path:
    return root / "packages" / release.wheel / "api" / f"{release.version}.txt"


def _save(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, "utf-8")


if __name__ == "__main__":
    if "--write" in sys.argv:
        sys.argv.remove("--write")
        write(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else WORKSPACE)
    else:
        run_check("api contract", check)
