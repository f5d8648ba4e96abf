"""Bring the workspace's environment up to date, then run a command in it.

    python3 .ci/environment.py COMMAND...

Standard library only: this is what runs first on a machine that has Python, make and nothing else. The
environment is the one in uv.lock, made with the Python that runs this script; uv never fetches another one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EVERYTHING = ("--all-packages", "--all-extras", "--all-groups")


class SetupError(Exception):
    """The environment could not be made; the message is one line for the user."""


def prepared() -> dict[str, str]:
    """The environment variables for uv and what it starts: uv on the PATH, this Python, a usable cache."""
    found = subprocess.run(
        [sys.executable, ROOT / ".ci/get-uv.py"], stdout=subprocess.PIPE, text=True, check=False
    )
    if found.returncode:
        sys.exit(found.returncode)
    env = dict(os.environ)
    env.pop("VIRTUAL_ENV", None)
    folder = ROOT / env.get("UV_PROJECT_ENVIRONMENT", ".venv")
    uv = str(Path(found.stdout.strip()).parent)
    env["PATH"] = os.pathsep.join([str(folder / "bin"), uv, env.get("PATH", os.defpath)])
    env["UV_PYTHON"] = sys.executable
    env["UV_PYTHON_DOWNLOADS"] = "never"
    if "UV_CACHE_DIR" not in env and not os.access(Path("~").expanduser(), os.W_OK):
        env["UV_CACHE_DIR"] = str(ROOT / ".cache" / "uv")
    return env


def sync(env: dict[str, str], *options: str) -> None:
    """Install what `options` select from the lock file; says what it downloads and else nothing.

    Raises SetupError with the innermost cause that uv names.
    """
    command = ["uv", "sync", "--frozen", *options]
    with subprocess.Popen(command, cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line.strip())
            if line.strip().startswith("Downloading "):
                print(line.rstrip(), file=sys.stderr, flush=True)
    if process.returncode:
        causes = [line for line in lines if re.match(r"(error|cause): ", line)]
        raise SetupError((causes or lines or ["uv failed without a word"])[-1])


def missing_wheels(env: dict[str, str], *options: str) -> tuple[bool, str]:
    """Whether `options` would install anything new, and uv's complaint if no wheel fits this machine."""
    command = ["uv", "sync", "--frozen", "--dry-run", *options]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    complaint = "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]
    return bool(re.search(r"^ \+ ", done.stderr, re.MULTILINE)), complaint


def run(env: dict[str, str], command: list[str]) -> None:
    """Become `command`, in the root of the workspace."""
    os.chdir(ROOT)
    sys.stdout.flush()
    os.execvpe(command[0], command, env)


def main() -> None:
    """The whole environment, then the command given."""
    env = prepared()
    try:
        sync(env, *EVERYTHING)
    except SetupError as error:
        sys.exit(f"could not set up the environment: {error}")
    run(env, sys.argv[1:])


if __name__ == "__main__":
    main()
