"""Makes this folder's helper modules importable for its tests, and builds the wheels once for all of them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / ".ci"))  # for the module `all_checks`
sys.path.insert(0, str(Path(__file__).parent))

from built import uv


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All wheels and sdists, built once."""
    folder = tmp_path_factory.mktemp("dist")
    uv("build", "--quiet", "--all-packages", "--out-dir", folder)
    return folder


@pytest.fixture(scope="session")
def locked_versions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The foreign versions of uv.lock as a constraints file."""
    file = tmp_path_factory.mktemp("constraints") / "locked.txt"
    options = (
        "--all-packages",
        "--all-extras",
        "--no-hashes",
        "--no-emit-workspace",
        "--no-annotate",
        "--no-header",
    )
    file.write_text(uv("export", "--quiet", "--frozen", *options))
    return file
