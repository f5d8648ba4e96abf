"""Versions, changelogs and releases.toml tell one story.

    python .ci/checks/release_state.py [ROOT]

table      every row of releases.toml names a wheel of the workspace, a version and a full commit, once
version    the version in the sources is newer than every release of its wheel
changelog  sections are `## VERSION (YYYY-MM-DD)` or, for the first alone, `## VERSION (unreleased)`, the
           newest first, which is that of the sources; a release has one; no date is in the future
"""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from findings import Finding, run_check
from packaging.version import InvalidVersion, Version
from releases import Release, read_releases

SECTION = re.compile(r"^## (\S+)(?: \((.*)\))?[ \t]*$", re.MULTILINE)
UNRELEASED = "unreleased"


def check(root: Path) -> Iterator[Finding]:
    """All rules below `root`."""
    rows = read_releases(root)
    wheels = sorted(path.parent.name for path in (root / "packages").glob("*/pyproject.toml"))
    yield from _table(rows, wheels)
    for wheel in wheels:
        file = root / "packages" / wheel / "pyproject.toml"
        version = str(tomllib.loads(file.read_text("utf-8"))["project"]["version"])
        released = [row.version for row in rows if row.wheel == wheel and _valid(row.version)]
        yield from _version(wheel, version, released)
        changelog = root / "packages" / wheel / "CHANGELOG.md"
        if changelog.is_file():
            yield from _changelog(wheel, version, released, changelog.read_text("utf-8"))


def _table(rows: list[Release], wheels: list[str]) -> Iterator[Finding]:
    for tag, times in Counter(row.tag for row in rows).items():
        if times > 1:
            yield Finding("releases.toml", 0, "table", f"{tag} stands there {times} times")
    for row in rows:
        if row.wheel not in wheels:
            yield Finding("releases.toml", 0, "table", f"{row.wheel} is no wheel of the workspace")
        if not _valid(row.version):
            yield Finding("releases.toml", 0, "table", f"{row.wheel}: {row.version!r} is no version")
        if not re.fullmatch(r"[0-9a-f]{40}", row.commit):
            yield Finding(
                "releases.toml", 0, "table", f"{row.wheel} {row.version}: {row.commit!r} is no commit"
            )


def _version(wheel: str, version: str, released: list[str]) -> Iterator[Finding]:
    newest = max(released, key=Version, default=None)
    if newest is not None and Version(version) <= Version(newest):
        message = f"{version} is not newer than the release {newest}: what is released does not change"
        yield Finding(f"packages/{wheel}/pyproject.toml", 0, "version", message)


def _changelog(wheel: str, version: str, released: list[str], text: str) -> Iterator[Finding]:
    """The rules for one changelog."""
    shown = f"packages/{wheel}/CHANGELOG.md"
    sections = [(match[1], match[2] or "") for match in SECTION.finditer(text)]
    order = [number for number, _ in sections if _valid(number)]
    if order != sorted(order, key=Version, reverse=True) or len(set(order)) < len(sections):
        yield Finding(shown, 0, "changelog", "its sections are not versions, each once and the newest first")
    if sections and sections[0][0] != version:
        yield Finding(shown, 0, "changelog", f"begins with {sections[0][0]}, the sources are {version}")
    for number, (section, date) in enumerate(sections):
        problem = _date_problem(date, may_be_open=number == 0)
        if problem:
            yield Finding(shown, 0, "changelog", f"{section}: {problem}")
    for missing in sorted(set(released) - set(order)):
        yield Finding(shown, 0, "changelog", f"has no section for the release {missing}")


def _date_problem(date: str, *, may_be_open: bool) -> str:
    """What is wrong with what stands behind a version, or nothing."""
    if date == UNRELEASED:
        return "" if may_be_open else "only the newest version may be unreleased"
    try:
        given = dt.date.fromisoformat(date)
    except ValueError:
        return f"{date!r} is no date and not `{UNRELEASED}`"
    today = dt.datetime.now(dt.UTC).date()
    return f"{date} is in the future" if given > today else ""


def _valid(version: str) -> bool:
    try:
        Version(version)
    except InvalidVersion:
        return False
    return True


if __name__ == "__main__":
    run_check("release state", check)
