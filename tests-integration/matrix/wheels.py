"""Wheels, of the tree and of earlier releases: each built once, kept in .cache/matrix."""

from __future__ import annotations

import hashlib
import os
import re
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import Final

from child_processes import must
from earlier_releases import ReleaseError, check_commit
from layers import ROOT, WHEELS, version_of
from packaging.requirements import Requirement
from shared import Release

__all__ = ["CACHE", "House", "Pinned", "build_head", "build_release", "requirements_in", "wheel_in"]

CACHE: Final = ROOT / ".cache" / "matrix"


@dataclass(frozen=True)
class House:
    """Where the wheels of one state of the sources are, and those sources with their tests."""

    dist: Path
    tree: Path


@dataclass(frozen=True)
class Pinned:
    """One version of one of our wheels, and where it is."""

    wheel: str
    version: str
    house: House

    @property
    def file(self) -> Path:
        """The wheel itself."""
        return wheel_in(self.house.dist, self.wheel, self.version)


def wheel_in(dist: Path, wheel: str, version: str) -> Path:
    """The file of a wheel. Raises `ReleaseError` if it is not there."""
    found = list(dist.glob(f"{wheel.replace('-', '_')}-{version}-*.whl"))
    if len(found) != 1:
        raise ReleaseError(
            f"building gave no {wheel} {version}: {sorted(p.name for p in dist.glob('*.whl'))}"
        )
    return found[0]


def requirements_in(file: Path, extras: Iterable[str] = ()) -> list[Requirement]:
    """What a built wheel asks for, with these extras."""
    with zipfile.ZipFile(file) as archive:
        name = next(n for n in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", n))
        lines = HeaderParser().parsestr(archive.read(name).decode()).get_all("Requires-Dist", [])
    wanted = map(Requirement, lines)
    return [
        r for r in wanted if r.marker is None or any(r.marker.evaluate({"extra": e}) for e in ("", *extras))
    ]


async def build(tree: Path, dist: Path) -> None:
    """All wheels of a tree, from its sources alone."""
    await must(["uv", "build", "--quiet", "--all-packages", "--wheel", "--out-dir", dist], cwd=tree)


async def build_head() -> House:
    """The wheels of this tree, in a folder named after their content: uv remembers wheels by their path."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        built = Path(folder) / "dist"
        await build(ROOT, built)
        files = [wheel_in(built, wheel, version_of(wheel)) for wheel in WHEELS]
        digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
        dist = CACHE / "head" / digest
        if not dist.is_dir():
            dist.parent.mkdir(exist_ok=True)
            os.replace(built, dist)  # noqa: PTH105 - it is a folder
    return House(dist, ROOT)


async def build_release(release: Release) -> House:
    """A released wheel, rebuilt from its commit. Raises `ReleaseError`."""
    await check_commit(release)
    home = CACHE / "commits" / release.commit
    if not home.is_dir():
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home.parent) as folder:
            made = Path(folder) / "made"
            await unpack(release.commit, made / "tree")
            await build(made / "tree", made / "dist")
            os.replace(made, home)  # noqa: PTH105 - it is a folder
    wheel_in(home / "dist", release.wheel, release.version)
    return House(home / "dist", home / "tree")


async def unpack(commit: str, tree: Path) -> None:
    """The files of a commit."""
    tree.mkdir(parents=True)
    archive = tree.parent / "files.tar"
    await must(["git", "archive", f"--output={archive}", commit], cwd=ROOT)
    with tarfile.open(archive) as files:
        if hasattr(tarfile, "data_filter"):
            files.extractall(tree, filter="data")
        else:  # Python before 3.11.4, as in Debian 12
            files.extractall(tree)
    archive.unlink()
