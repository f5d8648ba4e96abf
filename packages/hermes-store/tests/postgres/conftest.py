"""One PostgreSQL server for all tests here; each test gets a database schema of its own."""

from __future__ import annotations

import atexit
import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from hermes_store import SessionDB

sys.path.insert(0, str(Path(__file__).parents[4] / ".ci"))  # for the module `quiet_port`
sys.path.insert(0, str(Path(__file__).parents[1]))

from postgres.server import PACKAGE, MakeStore, Server, find_binaries

_numbers = count()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    binaries = find_binaries()
    if binaries is None:
        pytest.skip(f"needs a PostgreSQL server: apt-get install {PACKAGE}")
    if importlib.util.find_spec("psycopg") is None or importlib.util.find_spec("psycopg_pool") is None:
        pytest.skip("needs the extra 'postgres' of hermes-store: pip install 'hermes-store[postgres]'")
    # Not below pytest's own folder, which only its owner may enter.
    folder = Path(tempfile.mkdtemp(prefix="hermes-postgres-"))
    folder.chmod(0o755)
    started: list[Server] = []

    def clean_up() -> None:
        for server in started:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(clean_up)  # also where pytest itself is interrupted
    try:
        server = Server(binaries, folder)
        started.append(server)
        server.start_anywhere()
        yield server
    finally:
        clean_up()
        atexit.unregister(clean_up)


@pytest.fixture
def schema() -> str:
    """A schema that nobody has used."""
    return f"s{next(_numbers)}"


@pytest.fixture
def make_store(server: Server, schema: str) -> MakeStore:
    """Makes stores that all use the same sessions."""

    def make(**options: object) -> SessionDB:
        return SessionDB(server.dsn(), **{"schema": schema, **options})  # type: ignore[arg-type]

    return make
