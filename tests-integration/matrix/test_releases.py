"""A release is found by its commit; a checkout that lacks it, or a tag that moved, is told in words."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest
from earlier_releases import ReleaseError, check_commit
from layers import ROOT
from shared import Release, read_releases


def git(folder: Path, *arguments: str) -> str:
    settings = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    done = subprocess.run(
        ["git", *settings, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of two commits."""
    folder = tmp_path / "whole"
    folder.mkdir()
    git(folder, "init", "--quiet")
    for words in ("first", "second"):
        git(folder, "commit", "--quiet", "--allow-empty", "-m", words)
    return folder


def first_release(repository: Path) -> Release:
    return Release("hermes-loop", "0.1.0", git(repository, "rev-parse", "HEAD~1"))


def test_a_release_is_found_with_its_tag_and_without(repository: Path) -> None:
    release = first_release(repository)
    asyncio.run(check_commit(release, repository))
    git(repository, "tag", release.tag, release.commit)
    asyncio.run(check_commit(release, repository))


def test_a_shallow_checkout_is_told_to_fetch_the_history(repository: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repository}", "shallow")
    with pytest.raises(ReleaseError, match=r"hermes-loop 0\.1\.0 can not be rebuilt.*git fetch --unshallow"):
        asyncio.run(check_commit(first_release(repository), tmp_path / "shallow"))


def test_a_tag_on_another_commit_is_refused(repository: Path) -> None:
    release = first_release(repository)
    git(repository, "tag", "-m", "moved", release.tag, "HEAD")
    with pytest.raises(ReleaseError, match=r"a release never moves"):
        asyncio.run(check_commit(release, repository))


def test_every_tag_of_this_checkout_is_in_the_table() -> None:
    listed = {release.tag for release in read_releases(ROOT)}
    assert set(git(ROOT, "tag", "--list", "hermes-*-v*").split()) <= listed
