"""The check of the public surface finds each kind of breaking change, and lets harmless ones pass."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from api_examples import BREAKING, HARMLESS, Edit, acme, write_package

ROOT = Path(__file__).parents[2]
CHECKS = ROOT / ".ci" / "checks"
MODULES = ["acme", "acme.joints"]


@dataclass(frozen=True)
class Tools:
    """The modules of the check, which lie outside every package."""

    surface: Any
    changes: Any


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(CHECKS))
        yield Tools(importlib.import_module("api_surface"), importlib.import_module("api_changes"))


def snapshot(tools: Tools, root: Path, edit: Edit | None = None) -> str:
    folder = write_package(root, edit)
    text: str = tools.surface.surface_text(tools.surface.load_packages(root), folder, MODULES)
    return text


@pytest.fixture(scope="module")
def old(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The surface before every edit."""
    return snapshot(tools, tmp_path_factory.mktemp("old"))


@pytest.mark.parametrize("case", BREAKING)
def test_a_breaking_change_is_found(case: str, tools: Tools, old: str, tmp_path: Path) -> None:
    edit, expected = BREAKING[case]
    new = snapshot(tools, tmp_path, edit)
    breaking = [str(change).lower() for change in tools.changes.compare(old, new) if change.breaking]
    assert any(line.startswith(expected.lower()) for line in breaking), breaking


@pytest.mark.parametrize("case", HARMLESS)
def test_a_harmless_change_breaks_nothing(case: str, tools: Tools, old: str, tmp_path: Path) -> None:
    new = snapshot(tools, tmp_path, HARMLESS[case])
    assert [str(change) for change in tools.changes.compare(old, new) if change.breaking] == []


def test_a_union_that_may_grow_is_not_broken_by_a_new_member(tools: Tools, old: str, tmp_path: Path) -> None:
    more = snapshot(tools, tmp_path / "more", acme("Small | Big", "Small | Big | Point"))
    fewer = snapshot(tools, tmp_path / "fewer", acme("Small | Big", "Small"))
    grown = tools.changes.compare(old, more, frozenset({"acme.Either"}))
    assert {change.name for change in grown} == {"acme.Either"}
    assert not any(change.breaking for change in grown)
    assert any(change.breaking for change in tools.changes.compare(old, fewer, frozenset({"acme.Either"})))


# The check as a whole, over a workspace of one package that was released as 0.1.0.

RELEASES = """[[release]]
wheel = "acme"
version = "0.1.0"
commit = "{commit}"
"""
OPTIONAL = acme("loud: bool = False)", "loud: bool = False, often: int = 1)")
GONE = acme(", *, fast: bool = False", "")


def run_contract(root: Path, *options: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, CHECKS / "api_contract.py", *options, root],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """The workspace as it was released; its snapshot of the release is there."""
    write_package(tmp_path)
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci/api.toml").write_text('may_grow = []\n[modules]\nacme = ["acme", "acme.joints"]\n')
    changelog(tmp_path, "## 0.1.0 (2026-01-02)\n\n- First version.\n")
    assert run_contract(tmp_path, "--write")[0] == 0
    api = tmp_path / "packages/acme/api"
    shutil.copyfile(api / "head.txt", api / "0.1.0.txt")
    (tmp_path / "releases.toml").write_text(RELEASES.format(commit="none"))
    return tmp_path


def changelog(root: Path, text: str) -> None:
    (root / "packages/acme/CHANGELOG.md").write_text("# Changelog\n\n" + text)


def change(root: Path, edit: Edit | None, version: str, lines: str) -> None:
    """The state after an edit: sources, version, changelog, and the snapshot of the sources."""
    write_package(root, edit, version)
    section = f"## {version} (unreleased)\n\n{lines}\n\n" if version != "0.1.0" else ""
    changelog(root, f"{section}## 0.1.0 (2026-01-02)\n\n- First version with grow.\n")
    assert run_contract(root, "--write")[0] == 0


STATES: dict[str, tuple[Edit | None, str, str, str]] = {
    "as_released": (None, "0.1.0", "", ""),
    "nothing_new_yet": (None, "0.1.1", "- Nothing yet.", ""),
    "an_addition_in_a_patch": (OPTIONAL, "0.1.1", "- `greet` may be repeated.", ""),
    "an_addition_that_nobody_wrote_down": (OPTIONAL, "0.1.1", "- Nothing yet.", "changelog: has no line"),
    "an_addition_under_the_released_number": (
        OPTIONAL,
        "0.1.0",
        "",
        "version: the surface changed since 0.1.0",
    ),
    "a_break_in_a_patch": (GONE, "0.1.1", "- `grow` has no `fast`.", "must become 0.2.0"),
    "a_break_in_a_minor_version": (GONE, "0.2.0", "- `Thing.grow` has no `fast`.", ""),
    "a_break_that_the_changelog_does_not_name": (
        GONE,
        "0.2.0",
        "- Mended.",
        "changelog: does not name: acme.Thing.grow",
    ),
    "a_break_in_a_major_version": (GONE, "1.0.0", "- `Thing.grow` has no `fast`.", ""),
}


@pytest.mark.parametrize("state", STATES)
def test_the_version_and_the_changelog_fit_the_change(state: str, workspace: Path) -> None:
    edit, version, lines, expected = STATES[state]
    change(workspace, edit, version, lines)
    code, output = run_contract(workspace)
    assert (code, expected in output) == (1 if expected else 0, True), output


def test_a_stale_snapshot_is_found(workspace: Path) -> None:
    change(workspace, None, "0.1.1", "- More.")
    write_package(workspace, OPTIONAL, "0.1.1")
    code, output = run_contract(workspace)
    assert code == 1
    assert "head.txt: snapshot: is not what the sources say" in output


ACCEPTED = """[[accepted]]
since = "0.1.0"
change = "{line}"
why = "{why}"
"""


@pytest.mark.parametrize("case", ["with_a_reason", "without_a_reason", "of_what_did_not_change"])
def test_a_break_is_accepted_with_a_reason_only(case: str, workspace: Path) -> None:
    change(workspace, GONE, "0.1.1", "- `Thing.grow` has no `fast`.")
    line = next(part for part in run_contract(workspace)[1].splitlines() if "acme.Thing.grow" in part)
    text = line.split("version: ")[1].split(" (breaks")[0]
    rows = [ACCEPTED.format(line=text, why="" if case == "without_a_reason" else "it never had an effect")]
    if case == "of_what_did_not_change":
        rows.append(ACCEPTED.format(line="acme.greet: was removed", why="so it is"))
    (workspace / "packages/acme/api/accepted.toml").write_text("\n".join(rows))
    code, output = run_contract(workspace)
    assert (code, output.count(": accepted: ")) == {
        "with_a_reason": (0, 0), "without_a_reason": (1, 0), "of_what_did_not_change": (1, 1),
    }[case]  # fmt: skip


def test_what_a_document_shows_must_be_listed(workspace: Path) -> None:
    (workspace / "docs").mkdir()
    (workspace / "docs/use.md").write_text("```python\nfrom hermes_acme.depths import x\n```\n")
    source = workspace / "packages/acme/src/hermes_acme"
    source.mkdir()
    (source / "__init__.py").write_text('"""Example."""\n\n__all__: list[str] = []\n')
    code, output = run_contract(workspace)
    assert code == 1
    assert "docs/use.md: unlisted: hermes_acme.depths" in output


def git(root: Path, *arguments: str) -> str:
    name = ("-c", "user.name=A", "-c", "user.email=a@example.com")
    return subprocess.run(
        ["git", *name, *arguments], cwd=root, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_the_snapshot_of_a_release_is_made_from_its_commit(workspace: Path) -> None:
    git(workspace, "init", "-q")
    git(workspace, "add", "packages")
    git(workspace, "commit", "-q", "-m", "released")
    commit = git(workspace, "rev-parse", "HEAD")
    released = workspace / "packages/acme/api/0.1.0.txt"
    expected = released.read_text()
    released.unlink()
    (workspace / "releases.toml").write_text(RELEASES.format(commit=commit))
    write_package(workspace, GONE, "0.1.1")
    assert "0.1.0.txt: snapshot: is missing" in run_contract(workspace)[1]
    assert run_contract(workspace, "--write")[0] == 0
    assert released.read_text() == expected
    assert "acme.thing.grow: parameter was removed" in run_contract(workspace)[1].lower()


def test_a_commit_that_is_not_there_is_said(workspace: Path) -> None:
    git(workspace, "init", "-q")
    (workspace / "packages/acme/api/0.1.0.txt").unlink()
    (workspace / "releases.toml").write_text(RELEASES.format(commit="0" * 40))
    code, output = run_contract(workspace, "--write")
    assert code == 1
    assert "can not be read, fetch it first" in output
