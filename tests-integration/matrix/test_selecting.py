"""The plugin collects what fits the wheels that are there, and says what it left out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from selecting import needs_of

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
