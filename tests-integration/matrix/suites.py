"""Running tests in an environment of the matrix, from a copy that lies outside the workspace."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cells import Ended
from child_processes import run
from environments import Environment
from greens import Greens, digest, digest_of_tree
from layers import ROOT
from selecting import is_marked, needs_of
from wheels import House

__all__ = [
    "BRIEF",
    "NEWEST",
    "QUICK",
    "Campaign",
    "Copy",
    "Suite",
    "Trees",
    "contract_files",
    "pytest_settings",
    "run_suites",
    "unmarked_files",
]

NOTHING_COLLECTED = 5
LIMIT_S = 3 * 3600.0
QUICK = ("--quick",)
BRIEF = ("--brief",)
NEWEST = (*BRIEF, "--by-python")
"""Options of the plugin `selecting`: to leave out what takes long; also what takes seconds and hangs on
nothing beside it; and of both only what no version of Python changes."""
GENERATED = ("__pycache__", ".hypothesis")
MADE_BY_TOOLS = shutil.ignore_patterns(*GENERATED)
LISTENED = re.compile(r"CI|HERMES_(?!TEST_PROFILE$).*|.*_proxy", re.IGNORECASE)
KIT = re.compile(r"\bcheck_(?:provider|store|executor|approvals)\b")


@dataclass(frozen=True)
class Copy:
    """The tests of a source tree, copied; `digest` is the name of what was copied."""

    folder: Path
    digest: str


@dataclass(frozen=True)
class Suite:
    """Paths below `tree` for one run of pytest; `released` are the integration tests of earlier releases.

    One that collects nothing is red, unless it `may_be_empty`.
    """

    name: str
    tree: Copy
    paths: Sequence[str]
    options: Sequence[str] = ()
    released: Sequence[Path] = ()
    may_be_empty: bool = False

    @property
    def digest(self) -> str:
        """The name of what is run."""
        older = (digest_of_tree(folder) for folder in self.released)
        return digest([self.tree.digest, *self.paths, "options", *self.options, "released", *older])


class Trees:
    """Copies of the tests of source trees, made once each, below a folder outside the workspace.

    A copy holds what its tests read and nothing else, so that a change of anything else makes no other suite.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[tuple[Path, str], Copy] = {}

    def own_tests(self, tree: Path, wheel: str) -> Copy:
        """The own tests of a wheel, with the files beside them that they read."""
        return self._copy(tree, wheel, partial(copy_package, tree, wheel))

    def cross_tests(self, tree: Path) -> Copy:
        """The cross-package tests that need no source tree."""
        return self._copy(tree, "tests-integration", partial(copy_cross_tests, tree))

    def _copy(self, tree: Path, name: str, fill: Callable[[Path], None]) -> Copy:
        if (tree, name) not in self._made:
            target = self._folder / f"{len(self._made)}-{name}"
            fill(target)
            copy_settings(target)
            self._made[tree, name] = Copy(target, digest_of_tree(target))
            node = ROOT / ".cache" / "node"
            if node.is_dir():
                (target / ".cache").mkdir()
                (target / ".cache" / "node").symlink_to(node)
        return self._made[tree, name]


@dataclass(frozen=True)
class Campaign:
    """What all cells of tests share; `head` has the wheels of this tree, `full` is the nightly profile."""

    head: House
    trees: Trees
    greens: Greens
    full: bool


def copy_package(tree: Path, wheel: str, target: Path) -> None:
    """The own tests of a wheel and the pages that they read."""
    source, home = tree / "packages" / wheel, target / "packages" / wheel
    shutil.copytree(source / "tests", home / "tests", ignore=MADE_BY_TOOLS)
    for name in ("README.md", "CHANGELOG.md", "pyproject.toml"):
        shutil.copy(source / name, home)


def copy_cross_tests(tree: Path, target: Path) -> None:
    """The folders of cross-package tests of which some can run here, and what those read."""
    for source in sorted(path for path in (tree / "tests-integration").iterdir() if path.is_dir()):
        tests = {file: "workspace" in needs_of(file) for file in source.rglob("test_*.py")}
        unwanted = [file.name for file, needs_sources in tests.items() if needs_sources]
        if len(unwanted) < len(tests):
            ignore = shutil.ignore_patterns(*GENERATED, *unwanted)
            shutil.copytree(source, target / "tests-integration" / source.name, ignore=ignore)
    shutil.copytree(tree / "examples", target / "examples", ignore=MADE_BY_TOOLS)


def copy_settings(target: Path) -> None:
    """The settings of pytest and its plugins, of this tree: its marks are known to its plugin."""
    (target / ".ci").mkdir()
    helpers = ("browser.py", "cancellations.py", "counting_host.py", "hard_times.py", "quiet_port.py")
    for name in ("no_skips.py", *helpers):
        shutil.copy(ROOT / ".ci" / name, target / ".ci")
    shutil.copy(Path(__file__).with_name("selecting.py"), target / ".ci")
    (target / "pyproject.toml").write_text(pytest_settings((ROOT / "pyproject.toml").read_text("utf-8")))


def pytest_settings(text: str) -> str:
    """What a pyproject.toml says to pytest; pure. The rest of it is nothing to the tests."""
    found = re.search(r"^\[tool\.pytest\.ini_options\]\n.*?(?=^\[|\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError("pyproject.toml has no table [tool.pytest.ini_options]")
    return found[0]


def contract_files(tree: Path, wheel: str) -> list[str]:
    """The test files of a wheel that call the conformance kit of hermes_messages.testing."""
    files = sorted((tree / "packages" / wheel / "tests").rglob("test_*.py"))
    return [str(file.relative_to(tree)) for file in files if KIT.search(file.read_text("utf-8"))]


def unmarked_files(tree: Path) -> list[str]:
    """The modules of cross-package tests that import our wheels and do not say which they need."""
    files = sorted((tree / "tests-integration").rglob("test_*.py"))
    ours = re.compile(r"^(?:from|import) hermes_", re.MULTILINE)
    return [
        str(file.relative_to(tree))
        for file in files
        if not is_marked(file) and ours.search(file.read_text("utf-8"))
    ]


async def run_suites(environment: Environment, suites: Sequence[Suite], greens: Greens) -> Ended:
    """Run the suites one after the other, all of them. The text is the number of tests that passed."""
    total: Counter[str] = Counter()
    failures = []
    for suite in suites:
        counts, failure = await run_or_find(environment, suite, greens)
        total += counts
        if failure:
            failures.append(f"-- {suite.name}\n{failure}")
    text = f"{passed(total)}"
    if total["skipped"]:
        text += f", {total['skipped']} skipped"
    if total["kept"]:
        text += f" ({total['kept']} of an earlier run)"
    return Ended(text, "\n".join(failures), "FAILED" if failures else "ok")


def passed(counts: Counter[str]) -> int:
    """How many tests passed."""
    return counts["tests"] - counts["failures"] - counts["errors"] - counts["skipped"]


async def run_or_find(environment: Environment, suite: Suite, greens: Greens) -> tuple[Counter[str], str]:
    """The counts of a suite, of an earlier green run of the same or of this one, and how it failed."""
    name = digest([environment.digest, suite.digest, *variables()])
    if (kept := greens.find(name)) is not None:
        return kept + Counter(kept=passed(kept)), ""
    started = time.monotonic()
    counts, failure = await run_suite(environment, suite)
    if failure or counts["failures"] or counts["errors"]:
        greens.forget(name)
        return counts, failure or "pytest counted failures and yet ended with success"
    took = f"{time.monotonic() - started:.0f} s"
    greens.keep(name, counts, {"suite": suite.name, "environment": environment.label, "took": took})
    return counts, ""


def variables() -> list[str]:
    """The variables of this process that change what tests do."""
    return [f"{key}={value}" for key, value in sorted(os.environ.items()) if LISTENED.fullmatch(key)]


async def run_suite(environment: Environment, suite: Suite) -> tuple[Counter[str], str]:
    """The counts of one run of pytest, and its last words if it failed."""
    tree = suite.tree.folder
    report = environment.folder / "report.xml"
    report.unlink(missing_ok=True)
    command: list[str | Path] = [
        *(environment.python, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"),
        *(() if environment.may_skip else ("-p", "no_skips")),
        *("-p", "selecting", f"--junitxml={report}", "-m", "not local_model and not ray_cluster"),
        *suite.options,
        *suite.paths,
    ]
    env = {
        "HERMES_TEST_PROFILE": "ci",  # the full counts of each test are for its own run
        "PYTHONPATH": str(tree / ".ci"),
        "HERMES_RELEASED": os.pathsep.join(map(str, suite.released)),
        "VIRTUAL_ENV": "",
        "PYTHONDONTWRITEBYTECODE": "",  # each run of pytest and each child would compile everything again
        "PATH": os.pathsep.join([str(environment.python.parent), os.environ.get("PATH", os.defpath)]),
    }
    # Not where all runs of a user have their folders: two that end at once remove the same old one, and fail.
    with tempfile.TemporaryDirectory(prefix="tests-", ignore_cleanup_errors=True) as own:
        done = await run(command, cwd=tree, env=env | {"PYTEST_DEBUG_TEMPROOT": own}, limit_s=LIMIT_S)
    counts: Counter[str] = Counter()
    if report.is_file():
        for element in ET.parse(report).iter("testsuite"):
            counts += Counter(
                {key: int(element.get(key, "0")) for key in ("tests", "failures", "errors", "skipped")}
            )
    good = done.code == 0 or (suite.may_be_empty and done.code == NOTHING_COLLECTED)
    return counts, "" if good else done.tail or f"pytest ended with {done.code} and no word"
