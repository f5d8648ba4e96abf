"""A kept green stands for the very same run only, and never for a red one."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from environments import Environment
from greens import WEEK_S, Greens, digest_of_tree
from layers import ROOT, WHEELS
from selecting import needs_of
from suites import Copy, Suite, Trees, pytest_settings, run_suites

SETTINGS = "[pytest]\nmarkers =\n    local_model\n    ray_cluster\n"


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """This Python, with a folder for the report."""
    (tmp_path / "environment").mkdir()
    return Environment(Path(sys.executable), tmp_path / "environment", True, "here", "installed")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with one test, which tells a file that it ran and is red where there is a file `red`."""
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "pytest.ini").write_text(SETTINGS)
    (folder / "test_a.py").write_text(
        "from pathlib import Path\n"
        "def test_a():\n"
        "    with Path('../ran').open('a') as file:\n        file.write('.')\n"
        "    assert not Path('../red').exists()\n"
    )
    (folder / ".ci").mkdir()
    (folder / ".ci" / "selecting.py").write_text("")
    return folder


def suite_of(tree: Path, *, may_be_empty: bool = False) -> Suite:
    return Suite("a", Copy(tree, digest_of_tree(tree)), ["test_a.py"], may_be_empty=may_be_empty)


def run(environment: Environment, tree: Path, *, use: bool = True) -> tuple[str, str, int]:
    """The text and status of a cell, and how often its test has run by now."""
    greens = Greens(tree.parent / "green", use=use)
    ended = asyncio.run(run_suites(environment, [suite_of(tree)], greens))
    return ended.text, ended.status, len((tree.parent / "ran").read_text())


def test_the_same_run_is_not_done_twice_and_the_cell_tells(environment: Environment, tree: Path) -> None:
    assert run(environment, tree) == ("1", "ok", 1)
    assert run(environment, tree) == ("1 (1 of an earlier run)", "ok", 1)


def test_nothing_is_found_unless_it_is_asked_for(environment: Environment, tree: Path) -> None:
    assert run(environment, tree, use=False) == ("1", "ok", 1)
    assert run(environment, tree, use=False) == ("1", "ok", 2)


def test_a_red_run_is_never_kept_and_ends_what_was(environment: Environment, tree: Path) -> None:
    red = tree.parent / "red"
    red.touch()
    assert run(environment, tree) == ("0", "FAILED", 1)
    red.unlink()
    assert run(environment, tree) == ("1", "ok", 2)
    red.touch()
    assert run(environment, tree, use=False) == ("0", "FAILED", 3)
    assert run(environment, tree) == ("0", "FAILED", 4)


def test_another_environment_or_variable_is_another_run(
    environment: Environment, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(environment, tree)
    assert run(replace(environment, digest="another"), tree)[2] == 2
    monkeypatch.setenv("HERMES_ANYTHING", "1")
    assert run(environment, tree)[2] == 3


def test_what_python_compiled_meanwhile_makes_no_other_tree(tree: Path) -> None:
    before = digest_of_tree(tree)
    (tree / "__pycache__").mkdir()
    (tree / "__pycache__" / "test_a.cpython-311.pyc").write_bytes(b"x")
    assert digest_of_tree(tree) == before


def test_other_bytes_places_options_and_releases_are_another_suite(tree: Path) -> None:
    suite = suite_of(tree)
    found = [
        suite,
        replace(suite, options=("-v",)),
        replace(suite, released=[tree]),
        replace(suite, paths=["-v"]),
    ]
    (tree / "data.txt").touch()
    found.append(suite_of(tree))
    (tree / "data.txt").rename(tree / "date.txt")
    found.append(suite_of(tree))
    (tree / "date.txt").write_text("x")
    found.append(suite_of(tree))
    assert len({one.digest for one in found}) == len(found)
    assert suite_of(tree).digest == suite_of(tree).digest


def test_a_suite_that_collects_nothing_is_red_unless_it_may_be_empty(
    environment: Environment, tree: Path
) -> None:
    greens = Greens(tree.parent / "green", use=True)
    (tree / "test_a.py").write_text("")
    for may_be_empty, status in ((False, "FAILED"), (True, "ok")):
        suite = suite_of(tree, may_be_empty=may_be_empty)
        assert asyncio.run(run_suites(environment, [suite], greens)).status == status


def test_what_is_older_than_a_week_is_not_found(tmp_path: Path) -> None:
    greens = Greens(tmp_path / "green", use=True)
    greens.keep("name", Counter(tests=2), {})
    assert greens.find("name") == Counter(tests=2)
    [file] = (tmp_path / "green").iterdir()
    long_ago = time.time() - WEEK_S - 60
    os.utime(file, (long_ago, long_ago))
    assert greens.find("name") is None


def test_a_copy_has_the_tests_of_its_suite_and_nothing_that_others_read(tmp_path: Path) -> None:
    trees = Trees(tmp_path)
    for wheel in WHEELS:
        copy = trees.own_tests(ROOT, wheel)
        assert [path.name for path in (copy.folder / "packages").iterdir()] == [wheel]
        assert not (copy.folder / "docs").exists()
        assert trees.own_tests(ROOT, wheel) is copy
    cross = trees.cross_tests(ROOT)
    found = set(cross.folder.rglob("tests-integration/**/test_*.py"))
    wanted = {
        cross.folder / file.relative_to(ROOT)
        for file in (ROOT / "tests-integration").rglob("test_*.py")
        if "workspace" not in needs_of(file)
    }
    assert found == wanted
    assert not (cross.folder / "tests-integration" / "matrix").exists()
    assert len({cross.digest, *(trees.own_tests(ROOT, wheel).digest for wheel in WHEELS)}) == 7


def test_only_what_pytest_reads_of_a_pyproject_is_copied() -> None:
    text = "[a]\nx = 1\n\n[tool.pytest.ini_options]\nmarkers = [\n    'm: x',\n]\n\n[[b]]\ny = 1\n"
    assert pytest_settings(text) == "[tool.pytest.ini_options]\nmarkers = [\n    'm: x',\n]\n\n"
    with pytest.raises(ValueError, match="no table"):
        pytest_settings("[a]\n")
