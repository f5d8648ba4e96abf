"""A pytest plugin (`-p selecting`): of the cross-package tests, those that fit the wheels that are installed.

A module says what it needs with `pytestmark = pytest.mark.needs("hermes-loop", "hermes-store")`; it is not
even imported where one of them is missing. "workspace" stands for the source tree, which the matrix never
has; a module without the mark is taken to need it.

`@pytest.mark.since("hermes-loop", "0.1.1")` leaves a test out where an older hermes-loop is installed. With
HERMES_RELEASED naming the `tests-integration` of earlier releases, only tests that each of them had are run,
and what is marked `since`: another test was written for what came later.

`--quick` leaves out the tests that SLOW names.
"""

from __future__ import annotations

import ast
import importlib.metadata
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from packaging.version import Version

__all__ = ["needs_of", "tests_in"]

FOLDER = "tests-integration"
SLOW = frozenset[str]()
"""Modules that take more than three seconds, and single tests of others, as `module.py::test`."""


def marks_in(node: ast.expr) -> Iterator[ast.Call]:
    """The calls in a value of `pytestmark`: one mark, or a list of them."""
    for part in node.elts if isinstance(node, ast.List | ast.Tuple) else [node]:
        if isinstance(part, ast.Call):
            yield part


@cache
def needs_of(file: Path) -> frozenset[str]:
    """The wheels that a module of tests needs beside hermes-messages, read without importing it."""
    for node in ast.parse(file.read_text("utf-8")).body:
        if not isinstance(node, ast.Assign) or ast.unparse(node.targets[0]) != "pytestmark":
            continue
        for mark in marks_in(node.value):
            if ast.unparse(mark.func) == "pytest.mark.needs":
                return frozenset(ast.literal_eval(argument) for argument in mark.args)
    return frozenset({"workspace"})


@cache
def tests_in(file: Path) -> frozenset[str]:
    """The names of the test functions of a module; none if there is no such file."""
    if not file.is_file():
        return frozenset()
    tree = ast.parse(file.read_text("utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(
        node.name for node in ast.walk(tree) if isinstance(node, kinds) and node.name.startswith("test")
    )


@cache
def installed(wheel: str) -> Version | None:
    """The version of a wheel in this environment."""
    try:
        return Version(importlib.metadata.version(wheel))
    except importlib.metadata.PackageNotFoundError:
        return None


def inside(path: Path) -> Path | None:
    """The place of a cross-package test below its folder; None for any other path."""
    for parent in path.parents:
        if parent.name == FOLDER:
            return path.relative_to(parent)
    return None


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Pass over modules that need what is not here."""
    if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    if inside(collection_path) is None:
        return None
    return True if any(installed(wheel) is None for wheel in needs_of(collection_path)) else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option `--quick`."""
    parser.addoption("--quick", action="store_true", help="leave out what takes long")


def is_slow(item: pytest.Item) -> bool:
    """Whether SLOW names the test or its module."""
    place = inside(item.path)
    module = place.as_posix() if place else item.path.as_posix().partition("/packages/")[2]
    return module in SLOW or f"{module}::{item.name.partition('[')[0]}" in SLOW


def fits(item: pytest.Item) -> bool:
    """Whether the installed versions, and the earlier releases that were named, have what the test is for."""
    marks = list(item.iter_markers("since"))
    if marks:
        return all((installed(m.args[0]) or Version("0")) >= Version(m.args[1]) for m in marks)
    place = inside(item.path)
    released = [Path(name) for name in os.environ.get("HERMES_RELEASED", "").split(os.pathsep) if name]
    if place is None or not isinstance(item, pytest.Function):
        return True
    return all(item.originalname in tests_in(folder / place) for folder in released)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what does not fit."""
    quick = config.getoption("--quick")
    chosen = [item for item in items if fits(item) and not (quick and is_slow(item))]
    if len(chosen) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen
