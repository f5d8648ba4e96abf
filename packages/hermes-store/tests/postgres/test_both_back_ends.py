"""What the tests beside this folder ask of SQLite, asked of PostgreSQL.

Every test there that looks at its sessions through `SessionDB` only runs here too, each file that it names
being a schema of its own. A test that looks into the file or into SQLite's back end is left out; which ones
is read from the names that its code uses.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import pytest
from _pytest.mark.structures import ParameterSet

from hermes_store import SessionDB
from postgres.server import Server

OWN = {
    f"test_{name}"
    for name in (
        "against_model",
        "cancellation",
        "changed_files",
        "conformance",
        "faults",
        "forks",
        "full_disks",
        "lifecycle",
        "processes",
    )
}
"""Modules about what only SQLite does, and those that have a counterpart here."""
MODULES = sorted(path.stem for path in Path(__file__).parents[1].glob("test_*.py") if path.stem not in OWN)
ONLY_SQLITE = {
    "sqlite3",
    "SqliteBackend",
    "SqliteOptions",
    "UnitQueue",
    "WRITES_BEFORE_INDEXING",
    "to_index_text",
    "subprocess",
    "threading",
    "journal",
    "mkfifo",
    # Looking at the file, or at a copy of it.
    "backup",
    "open",
    "read_bytes",
    "set_aside",
    "stat",
    "write_bytes",
}


def load(name: str) -> ModuleType:
    path = Path(__file__).parents[1] / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"both_back_ends_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)


def names_used(module: ModuleType, function: Callable[..., object], seen: set[str]) -> set[str]:
    """All names that the function uses, itself or through helpers of its module."""
    inner = inspect.unwrap(function)
    hypothesis = vars(inner).get("hypothesis")
    code = (hypothesis.inner_test if hypothesis is not None else inner).__code__
    for name in set(names_in(code)) - seen:
        seen.add(name)
        helper = vars(module).get(name)
        if isinstance(helper, FunctionType) and helper.__module__ == module.__name__:
            names_used(module, helper, seen)
        elif isinstance(helper, type) and helper.__module__ == module.__name__:
            for method in vars(helper).values():
                if isinstance(method, FunctionType):
                    names_used(module, method, seen)
    return seen


def portable_tests() -> Iterator[ParameterSet]:
    for name in MODULES:
        module = load(name)
        for test_name, function in vars(module).items():
            if not test_name.startswith("test_") or not callable(function):
                continue
            used = names_used(module, function, set())
            if "SessionDB" in used and not used & ONLY_SQLITE:
                for number, case in enumerate(cases(function)):
                    which = f"-{number}" if case else ""
                    yield pytest.param(module, function, case, id=f"{name}-{test_name[5:]}{which}")


def cases(function: Callable[..., None]) -> list[dict[str, object]]:
    """The arguments that `pytest.mark.parametrize` gives the test, by name, one set for each of its runs."""
    found: list[dict[str, object]] = [{}]
    for mark in getattr(function, "pytestmark", ()):
        if mark.name == "parametrize":
            names, rows = mark.args
            one_name = isinstance(names, str) and "," not in names
            names = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
            found = [
                case | dict(zip(names, (row,) if one_name else row, strict=True))
                for case in found
                for row in rows
            ]
    return found


@pytest.mark.parametrize(("module", "function", "case"), list(portable_tests()))
def test_asked_of_postgres(
    module: ModuleType,
    function: Callable[..., None],
    case: dict[str, object],
    server: Server,
    schema: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def store(path: Path, **options: object) -> SessionDB:
        digest = sha256(str(path).encode()).hexdigest()[:16]
        return SessionDB(server.dsn(), schema=f"{schema}_{digest}", **options)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "SessionDB", store)
    wanted = inspect.signature(function).parameters
    function(**case, **{name: request.getfixturevalue(name) for name in wanted if name not in case})
