from __future__ import annotations

import ast
import doctest
import importlib
import pkgutil
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import hermes_messages

MODULES = [
    name
    for _, name, _ in pkgutil.walk_packages(hermes_messages.__path__, "hermes_messages.")
    if ".testing" not in name
]
README = Path(__file__).parents[1] / "README.md"


def test_public_names_are_a_tested_list() -> None:
    assert sorted(hermes_messages.__all__) == sorted(set(hermes_messages.__all__))
    for name in hermes_messages.__all__:
        assert getattr(hermes_messages, name) is not None
    assert set(hermes_messages.__all__) <= set(dir(hermes_messages))


def test_lazy_names_are_those_of_their_modules() -> None:
    for name, module in hermes_messages._LAZY.items():
        assert getattr(hermes_messages, name) is vars(importlib.import_module(module))[name]
        assert name in hermes_messages.__all__


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        hermes_messages.nonsense  # noqa: B018


@pytest.mark.parametrize("name", MODULES)
def test_every_module_lists_its_names_and_its_examples_run(name: str) -> None:
    module = importlib.import_module(name)
    if not name.rpartition(".")[2].startswith("_"):
        for public in module.__all__:
            assert hasattr(module, public)
    assert doctest.testmod(module).failed == 0


def test_the_package_docstring_is_a_program_that_runs() -> None:
    result = doctest.testmod(hermes_messages)
    assert result.attempted > 5
    assert result.failed == 0


def test_readme_blocks_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        subprocess.run([sys.executable, "-I", "-c", block], check=True, timeout=60)


def test_readme_names_every_public_module() -> None:
    listed = set(re.findall(r"`(hermes_messages(?:\.\w+)*|\w+)`", README.read_text("utf-8")))
    helpers = {
        "openai_json_reading",
        "openai_parts",
        "openai_quirks",
        "openai_reading",
        "repair_merging",
        "repair_pairing",
        "strangers",
    }
    helpers |= {"trajectory_text", "transcript_rules", "call_assembly", "finish_words"}
    top = {name.partition(".")[2].partition(".")[0] for name in MODULES} - helpers
    assert top - listed == set()


def modules_after(code: str) -> set[str]:
    """The top-level modules that are loaded once `code` ran in a new interpreter."""
    report = code + "print(*{name.partition('.')[0] for name in sys.modules})"
    command = [sys.executable, "-I", "-c", report]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return set(done.stdout.split())


def test_import_needs_nothing_but_msgspec_and_no_event_loop() -> None:
    code = (
        "import sys, hermes_messages as h\n"
        "[getattr(h, name) for name in h.__all__]\n"
        "import hermes_messages.protocols\n"
    )
    loaded = modules_after(code) - modules_after("import sys\n")
    foreign = {
        name
        for name in loaded
        if name not in sys.stdlib_module_names and name not in {"hermes_messages", "typing_extensions"}
    }
    assert {name for name in foreign if not name.startswith(("_", "msgspec"))} == set()
    assert loaded.isdisjoint({"asyncio", "socket", "subprocess", "threading", "logging", "sqlite3"})


def test_no_module_does_io_or_prints() -> None:
    for path in Path(hermes_messages.__path__[0]).rglob("*.py"):
        if "testing" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"open", "print", "input"}, path


def cpu_seconds(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-I", "-c", code], check=True, timeout=60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_importing_costs_at_most_half_more_than_msgspec_alone() -> None:
    for code in ("import msgspec", "import hermes_messages"):
        cpu_seconds(code)
    ratios = [
        min(cpu_seconds("import hermes_messages") for _ in range(6))
        / min(cpu_seconds("import msgspec") for _ in range(6))
        for _ in range(3)
    ]
    assert min(ratios) <= 1.5
