"""The wheels as a user gets them: built, looked into, and each installed alone.

Versions of foreign packages are those of uv.lock, so that a new release elsewhere does not break this test.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from built import ROOT, uv
from packaging.requirements import Requirement

MODULES = {
    "hermes-batch": {"hermes_batch", "batch_runner"},
    "hermes-loop": {"hermes_loop", "run_agent"},
    "hermes-messages": {"hermes_messages"},
    "hermes-providers": {"hermes_providers"},
    "hermes-store": {"hermes_store", "hermes_state"},
    "hermes-tools": {"hermes_tools"},
}
"""What each wheel must hold at its top: its package, and the drop-in module where it has one."""

IMPORT_ALL = """
import importlib, importlib.util, json, pkgutil, sys

def load(name):
    try:
        seen.append(importlib.import_module(name).__name__)
    except Exception as error:
        # Some modules say in words of their own which extra is missing.
        missing = error if isinstance(error, ModuleNotFoundError) else error.__context__
        if not isinstance(missing, ModuleNotFoundError) or missing.name.split(".")[0] not in extras:
            raise

own, foreign, extras = json.loads(sys.argv[1])
seen = []
for top in own:
    seen.append(importlib.import_module(top).__name__)
    path = importlib.import_module(top).__path__
    # What walk_packages can not import was given to `load` before, which knows what may be missing.
    for module in pkgutil.walk_packages(path, top + ".", onerror=lambda name: None):
        if not module.name.endswith("__main__"):
            load(module.name)
present = [name for name in foreign if importlib.util.find_spec(name)]
print(json.dumps([seen, present]))
"""


def project_of(package: str) -> dict[str, object]:
    data = tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text("utf-8"))
    project: dict[str, object] = data["project"]
    return project


def modules_of_extras(package: str) -> set[str]:
    """The import names that an extra brings in: only for want of one of these may a module fail to import.

    They are those of everything that the extras install here and a plain installation does not.
    """
    extras = project_of(package).get("optional-dependencies", {})
    assert isinstance(extras, dict)
    wanted = [requirement for extra in extras.values() for requirement in extra]
    plain = project_of(package).get("dependencies", [])
    assert isinstance(plain, list)
    always = installed_by(plain)
    only_extra = installed_by(wanted) - always
    provided = {
        name: {canonical(owner) for owner in owners}
        for name, owners in importlib.metadata.packages_distributions().items()
    }
    return {name for name, owners in provided.items() if owners & only_extra and not owners & always}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def installed_by(requirements: list[str]) -> set[str]:
    """The distributions that `requirements` bring in, the requirements of theirs included."""
    found: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement = waiting.pop()
        name, extras = canonical(requirement.name), frozenset(requirement.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        found.add(name)
        try:
            needed = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:  # for another platform
            continue
        for one in map(Requirement, needed):
            marker = one.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                waiting.append(one)
    return found


def wheel_of(dist: Path, package: str) -> Path:
    return next(dist.glob(f"{package.replace('-', '_')}-*.whl"))


def sdist_of(dist: Path, package: str) -> Path:
    return next(dist.glob(f"{package.replace('-', '_')}-*.tar.gz"))


def files_in(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}


def test_six_wheels_and_six_sdists_are_built(dist: Path) -> None:
    expected = {f"{name.replace('-', '_')}-{project_of(name)['version']}" for name in MODULES}
    assert {path.name.removesuffix("-py3-none-any.whl") for path in dist.glob("*.whl")} == expected
    assert {path.name.removesuffix(".tar.gz") for path in dist.glob("*.tar.gz")} == expected


@pytest.mark.parametrize("package", MODULES)
def test_a_wheel_holds_its_modules_typed_and_licensed_and_nothing_else(package: str, dist: Path) -> None:
    files = files_in(wheel_of(dist, package))
    metadata = f"{package.replace('-', '_')}-{project_of(package)['version']}.dist-info"
    assert {name.split("/")[0] for name in files} == MODULES[package] | {metadata}
    for module in MODULES[package]:
        assert f"{module}/__init__.py" in files
        assert f"{module}/py.typed" in files
    assert files[f"{metadata}/licenses/LICENSE"] == (ROOT / "LICENSE").read_bytes()
    unwanted = [
        name for name in files if "__pycache__" in name or Path(name).name.startswith(("test_", "conftest"))
    ]
    assert unwanted == []


@pytest.mark.parametrize("package", MODULES)
def test_a_wheel_holds_every_source_file(package: str, dist: Path) -> None:
    source = ROOT / "packages" / package / "src"
    expected = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert expected <= set(files_in(wheel_of(dist, package)))


@pytest.mark.parametrize("package", MODULES)
def test_an_sdist_builds_the_same_wheel(package: str, dist: Path, tmp_path: Path) -> None:
    uv("build", "--quiet", "--wheel", sdist_of(dist, package), "--out-dir", tmp_path)
    rebuilt, built = (
        {name: content for name, content in files_in(wheel_of(folder, package)).items() if is_content(name)}
        for folder in (tmp_path, dist)
    )
    assert rebuilt == built


def is_content(name: str) -> bool:
    """WHEEL names the version of the build tool, RECORD the hash of WHEEL; all else is ours."""
    return not name.endswith((".dist-info/WHEEL", ".dist-info/RECORD"))


@pytest.mark.parametrize("package", MODULES)
def test_an_sdist_has_readme_licence_and_no_foreign_files(package: str, dist: Path) -> None:
    with tarfile.open(sdist_of(dist, package)) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name.rstrip("/")}
    assert {"README.md", "LICENSE", "pyproject.toml"} <= names
    allowed = {"README.md", "LICENSE", "pyproject.toml", "pyproject.toml.orig", "PKG-INFO", "src"}
    assert {name.split("/")[0] for name in names} <= allowed


@pytest.mark.parametrize("package", MODULES)
def test_a_wheel_installs_and_imports_alone(
    package: str, dist: Path, locked_versions: Path, tmp_path: Path
) -> None:
    home = tmp_path / "env"
    python = home / "bin" / "python"
    uv("venv", "--quiet", "--python", sys.executable, home)
    options = ("--no-sources", "--find-links", dist, "--constraints", locked_versions, "--python", python)
    uv("pip", "install", "--quiet", *options, f"{package}=={project_of(package)['version']}")
    uv("pip", "check", "--quiet", "--python", python)

    siblings = set().union(*(MODULES[name] for name in MODULES if name not in {package, "hermes-messages"}))
    question = json.dumps(
        [sorted(MODULES[package]), sorted(siblings - MODULES[package]), sorted(modules_of_extras(package))]
    )
    answer = subprocess.run(
        [python, "-I", "-W", "error", "-c", IMPORT_ALL, question], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    imported, present = json.loads(answer.stdout)
    assert MODULES[package] <= set(imported)
    assert present == []
    assert "pytest" not in uv("pip", "list", "--python", python)
