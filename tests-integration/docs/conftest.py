"""What the code blocks of the documentation see when they run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / ".ci"))  # for the modules `browser` and `all_checks`

KEPT_VARIABLES = ("LANG", "SSL_CERT_FILE", "HERMES_TEST_PROFILE")


@pytest.fixture
def doc_environment(tmp_path: Path) -> dict[str, str]:
    """The environment variables of a block: an empty HOME, this Python first on the PATH, no API key.

    A block that names a model host gets a real counterpart on loopback here: start the server in this fixture
    (make it a generator then) and add the variables that lead the provider to it, such as its base URL and a
    key that only the counterpart knows.
    """
    home = tmp_path / "home"
    home.mkdir()
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    path = f"{Path(sys.executable).parent}{os.pathsep}/usr/bin{os.pathsep}/bin"
    return kept | {"HOME": str(home), "PATH": path, "PYTHONWARNINGS": "error"}
