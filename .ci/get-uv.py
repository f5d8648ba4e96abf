"""Print the path of a usable uv, fetching it first if this machine has none.

Needs nothing but Python 3.11: no pip, venv, git or curl. uv is in the dev group of the workspace, so uv.lock
holds the address, size and hash of every uv wheel; that file is the only place this script takes them from.

    python3 .ci/get-uv.py

Looks in this order: the folder that an earlier run filled, uv on the PATH (if its version is in the range of
the dev group), the network. A proxy is taken from HTTPS_PROXY, a private certificate from SSL_CERT_FILE.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - told before the import below fails on an older Python
    sys.exit("get-uv: Python 3.11 or newer is needed; name one with `make ... PYTHON=python3.12`")

import hashlib
import io
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
import tomllib
import urllib.error
import urllib.request
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, TypedDict

TRIES = 4
TIMEOUT_S = 60.0
"""Longest silence on a connection, not the time of the whole download."""


class Wheel(TypedDict):
    """The fields of one wheel in uv.lock that are used here."""

    url: str
    hash: str
    size: int


def fail(message: str) -> NoReturn:
    """Leave with one clear line."""
    sys.exit(f"get-uv: {message}")


def locked_uv(root: Path) -> tuple[str, list[Wheel]]:
    """The version and wheels of uv in the lock file."""
    lock = tomllib.loads((root / "uv.lock").read_text(encoding="utf-8"))
    for package in lock["package"]:
        if package["name"] == "uv":
            return package["version"], package["wheels"]
    fail("uv.lock does not hold uv: put it back into the dev group and run `uv lock`")


def wanted_range(root: Path) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Floor and ceiling of uv, as the dev group of the root pyproject.toml states them."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    for requirement in project["dependency-groups"]["dev"]:
        match = re.fullmatch(r"uv>=([0-9.]+),<([0-9.]+)", requirement)
        if match:
            return numbers(match[1]), numbers(match[2])
    fail("the dev group names no `uv>=FLOOR,<CEILING`")


def numbers(version: str) -> tuple[int, ...]:
    """A dotted version as comparable numbers."""
    return tuple(int(part) for part in version.split("."))


def on_path(floor: tuple[int, ...], ceiling: tuple[int, ...]) -> str | None:
    """A uv on the PATH whose version is in the range, else None."""
    found = shutil.which("uv")
    if found is None:
        return None
    try:
        answer = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.match(r"uv (\d+(?:\.\d+)*)", answer.stdout)
    fits = match is not None and floor <= numbers(match[1]) < ceiling
    return found if fits else None


def wheel_pattern(system: str, machine: str, libc: str) -> str:
    """What the name of a wheel for this platform contains."""
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine.lower(), machine.lower())
    if system == "Linux":
        return rf"{'manylinux' if libc == 'glibc' else 'musllinux'}_\d+_\d+_{machine}\b"
    if system == "Darwin":
        return rf"macosx_\d+_\d+_{'arm64' if machine == 'aarch64' else machine}\b"
    return r"\Z(?!)"  # matches nothing


def choose(wheels: Sequence[Wheel], system: str, machine: str, libc: str) -> Wheel:
    """The first wheel for this platform: they are sorted by name, so it is the one that demands the least."""
    pattern = wheel_pattern(system, machine, libc)
    for wheel in wheels:
        if re.search(pattern, wheel["url"].rsplit("/", 1)[-1]):
            return wheel
    fail(f"uv.lock has no uv wheel for {system} {machine} ({libc}); install uv another way, on the PATH")


def this_libc() -> str:
    """`glibc` or `musl`; what Python was linked against decides."""
    return "glibc" if platform.libc_ver()[0] == "glibc" else "musl"


def download(wheel: Wheel) -> bytes:
    """The wheel's bytes, checked against the lock file; tries again when the connection breaks."""
    name = wheel["url"].rsplit("/", 1)[-1]
    print(f"get-uv: downloading {name} ({wheel['size'] / 1e6:.0f} MB)", file=sys.stderr)
    trouble = ""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(2.0 ** (attempt - 1))
        try:
            with urllib.request.urlopen(wheel["url"], timeout=TIMEOUT_S) as response:
                content: bytes = response.read()
        except urllib.error.HTTPError as error:
            trouble = f"the registry answered {error.code} {error.reason}"
            if error.code < 500 and error.code != 429:
                break
        except (OSError, EOFError) as error:  # URLError, time-outs and torn connections are OSErrors
            trouble = str(getattr(error, "reason", "") or error)
        else:
            if len(content) == wheel["size"]:
                return checked(content, wheel["hash"], name)
            trouble = f"{len(content)} of {wheel['size']} bytes came"
    fail(f"could not download {name}: {trouble}; check the network, or put uv on the PATH")


def checked(content: bytes, expected: str, name: str) -> bytes:
    """`content`, if its hash is the locked one."""
    found = f"sha256:{hashlib.sha256(content).hexdigest()}"
    if found != expected:
        fail(f"{name} is not the file that uv.lock names (got {found}, want {expected}); nothing was kept")
    return content


def unpack(content: bytes, target: Path) -> None:
    """Put the binary in place in one step, so that a second run at the same time never sees half of it."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        member = next(name for name in archive.namelist() if name.endswith("/scripts/uv"))
        binary = archive.read(member)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix="uv-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(binary)
        Path(temporary).chmod(0o755)
        Path(temporary).replace(target)
    finally:
        Path(temporary).unlink(missing_ok=True)


def find_uv(root: Path) -> str:
    """The path of a uv that fits this workspace."""
    version, wheels = locked_uv(root)
    target = root / ".cache" / f"uv-{version}" / "uv"
    if target.exists():
        return str(target)
    found = on_path(*wanted_range(root))
    if found is not None:
        return found
    unpack(download(choose(wheels, platform.system(), platform.machine(), this_libc())), target)
    return str(target)


if __name__ == "__main__":
    print(find_uv(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1]).resolve()))
