"""A public signature that is written with a name that nobody can import is found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).parents[2] / ".ci" / "checks" / "api_names.py"
INNER = '''
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

Hidden = Literal["a", "b"]
Shown = Literal["c"]
"""One."""
T = TypeVar("T")

@dataclass(frozen=True)
class Part: ...

class Base:
    inherited: Part
    """One part."""

{public}
'''
HEAD = "from acme.inner import {name}\n__all__ = [{name!r}]\n"
SETTINGS = '[modules]\nacme = ["acme", "acme.shown"]\n'
SHOWN = "from acme.inner import Shown\n__all__ = ['Shown']\n"


def findings(root: Path, name: str, public: str, settings: str = SETTINGS) -> list[str]:
    """What the check says of a package whose top exports `name`, which `public` defines."""
    home = root / "packages" / "acme" / "src" / "acme"
    home.mkdir(parents=True)
    (home / "__init__.py").write_text(HEAD.format(name=name))
    (home / "inner.py").write_text(INNER.format(public=public))
    (home / "shown.py").write_text(SHOWN)
    (root / ".ci").mkdir()
    (root / ".ci" / "api.toml").write_text(settings)
    done = subprocess.run([sys.executable, CHECK, root], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    *lines, _ = done.stdout.splitlines()
    assert done.returncode == (1 if lines else 0)
    return lines


HIDING = {
    "a_parameter": (
        "f",
        "def f(a: Hidden | None) -> None: ...",
        "f: hidden: is written with acme.inner.Hidden",
    ),
    "a_result": ("f", "async def f() -> list[Part]: ...", "f: hidden: is written with acme.inner.Part"),
    "a_method": ("C", "class C:\n    def __init__(self, a: Part) -> None: ...", "C.__init__: hidden"),
    "a_field": ("C", 'class C:\n    a: "tuple[Part, ...]"\n    """Parts."""', "C.a: hidden"),
    "an_inherited_field": ("C", "class C(Base): ...", "Base.inherited: hidden"),
    "a_property": ("C", "class C:\n    @property\n    def a(self) -> Part: ...", "C.a: hidden"),
    "an_alias": ("A", "A = Callable[[Part], None]\n'What is called.'", "A: hidden"),
}


@pytest.mark.parametrize("case", HIDING)
def test_a_name_that_is_not_public_is_found(case: str, tmp_path: Path) -> None:
    name, public, words = HIDING[case]
    found = findings(tmp_path, name, public)
    assert len(found) == 1
    assert found[0].startswith(f"acme.inner.{words}")


@pytest.mark.parametrize(
    ("name", "public"),
    [
        ("f", "def f(a: Shown, b: T, c: dict[str, int]) -> Callable[[T], Shown]: ..."),
        ("C", "class C:\n    _a: Part\n    def _f(self, a: Hidden) -> None: ..."),
        ("A", "A: int = len(str(Part))\n'A length.'"),
    ],
)
def test_what_can_be_named_and_what_is_private_pass(name: str, public: str, tmp_path: Path) -> None:
    assert findings(tmp_path, name, public) == []


def test_an_opaque_name_passes_as_long_as_it_is_needed(tmp_path: Path) -> None:
    settings = SETTINGS + '[opaque]\n"acme.inner.Part" = "given and handed on"\n'
    assert findings(tmp_path / "used", "f", "def f() -> Part: ...", settings) == []
    [unused] = findings(tmp_path / "unused", "f", "def f() -> int: ...", settings)
    assert unused.startswith(".ci/api.toml: opaque: no public signature is written with acme.inner.Part")


FIELDS = '''
class Above:
    """`d` is there."""
    d: int
    e: int

class C(Above):
    """`a` is one."""
    a: int
    b: int
    """Two."""
    c: int
    _f: int
    def __init__(self) -> None:
        self.g = 7
        self.h = 8
        """Eight."""
    @property
    def i(self) -> int: ...
'''


def test_a_field_that_nothing_is_said_of_is_found_also_in_a_base(tmp_path: Path) -> None:
    assert findings(tmp_path, "C", FIELDS) == [
        f"acme.inner.{name}: untold: says nothing of what it holds" for name in ("Above.e", "C.c", "C.g")
    ]


def test_a_value_without_a_text_is_found(tmp_path: Path) -> None:
    assert findings(tmp_path, "A", "A = 5") == ["acme.inner.A: untold: says nothing of what it holds"]
