"""Whoever installs the wheels sees types everywhere: pyright calls them complete, strict programs type-check.

pyright is the one of .ci/node; it reads the installed wheels, never the sources.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from built import NODE_PACKAGES, ROOT, uv

pytestmark = pytest.mark.needs("workspace")

CONSUMERS = Path(__file__).parent / "consumers"
PYRIGHT = NODE_PACKAGES / "pyright" / "index.js"
INSTALLED = [
    "hermes-batch[agent,parquet,zstd]",
    "hermes-loop[otel]",
    "hermes-providers[aiohttp,http2,socks]",
    "hermes-store[postgres]",
    "hermes-tools[mcp,web]",
]
"""All wheels, with the extras whose types stand in public signatures."""
IMPORT_PACKAGES = sorted(path.parent.name for path in ROOT.glob("packages/*/src/*/__init__.py"))
PROGRAMS = sorted(path.name for path in CONSUMERS.glob("*.py"))

with_pyright = pytest.mark.skipif(
    shutil.which("node") is None or not PYRIGHT.is_file(),
    reason="pyright is not installed: python3 .ci/node_packages.py",
)


@dataclass(frozen=True)
class Environment:
    """An environment with the built wheels, and a folder with the programs that use them."""

    home: Path
    programs: Path

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command among the programs, in the environment."""
        env = dict(os.environ, VIRTUAL_ENV=str(self.home), PATH=f"{self.home / 'bin'}:{os.environ['PATH']}")
        env.pop("MYPYPATH", None)
        env.pop("PYTHONPATH", None)
        return subprocess.run(
            command, cwd=self.programs, env=env, capture_output=True, text=True, check=False
        )


@pytest.fixture(scope="session")
def installed(dist: Path, locked_versions: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("typed")
    home = folder / "env"
    uv("venv", "--quiet", "--python", sys.executable, home)
    options = ("--no-sources", "--find-links", dist, "--constraints", locked_versions)
    uv("pip", "install", "--quiet", *options, "--python", home / "bin" / "python", *INSTALLED)
    programs = folder / "programs"
    shutil.copytree(CONSUMERS, programs)
    (programs / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    return Environment(home, programs)


@with_pyright
@pytest.mark.parametrize("package", IMPORT_PACKAGES)
def test_the_types_of_a_package_are_complete(package: str, installed: Environment) -> None:
    done = installed.run("node", PYRIGHT, "--ignoreexternal", "--verifytypes", package, "--outputjson")
    report = json.loads(done.stdout)["typeCompleteness"]
    missing = [
        f"{symbol['name']}, line {problem['range']['start']['line'] + 1}"
        for symbol in report["symbols"]
        for problem in symbol["diagnostics"]
        if "missing type annotation" in problem["message"]
    ]
    assert report["exportedSymbolCounts"]["withKnownType"] > 0
    assert (report["completenessScore"], missing) == (1, []), "write out the types of these"


@with_pyright
def test_programs_type_check_in_pyright_strict_mode(installed: Environment) -> None:
    done = installed.run("node", PYRIGHT, ".")
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("0 errors")


def mypy(installed: Environment, cache: Path, *files: str | Path) -> subprocess.CompletedProcess[str]:
    options = ("--strict", "--config-file=", f"--cache-dir={cache}")
    python = installed.home / "bin" / "python"
    return installed.run(sys.executable, "-m", "mypy", *options, "--python-executable", python, *files)


def test_programs_type_check_in_mypy_strict_mode(installed: Environment, tmp_path: Path) -> None:
    done = mypy(installed, tmp_path, *PROGRAMS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"in {len(PROGRAMS)} source files" in done.stdout


WRONG = """
from hermes_messages import UserMessage

UserMessage(content=3)
"""


def test_a_wrong_use_is_refused_by_mypy(installed: Environment, tmp_path: Path) -> None:
    """Else a wheel whose types are not found would pass as one whose types are right."""
    (tmp_path / "wrong.py").write_text(WRONG)
    assert "arg-type" in mypy(installed, tmp_path, tmp_path / "wrong.py").stdout


@with_pyright
def test_a_wrong_use_is_refused_by_pyright(installed: Environment, tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(WRONG)
    assert "reportArgumentType" in installed.run("node", PYRIGHT, tmp_path / "wrong.py").stdout


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs_as_it_is_checked(program: str, installed: Environment) -> None:
    done = installed.run(installed.home / "bin" / "python", "-W", "error", program)
    assert done.returncode == 0, done.stderr


def test_every_wheel_has_a_program() -> None:
    wheels = {path.parent.name.replace("-", "_") for path in ROOT.glob("packages/*/pyproject.toml")}
    assert {program.removeprefix("use_").removesuffix(".py") for program in PROGRAMS} == wheels
