"""The plugin collects what fits the wheels that are there, and says what it left out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import selecting
from layers import ROOT
from selecting import BY_PYTHON, ONCE, SLOW, needs_of

HERE = Path(__file__).parent
SETTINGS = "[pytest]\nmarkers =\n    needs(*wheels)\n    since(wheel, version)\n"


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    """A folder of cross-package tests."""
    folder = tmp_path / "tests-integration" / "turns"
    folder.mkdir(parents=True)
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    return folder


def run(tests: Path, *options: str, released: tuple[Path, ...] = ()) -> str:
    """The closing line of pytest with the plugin."""
    env = os.environ | {"PYTHONPATH": str(HERE), "HERMES_RELEASED": os.pathsep.join(map(str, released))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "selecting", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=tests.parents[1], env=env, capture_output=True, text=True, check=False)
    return done.stdout.strip().splitlines()[-1].split(" in ")[0]


def module(folder: Path, name: str, *lines: str) -> Path:
    file = folder / name
    file.write_text("import pytest\n" + "".join(f"{line}\n" for line in lines))
    return file


def test_a_module_whose_wheel_is_missing_is_not_even_imported(tests: Path) -> None:
    module(tests, "test_a.py", "pytestmark = pytest.mark.needs('hermes-loop')", "def test_a(): pass")
    module(
        tests,
        "test_b.py",
        "pytestmark = [pytest.mark.needs('hermes-none', 'hermes-loop')]",
        "import no_such_module",
    )
    module(tests, "test_c.py", "raise ValueError('it reads the source tree')")
    assert run(tests) == "1 passed"


def test_what_needs_a_newer_release_is_left_out(tests: Path) -> None:
    module(
        tests,
        "test_a.py",
        "pytestmark = pytest.mark.needs('hermes-loop')",
        "@pytest.mark.since('hermes-loop', '0.1.0')\ndef test_old(): pass",
        "@pytest.mark.since('hermes-loop', '99')\ndef test_new(): raise ValueError",
        "def test_always(): pass",
    )
    assert run(tests) == "2 passed, 1 deselected"
    module(tests, "test_a.py", "pytestmark = pytest.mark.since('hermes-loop', '99')", "import no_such_module")
    module(tests, "test_b.py", "pytestmark = pytest.mark.needs('hermes-loop')", "def test_always(): pass")
    assert run(tests) == "1 passed"


def test_beside_an_earlier_release_its_tests_run_and_marked_ones(tests: Path, tmp_path: Path) -> None:
    mark = "pytestmark = pytest.mark.needs('hermes-loop')"
    module(
        tests,
        "test_a.py",
        mark,
        "@pytest.mark.parametrize('x', [1, 2])\ndef test_both(x): pass",
        "def test_new(): raise ValueError",
        "@pytest.mark.since('hermes-loop', '0.1.0')\ndef test_marked(): pass",
    )
    module(tests, "test_new.py", mark, "import no_such_module")
    old = tmp_path / "old" / "tests-integration"
    (old / "turns").mkdir(parents=True)
    module(old / "turns", "test_a.py", "def test_both(): pass", "def test_gone(): pass")
    assert run(tests, "tests-integration", released=(old,)) == "3 passed, 1 deselected"


def test_a_module_without_the_mark_needs_the_source_tree(tests: Path) -> None:
    assert needs_of(module(tests, "test_a.py", "def test_a(): pass")) == {"workspace"}


def test_no_single_test_says_what_it_needs_since_only_modules_are_asked() -> None:
    """Of a module that asked for less, the test would run where its wheel is missing."""
    decorator = "@" + "pytest.mark.needs"
    files = (ROOT / "tests-integration").rglob("test_*.py")
    assert [file.name for file in files if decorator in file.read_text("utf-8")] == []


def test_every_name_that_is_left_out_is_there() -> None:
    for name in SLOW | ONCE:
        module, _, test = name.partition("::")
        folder = ROOT / "packages" if module.startswith("hermes-") else ROOT / "tests-integration"
        assert (folder / module).is_file(), name
        assert not test or test in selecting.tests_in(folder / module), name
    assert not SLOW & ONCE
    assert BY_PYTHON < SLOW | ONCE


def test_brief_leaves_out_more_than_quick_and_tries_few_examples(tmp_path: Path) -> None:
    folder = tmp_path / "packages" / "hermes-tools" / "tests"
    folder.mkdir(parents=True)
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    (folder / "conftest.py").write_text(
        "from hypothesis import settings\n"
        "settings.register_profile('own', settings(), deadline=None)\nsettings.load_profile('own')\n"
    )
    module(folder, "test_search.py", "raise ValueError('slow')")
    module(folder, "test_process.py", "def test_slow_by_python(): pass")
    module(folder, "test_patch.py", "def test_a(): pass")
    module(
        folder,
        "test_other.py",
        "from hypothesis import given, settings, strategies",
        "tried = []",
        "@given(strategies.integers())\ndef test_any(x): tried.append(x)",
        "def test_few(): assert (len(tried) <= 10) == (settings.default.max_examples == 10)",
        "def test_own(): assert settings.default.deadline is None",
    )
    assert run(folder, "--quick", str(folder)) == "4 passed"
    assert run(folder, "--brief", str(folder)) == "3 passed"
    assert run(folder, "--brief", "--by-python", str(folder)) == "4 passed"
