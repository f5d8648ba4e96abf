"""Prove that every workspace member is a complete package of its own, with honest ranges on its siblings.

    python .ci/checks/sibling_ranges.py [ROOT]

`uv sync` ignores the ranges between members, so nothing else would notice when one is wrong.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from findings import Finding, run_check
from packaging.requirements import Requirement


@dataclass(frozen=True)
class Member:
    """One wheel of the workspace: its folder and what its pyproject.toml says."""

    folder: Path
    shown: str
    data: dict[str, Any]

    @property
    def name(self) -> str:
        """The distribution name."""
        return str(self.data["project"]["name"])

    @property
    def version(self) -> str:
        """The version in the source tree."""
        return str(self.data["project"]["version"])

    def finding(self, rule: str, message: str, file: str = "pyproject.toml") -> Finding:
        """A finding in one of the member's files."""
        return Finding(f"{self.shown}/{file}", 0, rule, message)


def members(root: Path) -> list[Member]:
    """All members below `root`."""
    return [
        Member(path.parent, path.parent.relative_to(root).as_posix(), tomllib.loads(path.read_text("utf-8")))
        for path in sorted((root / "packages").glob("*/pyproject.toml"))
    ]


def requirements(member: Member) -> Iterator[Requirement]:
    """Everything that the built wheel can ask for, extras included."""
    project = member.data["project"]
    for text in project.get("dependencies", []):
        yield Requirement(text)
    for extra in project.get("optional-dependencies", {}).values():
        yield from (Requirement(text) for text in extra)


def check_ranges(member: Member, versions: dict[str, str]) -> Iterator[Finding]:
    """A sibling has a floor and a ceiling, and the version in the workspace lies between them."""
    for requirement in requirements(member):
        if requirement.name not in versions or requirement.name == member.name:
            continue
        operators = {specifier.operator for specifier in requirement.specifier}
        if not operators & {">=", ">", "=="} or not operators & {"<", "<=", "=="}:
            yield member.finding("range", f"{requirement} needs a floor and a ceiling")
        elif not requirement.specifier.contains(versions[requirement.name], prereleases=True):
            yield member.finding(
                "range", f"{requirement} does not admit the workspace's {versions[requirement.name]}"
            )


def check_files(member: Member, root: Path) -> Iterator[Finding]:
    """The licence is the root's, the README is there, the changelog names the version."""
    license_file, readme, changelog = (member.folder / n for n in ("LICENSE", "README.md", "CHANGELOG.md"))
    if not license_file.is_file() or license_file.read_bytes() != (root / "LICENSE").read_bytes():
        yield member.finding("license", "must be a copy of the root's LICENSE", "LICENSE")
    if not readme.is_file() or not readme.read_text("utf-8").strip():
        yield member.finding("readme", "missing or empty", "README.md")
    heading = rf"^## \[?{re.escape(member.version)}\b"
    if not changelog.is_file() or not re.search(heading, changelog.read_text("utf-8"), re.MULTILINE):
        yield member.finding("changelog", f"has no section for {member.version}", "CHANGELOG.md")


def check_modules(member: Member) -> Iterator[Finding]:
    """Each folder under src is built into the wheel, and is typed; nothing else is named."""
    backend = member.data.get("tool", {}).get("uv", {}).get("build-backend", {})
    named = backend.get("module-name", member.name.replace("-", "_"))
    named = {named} if isinstance(named, str) else set(named)
    present = {path.parent.name for path in (member.folder / "src").glob("*/__init__.py")}
    for module in sorted(present - named):
        yield member.finding("module-name", f"src/{module} is not in module-name: it would not be shipped")
    for module in sorted(named - present):
        yield member.finding("module-name", f"{module} is named but src/{module}/__init__.py is missing")
    for module in sorted(present):
        if not (member.folder / "src" / module / "py.typed").is_file():
            yield member.finding("py.typed", "missing", f"src/{module}/py.typed")


def check_tables(member: Member) -> Iterator[Finding]:
    """There is a group `test`; tools are configured in the root only."""
    if "test" not in member.data.get("dependency-groups", {}):
        yield member.finding("test-group", "has no dependency group `test`")
    for tool in sorted(set(member.data.get("tool", {})) - {"uv"}):
        yield member.finding("tool-table", f"[tool.{tool}] belongs in the root pyproject.toml")


def check(root: Path) -> Iterator[Finding]:
    """All rules over all members below `root`."""
    found = members(root)
    versions = {member.name: member.version for member in found}
    for member in found:
        yield from check_ranges(member, versions)
        yield from check_files(member, root)
        yield from check_modules(member)
        yield from check_tables(member)


if __name__ == "__main__":
    run_check("sibling ranges", check)
