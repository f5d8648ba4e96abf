"""The Pythons of this machine that the wheels are for."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from child_processes import run
from layers import BASE, project_of

__all__ = ["Python", "excuse", "find_pythons", "too_few"]

ASK = (
    "import json, sys; "
    "print(json.dumps([list(sys.version_info[:2]), sys.implementation.name, sys.executable]))"
)
EXCUSE = "HERMES_ONE_PYTHON"


@dataclass(frozen=True, order=True)
class Python:
    """One interpreter, by its minor version."""

    minor: int
    path: Path

    @property
    def name(self) -> str:
        """How tables name it: 3.11."""
        return f"3.{self.minor}"


def wanted_minors() -> list[int]:
    """The minor versions that the classifiers of the wheels promise."""
    classifiers = project_of(BASE)["classifiers"]
    assert isinstance(classifiers, list)
    found = [re.fullmatch(r"Programming Language :: Python :: 3\.(\d+)", line) for line in classifiers]
    return sorted(int(match[1]) for match in found if match)


async def find_pythons() -> list[Python]:
    """One interpreter for each promised version that is here: uv's finding, then pyenv's, oldest first."""
    pythons = [found for minor in wanted_minors() if (found := await find_python(minor)) is not None]
    if too_few(pythons) is not None:
        pythons += [found for found in [await install_python(pythons)] if found is not None]
    return sorted(pythons)


async def find_python(minor: int) -> Python | None:
    """What uv finds, or else pyenv."""
    for candidate in [*await from_uv(minor), *await from_pyenv(minor)]:
        if (path := await answers(candidate, minor)) is not None:
            return Python(minor, path)
    return None


async def install_python(present: list[Python]) -> Python | None:
    """The newest promised version that is missing, as uv installs it; None where uv can not reach it."""
    missing = max(set(wanted_minors()) - {python.minor for python in present}, default=None)
    if missing is None:
        return None
    done = await run(["uv", "python", "install", "--quiet", f"3.{missing}"], cwd=Path("/"), limit_s=300)
    return None if done.code else await find_python(missing)


async def from_uv(minor: int) -> list[str]:
    """What uv finds on the PATH and among its own; it never downloads here."""
    command = ["uv", "python", "find", "--no-project", "--no-python-downloads", "--system", f"3.{minor}"]
    done = await run(command, cwd=Path("/"), errors_too=False, env={"UV_PYTHON": ""})
    return [done.output.strip()] if not done.code else []


async def from_pyenv(minor: int) -> list[str]:
    """What pyenv keeps: uv can not see behind its shims."""
    if shutil.which("pyenv") is None:
        return []
    done = await run(["pyenv", "root"], cwd=Path("/"), errors_too=False)
    versions = Path(done.output.strip(), "versions")
    return [str(path) for path in sorted(versions.glob(f"3.{minor}.*/bin/python"), reverse=True)]


async def answers(candidate: str, minor: int) -> Path | None:
    """The interpreter that `candidate` really is, if it runs and is a CPython of this version."""
    try:
        done = await run([candidate, "-I", "-c", ASK], cwd=Path("/"), errors_too=False, limit_s=20)
        version, implementation, path = json.loads(done.output)
    except (OSError, ValueError):
        return None
    return Path(path) if version == [3, minor] and implementation == "cpython" else None


def excuse() -> str:
    """What the table says where one Python has to do."""
    return os.environ.get(EXCUSE) or "the only one here: nothing is known of others"


def too_few(pythons: list[Python]) -> str | None:
    """Why these interpreters are not enough, if they are not: CI needs two, unless it is told otherwise."""
    if not pythons:
        return f"no Python of {', '.join(f'3.{minor}' for minor in wanted_minors())} was found"
    if len(pythons) > 1 or os.environ.get("CI") != "true" or os.environ.get(EXCUSE):
        return None
    return (
        f"only Python {pythons[0].name} is here, CI must try two, and uv could install none. Install one of "
        f"{', '.join(f'3.{minor}' for minor in wanted_minors())} (uv and pyenv are asked for them), or "
        f"say with {EXCUSE}=REASON that this machine can have no other: the table then says so too"
    )
