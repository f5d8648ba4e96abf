"""The checks over packages and files find each thing that they are there for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PROJECT = """
[project]
name = "hermes-{name}"
version = "{version}"
dependencies = [{dependencies}]

[dependency-groups]
test = []

[tool.uv.build-backend]
module-name = "hermes_{name}"
"""


def run_check(name: str, root: Path) -> tuple[int, str]:
    """Exit code and output of one check over `root`."""
    done = subprocess.run(
        [sys.executable, ROOT / ".ci/checks" / f"{name}.py", root],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def make_member(root: Path, name: str, version: str = "0.1.0", dependencies: str = "") -> Path:
    """A member that breaks no rule."""
    folder = root / "packages" / f"hermes-{name}"
    module = folder / "src" / f"hermes_{name}"
    module.mkdir(parents=True)
    (module / "__init__.py").write_text('"""Example."""\n\n__all__: list[str] = []\n')
    (module / "py.typed").touch()
    (folder / "pyproject.toml").write_text(
        PROJECT.format(name=name, version=version, dependencies=dependencies), encoding="utf-8"
    )
    (folder / "LICENSE").write_text("free\n")
    (folder / "README.md").write_text("# Example\n")
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n## {version} (unreleased)\n")
    return folder


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A workspace of two members that breaks no rule."""
    (tmp_path / "LICENSE").write_text("free\n")
    (tmp_path / ".gitignore").write_text("ignored/\n*.log\n")
    make_member(tmp_path, "messages", "0.1.3")
    make_member(tmp_path, "loop", dependencies='"hermes-messages>=0.1,<0.2"')
    return tmp_path


def test_a_sound_tree_is_clean(tree: Path) -> None:
    assert run_check("sibling_ranges", tree) == (0, "sibling ranges: clean\n")
    assert run_check("house_rules", tree) == (0, "house rules: clean\n")


def edit(file: str, old: str, new: str) -> Callable[[Path], None]:
    """A change of one file of hermes-loop."""

    def change(folder: Path) -> None:
        text = (folder / file).read_text()
        assert old in text
        (folder / file).write_text(text.replace(old, new))

    return change


MEMBER_FAULTS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "no_ceiling": ("range", edit("pyproject.toml", ">=0.1,<0.2", ">=0.1")),
    "no_floor": ("range", edit("pyproject.toml", ">=0.1,<0.2", "<0.2")),
    "no_range": ("range", edit("pyproject.toml", ">=0.1,<0.2", "")),
    "floor_too_high": ("range", edit("pyproject.toml", ">=0.1,<0.2", ">=0.1.4,<0.2")),
    "ceiling_too_low": ("range", edit("pyproject.toml", ">=0.1,<0.2", ">=0.1,<0.1.3")),
    "other_license": ("license", edit("LICENSE", "free", "dear")),
    "no_readme": ("readme", lambda folder: (folder / "README.md").unlink()),
    "old_changelog": ("changelog", edit("CHANGELOG.md", "0.1.0", "0.0.9")),
    "untyped": ("py.typed", lambda folder: (folder / "src/hermes_loop/py.typed").unlink()),
    "no_test_group": ("test-group", edit("pyproject.toml", "test = []", "")),
    "tool_table": ("tool-table", edit("pyproject.toml", "[tool.uv", "[tool.ruff]\n[tool.uv")),
    "module_not_shipped": ("module-name", edit("pyproject.toml", '"hermes_loop"', "[]")),
    "module_not_there": (
        "module-name",
        edit("pyproject.toml", '"hermes_loop"', '["hermes_loop", "run_agent"]'),
    ),
}


@pytest.mark.parametrize("fault", MEMBER_FAULTS)
def test_a_member_fault_is_found(fault: str, tree: Path) -> None:
    rule, change = MEMBER_FAULTS[fault]
    change(tree / "packages/hermes-loop")
    code, output = run_check("sibling_ranges", tree)
    assert code == 1
    assert f": {rule}: " in output
    assert output.endswith("sibling ranges: 1 found\n")


SOURCE_FAULTS = {
    "getattr": "x = getattr(object(), 'a', None)\n",
    "length": "".join(f"x{n} = {n}\n" for n in range(451)),
    "length_of_function": "def f() -> None:\n" + "    print()\n" * 81,
    "words_of_machine": "# see /" + "work/main\n",
    "words_of_home": "# see /" + "home/ada/x\n",
    "words_of_registry": "# from py" + "pi.org\n",
    "words_of_package": "# from files.python" + "hosted.org\n",
}


@pytest.mark.parametrize("fault", SOURCE_FAULTS)
def test_a_source_fault_is_found(fault: str, tree: Path) -> None:
    (tree / "packages/hermes-loop/src/hermes_loop/faulty.py").write_text(SOURCE_FAULTS[fault])
    code, output = run_check("house_rules", tree)
    assert code == 1
    assert f"faulty.py{'' if fault == 'length' else ':1'}: {fault.split('_')[0]}: " in output
    assert output.endswith("house rules: 1 found\n")


@pytest.mark.parametrize(
    ("handler", "found"),
    [
        ("except Exception:\n    pass", True),
        ("except (OSError, BaseException) as error:\n    raise ValueError from error", True),
        ("except Exception:  # the host's own code\n    pass", False),
        ("except BaseException:\n    print()\n    raise", False),
        ("except OSError:\n    pass", False),
    ],
)
def test_a_broad_except_says_why_unless_it_raises_again(tree: Path, handler: str, found: bool) -> None:
    (tree / "packages/hermes-loop/src/hermes_loop/faulty.py").write_text(f"try:\n    print()\n{handler}\n")
    code, output = run_check("house_rules", tree)
    assert (code, "faulty.py:3: broad: " in output) == (int(found), found)


def test_a_long_signature_is_no_long_function(tree: Path) -> None:
    parameters = "".join(f"    p{n}: int = 0,\n" for n in range(100))
    source = f"def f(\n{parameters}) -> None:\n" + "    print()\n" * 80
    (tree / "packages/hermes-loop/src/hermes_loop/wide.py").write_text(source)
    assert run_check("house_rules", tree)[0] == 0


def test_a_package_that_exports_nothing_by_name_is_found(tree: Path) -> None:
    (tree / "packages/hermes-loop/src/hermes_loop/__init__.py").write_text("x = 1\n")
    assert "exports: no __all__" in run_check("house_rules", tree)[1]


def test_words_are_looked_for_in_every_file_but_ignored_ones(tree: Path) -> None:
    word = "/" + "root/.config\n"
    for folder in ("ignored", "docs"):
        (tree / folder).mkdir()
    for name in ("ignored/a.md", "docs/a.log", "docs/a.md"):
        (tree / name).write_text(word)
    (tree / "docs/a.bin").write_bytes(b"\0" + word.encode())
    code, output = run_check("house_rules", tree)
    assert code == 1
    assert output.startswith("docs/a.md:1: words: ")
    assert output.endswith("house rules: 1 found\n")


def test_only_the_lock_file_names_registries(tree: Path) -> None:
    (tree / "uv.lock").write_text("https://py" + "pi.org/simple\n")
    assert run_check("house_rules", tree)[0] == 0
    (tree / "other.lock").write_text("https://py" + "pi.org/simple\n")
    assert run_check("house_rules", tree)[0] == 1


@pytest.mark.parametrize(
    "line",
    [
        "import logging; logging.info('hello')",
        "import logging; logging.getLogger().warning('hello')",
        "import logging; logger = logging.getLogger('app')",
        "from logging import getLogger; logger = getLogger('hermes_loopholes')",
        "import logging; logging.basicConfig()",
        "import logging; logging.getLogger(__name__).addHandler(logging.NullHandler())",
        "import logging; logging.getLogger(__name__).setLevel(10)",
        "from logging import StreamHandler as Loud; handler = Loud()",
    ],
)
def test_a_package_that_sets_logging_up_is_found(tree: Path, line: str) -> None:
    module = tree / "packages/hermes-loop/src/hermes_loop/loud.py"
    module.write_text(f'"""Loud."""\n\n{line}\n')
    code, output = run_check("house_rules", tree)
    assert code == 1
    assert "logging:" in output


def test_a_logger_of_the_package_breaks_no_rule(tree: Path) -> None:
    module = tree / "packages/hermes-loop/src/hermes_loop/quiet.py"
    names = ("__name__", '"hermes_loop"', '"hermes_loop.rows"')
    lines = "".join(f"logging.getLogger({name}).warning('x')\n" for name in names)
    module.write_text(f'"""Quiet."""\n\nimport logging\n\n{lines}')
    assert run_check("house_rules", tree) == (0, "house rules: clean\n")
