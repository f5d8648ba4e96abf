"""What the import of this wheel loads: counted, not timed."""

from __future__ import annotations

import subprocess
import sys

WHEEL = "hermes_store"
NEEDS = {"aiofiles", "aiosqlite", "anyio", "msgspec"}
"""The packages of others that it loads. What these load themselves depends on their versions."""
LATER = {"http", "multiprocessing"}
"""Loaded when it is needed, if ever."""
OWN_MODULES = 65


def loaded_after(*imports: str) -> set[str]:
    """The modules that a new interpreter has once these are imported."""
    code = "".join(f"import {name}\n" for name in (*imports, "sys")) + "print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def packages_of(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def test_import_loads_no_packages_but_those_it_needs() -> None:
    loaded = packages_of(loaded_after(WHEEL))
    known = packages_of(loaded_after(*NEEDS, "hermes_messages")) - {WHEEL}
    more = {name for name in loaded - known - sys.stdlib_module_names if not name.startswith("_")}
    assert more == {WHEEL}
    assert loaded >= NEEDS
    assert LATER & loaded == LATER & packages_of(loaded_after())


def test_import_loads_a_bounded_number_of_its_own_modules() -> None:
    own = [name for name in loaded_after(WHEEL) if name.partition(".")[0] == WHEEL]
    assert 1 <= len(own) <= OWN_MODULES, sorted(own)
