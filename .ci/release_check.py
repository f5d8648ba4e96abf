"""Build every wheel and sdist as a release would, and hold the files against what they must be.

    python .ci/release_check.py [--out DIRECTORY] [--tag TAG] [--quick]

bytes      a second build, elsewhere, with other times and modes of its files, gives the same bytes
sdist      the wheel that is built from the sdist has the same bytes
metadata   `twine check --strict`
contents   `check-wheel-contents`; the wheel's modules, py.typed, licence, entry points, and nothing else
sbom       what the wheel asks for, in the locked versions, as CycloneDX 1.5, valid by its schema
lock       uv.lock fits all pyproject.toml
state      the checks `release_state`, `sibling_ranges` and `api_contract`

DIRECTORY (dist/ if not given) gets wheels, sdists, SBOMs and SHA256SUMS of a passed check; with --tag only
the files of the wheel that the tag names, whose version it must be. --quick leaves out `state`, which other
steps of `make test` check too.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / ".ci" / "checks"))

from releases import LAYERS, is_dated  # noqa: E402 - found through the line above
from sbom import write_sbom  # noqa: E402

STATE = ("release_state", "sibling_ranges", "api_contract")
OTHER_TIME = 1_000_000_000.0
KINDS = {".py", ".typed", ".html", ".js", ".css", ".jinja"}
"""The files that a module may hold."""


class CheckFailedError(Exception):
    """A file of the release is not what it must be; the message says which and how."""


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """The output of a command. Raises `CheckFailedError` with what it said."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CheckFailedError((done.stdout + done.stderr).strip())
    return done.stdout


def build(sources: Path, out: Path) -> None:
    """Wheels and sdists of all packages below `sources`, the wheels straight from the sources."""
    for wheel in LAYERS:
        run("uv", "build", "--quiet", "--sdist", "--wheel", "--no-sources", sources / wheel, "--out-dir", out)


def check_bytes(out: Path, work: Path) -> None:
    """A copy in another place, with other times and modes, gives the same files."""
    elsewhere = work / "elsewhere" / "packages"
    ignore = shutil.ignore_patterns("tests", "__pycache__")
    shutil.copytree(ROOT / "packages", elsewhere, ignore=ignore)
    for path in elsewhere.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
        os.utime(path, (OTHER_TIME, OTHER_TIME))
    again = work / "again"
    build(elsewhere, again)
    compare(out, again, "*.whl")
    compare(out, again, "*.tar.gz")


def check_sdists(out: Path, work: Path) -> None:
    """Each sdist builds the wheel that is there. It is unpacked first: uv builds folders itself, with its own
    version, and leaves an archive to the newest build backend, which names another version in WHEEL."""
    rebuilt = work / "rebuilt"
    for sdist in sorted(out.glob("*.tar.gz")):
        with tarfile.open(sdist) as archive:
            if hasattr(tarfile, "data_filter"):
                archive.extractall(work / "unpacked", filter="data")
            else:  # Python before 3.11.4, as in Debian 12
                archive.extractall(work / "unpacked")
        folder = work / "unpacked" / sdist.name.removesuffix(".tar.gz")
        run("uv", "build", "--quiet", "--wheel", folder, "--out-dir", rebuilt)
    compare(out, rebuilt, "*.whl")


def compare(first: Path, second: Path, pattern: str) -> None:
    """The same names and bytes in both folders, and at least one. Raises `CheckFailedError`."""
    digests = [{path.name: digest(path) for path in folder.glob(pattern)} for folder in (first, second)]
    if not digests[0] or digests[0] != digests[1]:
        names = sorted(name for name, _ in digests[0].items() ^ digests[1].items())
        raise CheckFailedError(f"not the same bytes: {', '.join(dict.fromkeys(names)) or 'no files'}")


def digest(path: Path) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_metadata(out: Path, _work: Path) -> None:
    """As the registry would read it."""
    files = sorted([*out.glob("*.whl"), *out.glob("*.tar.gz")])
    run(sys.executable, "-m", "twine", "check", "--strict", *files)


def check_contents(out: Path, _work: Path) -> None:
    """What is in the wheels."""
    wheels = sorted(out.glob("*.whl"))
    # W009: more than one module at the top, which the wheels with a drop-in module are to have.
    command = Path(sys.executable).with_name("check-wheel-contents")
    run(command, "--no-config", "--ignore", "W009", *wheels)
    for wheel in wheels:
        problems = list(content_problems(wheel))
        if problems:
            raise CheckFailedError(f"{wheel.name}: {'; '.join(problems)}")


def content_problems(wheel: Path) -> Iterator[str]:
    """What is in a wheel and should not be, or is not and should."""
    package = wheel.name.split("-")[0].replace("_", "-")
    data = tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text("utf-8"))
    named = data.get("tool", {}).get("uv", {}).get("build-backend", {}).get("module-name", [])
    modules = {named} if isinstance(named, str) else set(named)
    info = "-".join(wheel.name.split("-")[:2]) + ".dist-info"
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    expected = {f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "licenses/LICENSE")}
    if data["project"].keys() & {"scripts", "entry-points"}:
        expected.add(f"{info}/entry_points.txt")
    expected |= {f"{module}/{name}" for module in modules for name in ("__init__.py", "py.typed")}
    yield from (f"{name} is missing" for name in sorted(expected - files.keys()))
    for name in sorted(files):
        inside = name.split("/")[0] in modules and Path(name).suffix in KINDS
        test = Path(name).name.startswith(("test_", "conftest")) or "__pycache__" in name
        if (not inside and name not in expected) or test:
            yield f"{name} does not belong there"
    yield from record_problems(files, f"{info}/RECORD")


def record_problems(files: dict[str, bytes], record: str) -> Iterator[str]:
    """RECORD names every file with its hash, and no other."""
    listed: dict[str, str] = {}
    for line in files.get(record, b"").decode().splitlines():
        name, _, rest = line.partition(",")
        listed[name] = rest.split(",")[0]
    for name, content in files.items():
        hashed = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        if name != record and listed.get(name) != f"sha256={hashed}":
            yield f"{name} is not what RECORD says"
    yield from (f"{name} is in RECORD only" for name in sorted(listed.keys() - files.keys()))


def check_sboms(out: Path, _work: Path) -> None:
    """One SBOM beside each wheel."""
    for wheel in sorted(out.glob("*.whl")):
        package = wheel.name.split("-")[0].replace("_", "-")
        exported = run(
            "uv",
            "export",
            "--quiet",
            "--frozen",
            "--no-dev",
            "--format",
            "cyclonedx1.5",
            "--package",
            package,
        )
        problem = write_sbom(exported, wheel)
        if problem:
            raise CheckFailedError(f"the SBOM of {wheel.name}: {problem}")


def check_lock(_out: Path, _work: Path) -> None:
    """The lock file is what uv would write now."""
    run("uv", "lock", "--check", "--quiet")


def check_state(_out: Path, _work: Path) -> None:
    """The checks on versions, ranges and surfaces."""
    for name in STATE:
        run(sys.executable, ROOT / ".ci" / "checks" / f"{name}.py")


Check = Callable[[Path, Path], None]
CHECKS: dict[str, Check] = {
    "state": check_state,
    "lock": check_lock,
    "metadata": check_metadata,
    "contents": check_contents,
    "sdist": check_sdists,
    "bytes": check_bytes,
    "sbom": check_sboms,
}


def wheel_of_tag(tag: str) -> str:
    """The wheel that a tag names. Exits if there is none, or its version is not that of the sources."""
    wheel, _, version = tag.rpartition("-v")
    file = ROOT / "packages" / wheel / "pyproject.toml"
    if wheel not in LAYERS or not file.is_file():
        sys.exit(f"{tag} names no wheel of the workspace: tags are WHEEL-vVERSION")
    found = tomllib.loads(file.read_text("utf-8"))["project"]["version"]
    if found != version:
        sys.exit(f"{tag} is not the version of the sources, {found}")
    changelog = (file.parent / "CHANGELOG.md").read_text("utf-8")
    if not is_dated(changelog, version):
        sys.exit(f"{tag}: the changelog gives {version} no date")
    return wheel


def deliver(built: Path, out: Path, only: str | None) -> None:
    """Put the files of a passed check, and their sums, into `out`."""
    out.mkdir(parents=True, exist_ok=True)
    prefix = "" if only is None else only.replace("-", "_") + "-"
    files = sorted(path for path in built.iterdir() if path.name.startswith(prefix))
    files = [path for path in files if path.name.endswith((".whl", ".tar.gz", ".cdx.json"))]
    for path in files:
        shutil.copyfile(path, out / path.name)
    (out / "SHA256SUMS").write_text("".join(f"{digest(path)}  {path.name}\n" for path in files), "utf-8")


def main() -> None:
    """Build, check, deliver. Exits 1 if any check fails; then nothing is delivered."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--tag")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    only = wheel_of_tag(given.tag) if given.tag else None
    failed = []
    with tempfile.TemporaryDirectory() as place:
        built = Path(place) / "built"
        build(ROOT / "packages", built)
        for name, check in CHECKS.items():
            if given.quick and name == "state":
                continue
            started = time.monotonic()
            try:
                check(built, Path(place))
            except CheckFailedError as error:
                failed.append(name)
                print(f"{name:9} FAILED\n{error}", flush=True)
            else:
                print(f"{name:9} ok  {time.monotonic() - started:5.1f} s", flush=True)
        if failed:
            sys.exit(f"not fit for a release: {', '.join(failed)}")
        deliver(built, given.out, only)
    print(f"in {given.out}")


if __name__ == "__main__":
    main()
