"""A program that stands where docker would, and executors whose tasks have a container."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_messages.protocols import ExecutorOptions
from hermes_tools import build_executor

__all__ = ["BOTH", "EVERYWHERE", "HOST_FIRST", "Ask", "Docker", "contained", "no_own_files", "rounds"]

FAKE = Path(__file__).with_name("fake_docker.py")
PROGRAMS = """
awk cat chmod chown cp cut dd dirname echo env find grep head id kill ln ls mkdir mkfifo mv ps pwd readlink rm
sed seq sh sleep sort stat sync tail tar test touch tr true wc xargs
""".split()  # noqa: SIM905 - a list of one word a line would be longer than the rest


Ask = Callable[..., list[str]]
NIGHTLY = os.environ.get("HERMES_TEST_PROFILE") == "nightly"


def _asked(*places: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("ask", places, indirect=True)


BOTH = _asked("host", "busybox")
"""Where `ask` asks: this machine, a container with busybox alone, one with what is on this machine."""
EVERYWHERE = _asked("host", "busybox", "userland here") if NIGHTLY else BOTH
HOST_FIRST = BOTH if NIGHTLY else _asked("host")
"""For what is the same code in both places, once files are found and read there."""


class Docker:
    """The fake, as an executable of its own, and what it was asked."""

    def __init__(self, directory: Path) -> None:
        self.state = directory / "state"
        self.state.mkdir()
        self.cli = directory / "docker"
        self.cli.write_text(f"#!{sys.executable} -IS\n" + FAKE.read_text())
        self.cli.chmod(0o755)

    def make_image(self) -> Path:
        """Give containers files of their own: what is made in the directory, and busybox for a userland."""
        image = self.state / "image"
        programs = image / "bin"
        programs.mkdir(parents=True)
        (image / "tmp").mkdir()
        shutil.copy(shutil.which("busybox") or "", programs / "busybox")
        for name in PROGRAMS:
            (programs / name).symlink_to("busybox")
        return image

    def use_own_shell(self) -> Path:
        """Let the image have this machine's shell, as busybox's may not look for programs in files: where it
        keeps them."""
        programs = self.state / "image/bin"
        shell = Path("/bin/dash" if Path("/bin/dash").exists() else "/bin/sh").resolve()
        (programs / "sh").unlink()
        shutil.copy(shell, programs / "sh")
        told = subprocess.run(["ldd", shell], capture_output=True, check=True, text=True).stdout
        for library in {word for word in told.split() if word.startswith("/")}:
            place = self.state / f"image{library}"
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, place)
        return programs

    def root(self) -> Path:
        """The files of the one container that runs, its working directory left out."""
        [root] = (self.state / "roots").iterdir()
        return root

    def asked(self, command: str) -> list[list[str]]:
        log = self.state / "log"
        # The last line may still be in writing.
        lines = log.read_text().split("\n")[:-1] if log.exists() else []
        return [words for line in lines if (words := json.loads(line)["words"])[0] == command]

    def environments(self) -> list[dict[str, str]]:
        return [json.loads(line)["environment"] for line in (self.state / "log").read_text().splitlines()]

    def containers(self) -> list[str]:
        place = self.state / "containers"
        return sorted(found.name for found in place.iterdir()) if place.exists() else []


@functools.cache
def no_own_files() -> str:
    """Why the fake can not give a container files of its own here, in words for a skipped test; or ""."""
    for program in ("busybox", "unshare", "mount"):
        if shutil.which(program) is None:
            return f"{program} is not installed (Debian: busybox-static, util-linux, mount)"
    options = ["--mount"] if os.geteuid() == 0 else ["--mount", "--map-root-user"]
    trial = 'mount --rbind /dev "$1/dev" && exec unshare --root "$1" /busybox true'
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "dev").mkdir()
        shutil.copy(shutil.which("busybox") or "", directory)
        done = subprocess.run(
            ["unshare", *options, "/bin/sh", "-c", trial, "trial", directory],
            capture_output=True, check=False, text=True,
        )  # fmt: skip
    if done.returncode == 0:
        return ""
    if "busybox" in done.stderr:
        return f"busybox is not one that runs alone: {done.stderr.strip()} (Debian: busybox-static)"
    return f"platform: this user can not give a process files of its own here: {done.stderr.strip()}"


def contained(bench: Any, *toolsets: str, image: str = "here", **more: Any) -> Any:
    """An executor whose tasks have a container; its settings as plain data, as an agent gives them."""
    return build_executor(
        toolsets or ("terminal",),
        ExecutorOptions(cwd=str(bench.workspace), settings={"container": {"image": image, **more}}),
    )


def rounds(bench: Any, run_async: Any, *calls: Any, toolsets: tuple[str, ...] = (), **more: Any) -> list[Any]:
    """The results of calls that are made one after the other."""

    async def main() -> list[Any]:
        executor = contained(bench, *toolsets, **more)
        await executor.open()
        try:
            outcomes = [await bench.outcome(executor, call) for call in calls]
            return [outcome.results[0] for outcome in outcomes]
        finally:
            await executor.close()

    found: list[Any] = run_async(main())
    return found
