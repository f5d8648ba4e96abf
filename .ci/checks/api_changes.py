"""What changed between two surfaces (`api_surface`), and which of it breaks a program that used the old one.

Pure: text in, changes out. griffe finds what it knows of (removed names, parameters, bases); `api_types` the
rest: Protocols, fields of structs, unions, literals and enums, types, and sync against async.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import api_types
import griffe
from api_surface import FACT, SECTION


@dataclass(frozen=True, order=True)
class Change:
    """One difference. `name` is the public name, `module.Class`; `what` says it in words."""

    name: str
    what: str
    breaking: bool

    def __str__(self) -> str:
        return f"{self.name}: {self.what}"


@dataclass(frozen=True)
class Surface:
    """A snapshot, read: the text of each definition by its public name."""

    definitions: dict[str, str]
    facts: frozenset[str]

    @classmethod
    def read(cls, text: str) -> Surface:
        """Parse what `surface_text` wrote."""
        definitions: dict[str, str] = {}
        for section in text.split("\n" + SECTION)[1:]:
            module, _, code = section.partition("\n")
            for name, definition in _definitions(code, definitions).items():
                definitions[f"{module}.{name}"] = definition
        facts = frozenset(line.removeprefix(FACT) for line in text.splitlines() if line.startswith(FACT))
        return cls(definitions, facts)


def _definitions(code: str, known: dict[str, str]) -> dict[str, str]:
    """The definitions of one section; an import stands for the definition that it names."""
    found: dict[str, str] = {}
    lines = code.splitlines()
    for node in ast.parse(code).body:
        if isinstance(node, ast.ImportFrom):
            for item in node.names:
                found[item.asname or item.name] = known[f"{node.module}.{item.name}"]
            continue
        first = node.lineno
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([first, *(decorator.lineno for decorator in node.decorator_list)])
        text = "\n".join(lines[first - 1 : node.end_lineno]) + "\n"
        found[_name_of(node)] = found.get(_name_of(node), "") + text  # overloads stand one after the other
    return found


def _name_of(node: ast.stmt) -> str:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case _:
            raise ValueError(f"a snapshot has no such statement: {ast.unparse(node)}")


def compare(old_text: str, new_text: str, may_grow: frozenset[str] = frozenset()) -> list[Change]:
    """All changes from one snapshot to another. Names in `may_grow` may get new members."""
    old, new = Surface.read(old_text), Surface.read(new_text)
    found = {Change("packaging", f"{fact} is gone", breaking=True) for fact in old.facts - new.facts}
    found |= {Change("packaging", f"{fact} is new", breaking=False) for fact in new.facts - old.facts}
    seen: set[tuple[str, str]] = set()
    for name, before in old.definitions.items():
        after = new.definitions.get(name)
        if after is None:
            found.add(Change(name, "was removed", breaking=True))
        elif after != before and (before, after) not in seen:
            seen.add((before, after))
            found |= set(_changes(name, before, after, may_grow))
    found |= {Change(n, "is new", breaking=False) for n in new.definitions.keys() - old.definitions.keys()}
    return sorted(found)


def _changes(name: str, before: str, after: str, may_grow: frozenset[str]) -> Iterator[Change]:
    """The changes of one definition. What no rule calls breaking is a change all the same."""
    old, new = _visit(before), _visit(after)
    short = name.rpartition(".")[2]
    found = [
        Change(name + _below(breakage, short), _words(breakage), breaking=True)
        for breakage in griffe.find_breaking_changes(old, new)
        if breakage.kind not in _OURS
    ]
    pair = _member(old, short), _member(new, short)
    found += [
        Change(name + below, what, breaking=not (what.startswith("gained") and name in may_grow))
        for below, what in api_types.breakages(*pair)
    ]
    yield from found
    if not any(change.breaking for change in found):
        yield Change(name, "changed, in a way that breaks nothing", breaking=False)


_OURS = {
    griffe.BreakageKind.ATTRIBUTE_CHANGED_TYPE,
    griffe.BreakageKind.ATTRIBUTE_CHANGED_VALUE,
    griffe.BreakageKind.RETURN_CHANGED_TYPE,
}
"""Judged by `api_types`, which knows what kind of class an attribute belongs to."""


def _visit(code: str) -> griffe.Module:
    code = f"from typing import overload\n{code}"  # else griffe takes the last overload for the function
    return griffe.visit("snapshot", filepath=Path("snapshot.pyi"), code=code)


def _member(module: griffe.Module, name: str) -> griffe.Object:
    member = module.members[name]
    assert isinstance(member, griffe.Object)
    return member


def _below(breakage: griffe.Breakage, short: str) -> str:
    """The part of the path below the definition: `.method`, or nothing."""
    return re.sub(rf"^snapshot\.{re.escape(short)}", "", breakage.obj.path)


def _words(breakage: griffe.Breakage) -> str:
    kind = breakage.kind.value.lower()
    old, new = (getattr(value, "name", value) for value in (breakage.old_value, breakage.new_value))
    if breakage.kind is griffe.BreakageKind.OBJECT_REMOVED:
        return "was removed"
    if isinstance(breakage.old_value, griffe.Parameter) and isinstance(breakage.new_value, griffe.Parameter):
        return f"{kind}: {breakage.old_value} -> {breakage.new_value}"
    return f"{kind}: " + " -> ".join(str(value) for value in (old, new) if value is not None)
