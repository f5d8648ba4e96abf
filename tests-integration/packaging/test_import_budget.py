"""What the import of a wheel loads: counted, not timed, with all that could be loaded installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.needs(
    "hermes-loop", "hermes-providers", "hermes-tools", "hermes-store", "hermes-batch"
)

# Of each wheel: the packages of others that it loads (what these load themselves depends on their versions),
# what of the standard library is loaded when it is needed, if ever, and the most modules of its own.
BUDGETS = [
    ("hermes_loop", "aiofiles anyio msgspec", "http multiprocessing sqlite3", 85),
    ("hermes_providers", "msgspec", "asyncio http logging socket sqlite3 ssl subprocess", 25),
    ("hermes_tools", "msgspec", "asyncio http logging socket sqlite3 ssl subprocess", 15),
    ("hermes_store", "aiofiles aiosqlite anyio msgspec", "http multiprocessing", 65),
    ("hermes_batch", "aiofiles msgspec", "http multiprocessing sqlite3", 45),
]


def loaded_after(*imports: str) -> set[str]:
    """The modules that a new interpreter has once these are imported."""
    code = "".join(f"import {name}\n" for name in (*imports, "sys")) + "print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def packages_of(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


@pytest.mark.parametrize(("wheel", "needs", "later", "own_modules"), BUDGETS, ids=[row[0] for row in BUDGETS])
def test_import_loads_no_more_than_it_needs(wheel: str, needs: str, later: str, own_modules: int) -> None:
    modules = loaded_after(wheel)
    loaded = packages_of(modules)
    known = packages_of(loaded_after(*needs.split(), "hermes_messages")) - {wheel}
    more = {name for name in loaded - known - sys.stdlib_module_names if not name.startswith("_")}
    assert more == {wheel}
    assert loaded >= set(needs.split())
    assert set(later.split()) & loaded == set(later.split()) & packages_of(loaded_after())
    own = sorted(name for name in modules if name.partition(".")[0] == wheel)
    assert 1 <= len(own) <= own_modules, own
