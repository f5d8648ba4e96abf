"""A small package, and edits of it that break who uses it, or not: the contract check is tried with them."""

from __future__ import annotations

from pathlib import Path

HEAD = """
from __future__ import annotations
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple, Protocol, TypedDict, overload, runtime_checkable
from msgspec import Struct
"""
JOINTS = """
__all__ = ["Store", "Supports"]

class Store(Protocol):
    @property
    def name(self) -> str: ...
    async def get(self, key: str) -> str | None: ...
    async def put(self, key: str, value: str, *, sure: bool = False) -> None: ...

@runtime_checkable
class Supports(Protocol):
    def count(self) -> int: ...
"""
ACME = """
from acme.joints import Store

__all__ = [
    "Answer", "Big", "Colour", "Either", "Mode", "Options", "Point", "Row", "Small", "Store", "Thing",
    "either", "greet", "stream",
]

class Small(Struct, frozen=True, tag="small"):
    size: int
    note: str = ""

class Big(Struct, frozen=True, tag="big"):
    size: int

Either = Small | Big
Mode = Literal["slow", "fast"]

class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"

class Options(Struct, frozen=True, kw_only=True):
    depth: int = 1
    wide: bool = False

@dataclass
class Point:
    x: int
    y: int = 0

class Row(NamedTuple):
    key: str
    value: str

class Answer(TypedDict):
    text: str
    cost: float | None

class _Base:
    def close(self) -> None:
        return None

class Thing(_Base, Exception):
    def __init__(self, name: str, size: int = 1) -> None:
        self.name: str | None = name
        self._hidden = size

    @property
    def size(self) -> int:
        return self._hidden

    def grow(self, by: int, *, fast: bool = False) -> None:
        self._hidden += by

def greet(name: str, /, greeting: str = "hello", *, loud: bool = False) -> str:
    return greeting

@overload
def either(value: int) -> Small: ...
@overload
def either(value: str) -> Big: ...
def either(value: int | str) -> Either:
    raise NotImplementedError

async def stream(names: Sequence[str]) -> AsyncIterator[str]:
    yield names[0]
"""
PYPROJECT = """
[project]
name = "acme"
version = "{version}"
requires-python = ">=3.11"

[project.optional-dependencies]
fast = ["uvloop"]

[project.entry-points."acme.stores"]
plain = "acme:Thing"
"""

Edit = tuple[str, str, str]
"""In which file, what, and what stands there instead."""


def acme(old: str, new: str) -> Edit:
    return ("acme/__init__.py", old, new)


def joints(old: str, new: str) -> Edit:
    return ("acme/joints.py", old, new)


def project(old: str, new: str) -> Edit:
    return ("pyproject.toml", old, new)


BREAKING: dict[str, tuple[Edit, str]] = {
    "a_name_is_gone": (acme('"Thing",', ""), "acme.Thing: was removed"),
    "a_class_is_called_otherwise": (acme('"Thing",', '"Stuff",'), "acme.Thing: was removed"),
    "a_method_is_gone": (acme("def grow(", "def _grow("), "acme.Thing.grow: was removed"),
    "an_inherited_method_is_gone": (
        acme("(_Base, Exception)", "(Exception)"),
        "acme.Thing.close: was removed",
    ),
    "a_base_is_gone": (acme("(_Base, Exception)", "(_Base)"), "acme.Thing: base class was removed"),
    "a_parameter_is_gone": (acme(", *, fast: bool = False", ""), "acme.Thing.grow: parameter was removed"),
    "a_parameter_is_called_otherwise": (acme("greeting: str", "word: str"), "acme.greet: parameter"),
    "a_required_parameter_comes": (
        acme("by: int,", "by: int, of: int,"),
        "acme.Thing.grow: parameter was added as required",
    ),
    "a_parameter_becomes_required": (
        acme("size: int = 1) -> None", "size: int) -> None"),
        "acme.Thing.__init__: parameter is now required",
    ),
    "a_parameter_takes_less": (
        acme("names: Sequence[str]", "names: list[str]"),
        "acme.stream: type of names changed",
    ),
    "a_parameter_goes_by_name_only": (
        acme('greeting: str = "hello", *, loud', '*, greeting: str = "hello", loud'),
        "acme.greet: parameter kind was changed",
    ),
    "parameters_change_places": (
        acme("name: str, size: int = 1", "size: int = 1, name: str = ''"),
        "acme.Thing.__init__: ",
    ),
    "a_default_is_another": (acme('= "hello"', '= "hi"'), "acme.greet: parameter default was changed"),
    "a_result_may_be_none": (
        acme("loud: bool = False) -> str", "loud: bool = False) -> str | None"),
        "acme.greet: type of the result changed: str -> str | None",
    ),
    "a_function_becomes_async": (acme("def greet(", "async def greet("), "acme.greet: async now"),
    "a_property_becomes_a_method": (acme("    @property\n    def size", "    def size"), "acme.Thing.size: "),
    "an_attribute_may_be_more": (
        acme("self.name: str | None", "self.name: str | int | None"),
        "acme.Thing.name: type changed",
    ),
    "an_overload_is_gone": (
        acme("@overload\ndef either(value: int) -> Small: ...\n", ""),
        "acme.either: its overloads changed",
    ),
    "an_overload_returns_something_else": (
        acme("def either(value: int) -> Small", "def either(value: int) -> Big"),
        "acme.either: its overloads changed",
    ),
    "a_protocol_gets_a_method": (
        joints("    async def put", "    async def drop(self) -> None: ...\n    async def put"),
        "acme.Store.drop: was added: who implements the Protocol lacks it",
    ),
    "a_protocol_gets_a_property": (
        joints("class Supports(Protocol):", "class Supports(Protocol):\n    size: int"),
        "acme.joints.Supports.size: was added",
    ),
    "a_protocol_method_takes_more": (
        joints("key: str, value: str,", "key: str, value: str | bytes,"),
        "acme.Store.put: type of value changed",
    ),
    "a_protocol_method_gets_an_optional_parameter": (
        joints("sure: bool = False", "sure: bool = False, late: bool = False"),
        "acme.Store.put: gained the parameter late",
    ),
    "a_protocol_method_returns_less": (
        joints("-> str | None", "-> str"),
        "acme.Store.get: type of the result changed",
    ),
    "a_protocol_method_is_gone": (
        joints("    async def get(self, key: str) -> str | None: ...\n", ""),
        "acme.Store.get: was removed",
    ),
    "a_protocol_is_no_longer_checkable": (
        joints("@runtime_checkable\n", ""),
        "acme.joints.Supports: is no longer runtime_checkable",
    ),
    "a_protocol_becomes_a_class": (
        joints("class Store(Protocol)", "class Store"),
        "acme.Store: was a protocol, is a class",
    ),
    "a_struct_gets_a_required_field": (
        acme('    size: int\n    note: str = ""', '    size: int\n    kind: str\n    note: str = ""'),
        "acme.Small.kind: is a new field without a default",
    ),
    "a_struct_field_is_gone": (acme('    note: str = ""\n', ""), "acme.Small.note: was removed"),
    "a_struct_field_is_called_otherwise": (acme("note: str", "remark: str"), "acme.Small.note: was removed"),
    "a_struct_field_loses_its_default": (
        acme("depth: int = 1", "depth: int"),
        "acme.Options.depth: lost its default",
    ),
    "a_struct_field_has_another_default": (
        acme("depth: int = 1", "depth: int = 2"),
        "acme.Options.depth: value changed",
    ),
    "a_struct_field_has_another_type": (
        acme("depth: int", "depth: int | None"),
        "acme.Options.depth: type changed",
    ),
    "struct_fields_change_places": (
        acme('    size: int\n    note: str = ""', '    note: str = ""\n    size: int = 0'),
        "acme.Small: the order of its fields changed",
    ),
    "a_field_comes_before_others": (
        acme("    y: int = 0", "    w: int = 0\n    y: int = 0"),
        "acme.Point: the order of its fields changed",
    ),
    "a_struct_renames_its_fields": (
        acme(
            "class Options(Struct, frozen=True, kw_only=True)",
            "class Options(Struct, frozen=True, kw_only=True, rename='camel')",
        ),
        "acme.Options: is encoded in another way: rename",
    ),
    "a_tag_is_another": (acme('tag="big"', 'tag="large"'), "acme.Big: is encoded in another way: tag"),
    "fields_go_by_name_only": (
        acme('frozen=True, tag="small"', 'frozen=True, kw_only=True, tag="small"'),
        "acme.Small: is kw_only now",
    ),
    "a_row_gets_a_value": (
        acme("    value: str\n", "    value: str\n    more: str\n"),
        "acme.Row.more: is a new field without a default",
    ),
    "a_key_is_gone": (acme("    text: str\n", ""), "acme.Answer.text: was removed"),
    "a_union_loses_a_member": (acme("Either = Small | Big", "Either = Small"), "acme.Either: lost Big"),
    "a_union_gains_a_member": (
        acme("Either = Small | Big", "Either = Small | Big | Point"),
        "acme.Either: gained Point: a match over it is no longer complete",
    ),
    "a_literal_gains_a_value": (
        acme('Literal["slow", "fast"]', 'Literal["slow", "fast", "warp"]'),
        "acme.Mode: gained Literal['warp']",
    ),
    "a_literal_loses_a_value": (
        acme('Literal["slow", "fast"]', 'Literal["slow"]'),
        "acme.Mode: lost Literal['fast']",
    ),
    "an_enum_loses_a_member": (acme('    BLUE = "blue"\n', ""), "acme.Colour.BLUE: was removed"),
    "an_enum_gains_a_member": (
        acme('    BLUE = "blue"\n', '    BLUE = "blue"\n    PINK = "pink"\n'),
        "acme.Colour: gained PINK",
    ),
    "an_enum_value_is_another": (acme('BLUE = "blue"', 'BLUE = "azure"'), "acme.Colour.BLUE: value changed"),
    "a_re_export_is_gone": (acme('"Store",', ""), "acme.Store: was removed"),
    "an_extra_is_gone": (project('fast = ["uvloop"]', ""), "packaging: extra fast is gone"),
    "an_entry_point_is_gone": (
        project('plain = "acme:Thing"', ""),
        "packaging: entry point acme.stores: plain is gone",
    ),
    "python_must_be_newer": (project(">=3.11", ">=3.12"), "packaging: python >=3.11 is gone"),
}

HARMLESS: dict[str, Edit] = {
    "a_new_overload": acme(
        "@overload\ndef either(value: str)",
        "@overload\ndef either(value: bytes) -> Big: ...\n@overload\ndef either(value: str)",
    ),
    "a_new_optional_parameter_of_an_overload": acme(
        "either(value: int) -> Small", "either(value: int, *, exact: bool = False) -> Small"
    ),
    "a_new_function": acme(
        '"stream",\n]', '"stream", "fresh",\n]\n\ndef fresh() -> None:\n    return None\n'
    ),
    "a_new_method_of_a_class": acme("    def grow(", "    def shrink(self) -> None: ...\n\n    def grow("),
    "a_new_optional_parameter": acme("loud: bool = False)", "loud: bool = False, often: int = 1)"),
    "a_parameter_takes_more": acme("names: Sequence[str]", "names: Sequence[str] | None"),
    "a_result_is_narrower": acme("self.name: str | None", "self.name: str"),
    "a_new_field_with_a_default_at_the_end": acme(
        '    note: str = ""', '    note: str = ""\n    kind: str = ""'
    ),
    "a_new_key_of_an_answer": acme("    text: str\n", "    text: str\n    turns: int\n"),
    "a_new_protocol": joints(
        '"Supports"]', '"Supports", "SupportsMore"]\n\nclass SupportsMore(Protocol):\n    size: int\n'
    ),
    "a_new_extra": project('fast = ["uvloop"]', 'fast = ["uvloop"]\nslow = []'),
    "a_constant_with_another_value": acme("self._hidden = size", "self._hidden = size + 1"),
    "a_method_moves_to_the_class": acme(
        "class Thing(_Base, Exception):",
        "class Thing(Exception):\n    def close(self) -> None:\n        return None\n",
    ),
    "a_private_name_is_gone": acme("_hidden", "_secret"),
    "a_helper_is_moved": joints("class Store", "class _Helper: ...\n\nclass Store"),
}


def write_package(root: Path, edit: Edit | None = None, version: str = "0.1.0") -> Path:
    """The example package below `root`, after `edit`."""
    files = {
        "pyproject.toml": PYPROJECT.format(version=version),
        "acme/__init__.py": HEAD + ACME,
        "acme/joints.py": HEAD + JOINTS,
    }
    if edit is not None:
        name, old, new = edit
        assert old in files[name]
        changed = files[name].replace(old, new)
        if old == '"Thing",' and new:  # a class that is renamed is renamed everywhere
            changed = changed.replace("class Thing", "class Stuff")
        files[name] = changed
    folder = root / "packages" / "acme"
    for name, text in files.items():
        path = folder / (name if name == "pyproject.toml" else f"src/{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder
