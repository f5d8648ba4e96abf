"""Fresh environments that hold given versions of our wheels, and only what these declare."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from child_processes import CommandError, Done, must, run
from greens import digest
from interpreters import Python
from layers import ROOT, WHEELS, extras_of, groups_of
from wheels import CACHE, Pinned, requirements_in

__all__ = ["Environment", "Resolution", "Wanted", "ask_resolver", "environment"]

Resolution = Literal["highest", "lowest"]
SAID: Mapping[Resolution, str] = {"highest": "highest", "lowest": "lowest-direct"}
HEAVY_EXTRAS = {"local", "ray"}
"""Hundreds of megabytes; what needs them is tested in the environment of the whole workspace."""


@dataclass(frozen=True)
class Wanted:
    """What an environment is to hold.

    Of the wheels in `own_tests` also the extras, and what their own tests need; with `cross_tests` what
    cross-package tests need, and the extras that ask for our wheels.
    """

    wheels: tuple[Pinned, ...]
    python: Python
    resolution: Resolution = "highest"
    own_tests: frozenset[str] = frozenset()
    cross_tests: bool = False

    @property
    def names(self) -> frozenset[str]:
        """The wheels by name."""
        return frozenset(pinned.wheel for pinned in self.wheels)


@dataclass(frozen=True)
class Environment:
    """An environment that was made; `folder` is removed with it."""

    python: Path
    folder: Path
    may_skip: bool
    """Whether tests may skip here also in CI."""
    label: str
    """What it is, for readers."""
    digest: str
    """One name for all that is installed: the bytes of our wheels, the versions of the rest, the Python."""


def extras_for(pinned: Pinned, wanted: Wanted) -> list[str]:
    """The extras to install, as far as the siblings that they ask for are there; never a heavy one."""
    chosen = []
    for name, lines in extras_of(pinned.wheel, pinned.house.tree).items():
        siblings = {wheel for wheel in WHEELS for line in lines if line.startswith(wheel)}
        asked = wanted.cross_tests if siblings else pinned.wheel in wanted.own_tests
        if asked and name not in HEAVY_EXTRAS and siblings <= wanted.names:
            chosen.append(name)
    return chosen


def requirements(wanted: Wanted) -> list[str]:
    """The lines to install: our wheels exactly, and what they declare, so that "lowest" means their floors.

    Without the second part the resolver, which lowers direct requirements, would take the newest of them.
    """
    lines = []
    for pinned in wanted.wheels:
        extras = extras_for(pinned, wanted)
        names = f"[{','.join(extras)}]" if extras else ""
        lines.append(f"{pinned.wheel}{names}=={pinned.version}")
        for needed in requirements_in(pinned.file, extras):
            if not needed.name.startswith("hermes-"):
                needed.marker = None
                lines.append(str(needed))
    return lines


async def with_uv(wanted: Wanted, folder: Path, *command: str | Path) -> Done:
    """A uv pip command on the file of requirements, which it takes last."""
    file = folder / "wheels.in"
    file.write_text("\n".join(requirements(wanted)) + "\n")
    links = {f"--find-links={pinned.house.dist}" for pinned in wanted.wheels}
    options = [
        "--no-sources",
        "--only-binary=:all:",
        f"--resolution={SAID[wanted.resolution]}",
        *sorted(links),
    ]
    return await run(["uv", "pip", *command, file, "--quiet", *options], cwd=folder)


async def ask_resolver(wanted: Wanted) -> Done:
    """Whether uv would install what is wanted; it installs nothing."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=CACHE, prefix="ask-") as folder:
        return await with_uv(wanted, Path(folder), "compile", "--python", wanted.python.path)


@asynccontextmanager
async def environment(wanted: Wanted) -> AsyncIterator[Environment]:
    """Make the environment, and remove it at the end. Raises `CommandError` with uv's words."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=CACHE, prefix="env-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        python = folder / "env" / "bin" / "python"
        await must(["uv", "venv", "--quiet", "--python", wanted.python.path, folder / "env"], cwd=folder)
        done = await with_uv(wanted, folder, "install", "--python", python, "--requirements")
        if done.code:
            raise CommandError(done.tail)
        await must(["uv", "pip", "check", "--quiet", "--python", python], cwd=folder)
        if wanted.own_tests or wanted.cross_tests:
            await add_test_groups(wanted, folder, python)
        yield await describe(wanted, folder, python)


async def describe(wanted: Wanted, folder: Path, python: Path) -> Environment:
    """The environment that was made, with the name of what it holds."""
    there = await must(["uv", "pip", "freeze", "--quiet", "--python", python], cwd=folder)
    version = await must([python, "-I", "-VV"], cwd=folder)
    ours = [hashlib.sha256(pinned.file.read_bytes()).hexdigest() for pinned in wanted.wheels]
    versions = ", ".join(f"{pinned.wheel} {pinned.version}" for pinned in wanted.wheels)
    return Environment(
        python,
        folder,
        may_skip=wanted.resolution == "lowest",
        label=f"Python {wanted.python.name}, {wanted.resolution}: {versions}",
        digest=digest([wanted.resolution, version, there, *ours]),
    )


async def add_test_groups(wanted: Wanted, folder: Path, python: Path) -> None:
    """Add what the tests are run with, and change nothing of what is there.

    Beside the lowest versions that is the group `test` alone: the libraries of others, with which some tests
    compare, ask for newer ones, and those tests skip.
    """
    there = folder / "there.txt"
    frozen = await must(["uv", "pip", "freeze", "--quiet", "--python", python], cwd=folder)
    there.write_text("".join(f"{line}\n" for line in frozen.splitlines()))
    groups = [
        f"--group={pinned.house.tree}/packages/{pinned.wheel}/pyproject.toml:{group}"
        for pinned in wanted.wheels
        for group in groups_of(pinned.wheel, pinned.house.tree)
        if group == "test" or (wanted.resolution == "highest" and pinned.wheel in wanted.own_tests)
    ]
    if wanted.cross_tests:
        groups += [f"--group={ROOT}/pyproject.toml:{name}" for name in ("integration", "examples")]
    options = ["--quiet", "--python", str(python), "--constraints", str(there), "--only-binary=:all:"]
    links = {f"--find-links={pinned.house.dist}" for pinned in wanted.wheels}
    await must(["uv", "pip", "install", *options, *sorted(links), *groups], cwd=folder)
