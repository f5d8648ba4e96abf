"""A pytest plugin (`-p selecting`): of the cross-package tests, those that fit the wheels that are installed.

A module says what it needs with `pytestmark = pytest.mark.needs("hermes-loop", "hermes-store")`; it is not
even imported where one of them is missing. "workspace" stands for the source tree, which the matrix never
has; a module without the mark is taken to need it.

`@pytest.mark.since("hermes-loop", "0.1.1")` leaves a test, or in `pytestmark` a module of any tests, out
where an older hermes-loop is installed. With HERMES_RELEASED naming the `tests-integration` of earlier
releases, only tests that each of them had are run, and what is marked `since`: any other test was written for
what came later.

`--quick` leaves out the tests that SLOW names. `--brief`, for what is run in every subset, also leaves out
those that ONCE names, and tries few examples of a property. `--by-python`, with one of them, runs those that
BY_PYTHON names all the same.
"""

from __future__ import annotations

import ast
import importlib.metadata
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from packaging.version import Version

__all__ = ["needs_of", "tests_in"]

FOLDER = "tests-integration"
SLOW = frozenset(
    {
        "cancellation/test_cancel_everywhere.py",
        "crash/test_batch_campaign.py",
        "crash/test_killed_processes.py",
        "dropin/test_programs.py",
        "hermes-batch/tests/test_changing_datasets.py",
        "hermes-batch/tests/test_compressor.py",
        "hermes-batch/tests/test_dataset_formats.py",
        "hermes-batch/tests/test_export.py",
        "hermes-batch/tests/test_kill.py",
        "hermes-batch/tests/test_loading.py",
        "hermes-batch/tests/test_signals.py",
        "hermes-batch/tests/test_trouble_with_files.py",
        "hermes-batch/tests/test_view.py",
        "hermes-batch/tests/test_view_page.py",
        "hermes-loop/tests/test_any_turn.py",
        "hermes-loop/tests/test_cancel_everywhere.py",
        "hermes-loop/tests/test_compression_bounds.py",
        "hermes-loop/tests/test_compression_plan.py",
        "hermes-loop/tests/test_fallback.py",
        "hermes-loop/tests/test_follow_ups.py",
        "hermes-messages/tests/test_models.py",
        "hermes-messages/tests/test_openai_json.py",
        "hermes-messages/tests/test_openai_shape.py",
        "hermes-messages/tests/test_repair.py",
        "hermes-messages/tests/test_trajectory.py",
        "hermes-messages/tests/test_transcript.py",
        "hermes-messages/tests/testing/test_check_store.py",
        "hermes-messages/tests/testing/test_check_store_leases.py",
        "hermes-messages/tests/testing/test_check_store_more.py",
        "hermes-messages/tests/typing/test_typing.py",
        "hermes-providers/tests/engines/test_connections.py",
        "hermes-providers/tests/engines/test_requests.py",
        "hermes-providers/tests/local/test_process.py",
        "hermes-providers/tests/test_all_wires.py",
        "hermes-providers/tests/test_anthropic_llmock.py",
        "hermes-providers/tests/test_anthropic_stream.py",
        "hermes-providers/tests/test_anthropic_stream_trouble.py",
        "hermes-providers/tests/test_mutated_streams.py",
        "hermes-store/tests/postgres/test_against_model.py",
        "hermes-store/tests/postgres/test_both_back_ends.py",
        "hermes-store/tests/postgres/test_cancelled_calls.py",
        "hermes-store/tests/postgres/test_conformance.py",
        "hermes-store/tests/postgres/test_failing_servers.py",
        "hermes-store/tests/postgres/test_forks.py",
        "hermes-store/tests/postgres/test_full_disks.py",
        "hermes-store/tests/postgres/test_lifecycle.py",
        "hermes-store/tests/postgres/test_many_processes.py",
        "hermes-store/tests/postgres/test_turn_leases.py",
        "hermes-store/tests/test_against_model.py",
        "hermes-store/tests/test_forks.py",
        "hermes-store/tests/test_processes.py",
        "hermes-store/tests/test_search.py",
        "hermes-store/tests/test_search_index.py",
        "hermes-tools/tests/commands/test_dangers.py",
        "hermes-tools/tests/commands/test_strange_lines.py",
        "hermes-tools/tests/test_checkpoints.py",
        "hermes-tools/tests/test_container_parts.py",
        "hermes-tools/tests/test_containers.py",
        "hermes-tools/tests/test_mcp.py",
        "hermes-tools/tests/test_mcp_calls.py",
        "hermes-tools/tests/test_mcp_connections.py",
        "hermes-tools/tests/test_mcp_http.py",
        "hermes-tools/tests/test_mcp_lists.py",
        "hermes-tools/tests/test_mcp_real_servers.py",
        "hermes-tools/tests/test_process.py",
        "hermes-tools/tests/test_scheduling.py",
        "hermes-tools/tests/test_search.py",
        "hermes-tools/tests/test_terminal.py",
        "hermes-tools/tests/test_web.py",
        "hermes-tools/tests/test_web_addresses.py",
        "hermes-tools/tests/test_web_pages.py",
        "hosts/test_http_host.py",
        "turns/test_compressed_sessions.py::test_a_process_killed_while_it_compresses_leaves_a_session_that_goes_on",
    }
)
"""What takes long: modules, by their path below tests-integration or packages, and `module.py::test`."""
ONCE = frozenset(
    {
        "hermes-batch/tests/test_cli.py",
        "hermes-batch/tests/test_stopping.py",
        "hermes-messages/tests/test_package.py::test_importing_costs_at_most_half_more_than_msgspec_alone",
        "hermes-messages/tests/test_shrinking.py",
        "hermes-messages/tests/test_stable_bytes.py",
        "hermes-providers/tests/engines/test_waits.py",
        "hermes-providers/tests/local/test_pool.py",
        "hermes-providers/tests/test_anthropic_vendor.py",
        "hermes-providers/tests/test_chat_vendor.py",
        "hermes-providers/tests/test_classify.py::test_markup_that_never_closes_is_read_in_linear_time",
        "hermes-providers/tests/test_counterpart_aimock.py",
        "hermes-providers/tests/test_counterpart_llmock.py",
        "hermes-providers/tests/test_gemini_llmock.py",
        "hermes-providers/tests/test_gemini_stream.py",
        "hermes-providers/tests/test_gemini_vendor.py",
        "hermes-providers/tests/test_growth.py",
        "hermes-providers/tests/test_import_cost.py",
        "hermes-providers/tests/test_responses_outcomes.py",
        "hermes-providers/tests/test_responses_stream.py",
        "hermes-providers/tests/test_responses_vendor.py",
        "hermes-providers/tests/test_vendor_streams.py",
        "hermes-store/tests/postgres/test_appends_under_strain.py",
        "hermes-store/tests/postgres/test_backup.py",
        "hermes-store/tests/postgres/test_moving.py",
        "hermes-store/tests/postgres/test_silent_servers.py",
        "hermes-store/tests/postgres/test_waiting_appends.py",
        "hermes-store/tests/test_hermes_state_files.py",
        "hermes-store/tests/test_transfer.py",
        "hermes-store/tests/test_upkeep.py",
        "hermes-tools/tests/test_memory.py",
        "hermes-tools/tests/test_patch.py",
        "hermes-tools/tests/test_patch_diffs.py",
        "hermes-tools/tests/test_patch_failures.py",
    }
)
"""What takes seconds and can not know which other wheels are there, named as in SLOW."""
BY_PYTHON = frozenset(
    {
        "cancellation/test_cancel_everywhere.py",
        "hermes-batch/tests/test_signals.py",
        "hermes-batch/tests/test_stopping.py",
        "hermes-loop/tests/test_cancel_everywhere.py",
        "hermes-messages/tests/typing/test_typing.py",
        "hermes-providers/tests/engines/test_waits.py",
        "hermes-providers/tests/local/test_pool.py",
        "hermes-providers/tests/local/test_process.py",
        "hermes-tools/tests/test_process.py",
        "hermes-tools/tests/test_terminal.py",
    }
)
"""Of SLOW and ONCE what hangs on the version of Python: signals, processes, limits, cancellation, typing."""
FEW_EXAMPLES = 10


def marks_in(node: ast.expr) -> Iterator[ast.Call]:
    """The calls in a value of `pytestmark`: one mark, or a list of them."""
    for part in node.elts if isinstance(node, ast.List | ast.Tuple) else [node]:
        if isinstance(part, ast.Call):
            yield part


@cache
def marks_of(file: Path, name: str) -> tuple[tuple[str, ...], ...]:
    """The arguments of each mark of this name that a whole module has, read without importing it."""
    return tuple(
        tuple(ast.literal_eval(argument) for argument in mark.args)
        for node in ast.parse(file.read_text("utf-8")).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
        for mark in marks_in(node.value)
        if ast.unparse(mark.func) == f"pytest.mark.{name}"
    )


def is_marked(file: Path) -> bool:
    """Whether a module says what it needs."""
    return bool(marks_of(file, "needs"))


def needs_of(file: Path) -> frozenset[str]:
    """The wheels that a module of cross-package tests needs beside hermes-messages."""
    return frozenset(wheel for mark in marks_of(file, "needs") for wheel in mark) or frozenset({"workspace"})


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


def is_older(wheel: str, version: str) -> bool:
    """Whether the wheel is missing or of an earlier version than this."""
    found = installed(wheel)
    return found is None or found < Version(version)


def released() -> list[Path]:
    """The `tests-integration` of the earlier releases that are installed."""
    return [Path(name) for name in os.environ.get("HERMES_RELEASED", "").split(os.pathsep) if name]


def inside(path: Path) -> Path | None:
    """The place of a cross-package test below its folder; None for any other path."""
    for parent in path.parents:
        if parent.name == FOLDER:
            return path.relative_to(parent)
    return None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass over modules that need what is not here, or something newer, or too much time."""
    if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    if short_name(collection_path) in left_out(config):
        return True
    place, since = inside(collection_path), marks_of(collection_path, "since")
    if any(is_older(wheel, version) for wheel, version in since):
        return True
    if place is None:
        return None
    unknown = not since and not all((folder / place).is_file() for folder in released())
    missing = any(installed(wheel) is None for wheel in needs_of(collection_path))
    return True if unknown or missing else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options that leave tests out."""
    parser.addoption("--quick", action="store_true", help="leave out what takes long")
    parser.addoption("--brief", action="store_true", help="... and what would be the same in each subset")
    parser.addoption("--by-python", action="store_true", help="but not what hangs on the version of Python")


def pytest_configure(config: pytest.Config) -> None:
    """Few examples, in place of the number that the packages' `conftest.py` has set by now."""
    if not config.getoption("--brief"):
        return
    with suppress(ImportError):
        from hypothesis import settings

        settings.register_profile("brief", settings(), max_examples=FEW_EXAMPLES)
        settings.load_profile("brief")


def left_out(config: pytest.Config) -> frozenset[str]:
    """What the options leave out, named as in SLOW."""
    kept = BY_PYTHON if config.getoption("--by-python") else frozenset()
    if config.getoption("--brief"):
        return (SLOW | ONCE) - kept
    return SLOW - kept if config.getoption("--quick") else frozenset()


def short_name(path: Path) -> str:
    """How SLOW names a module."""
    place = inside(path)
    return place.as_posix() if place else path.as_posix().rpartition("/packages/")[2]


def name_of(item: pytest.Item) -> str:
    """How SLOW names a test of a module."""
    return f"{short_name(item.path)}::{item.name.partition('[')[0]}"


def fits(item: pytest.Item) -> bool:
    """Whether the installed versions, and the earlier releases that were named, have what the test is for."""
    marks = list(item.iter_markers("since"))
    if marks:
        return not any(is_older(*mark.args) for mark in marks)
    place = inside(item.path)
    if place is None or not isinstance(item, pytest.Function):
        return True
    return all(item.originalname in tests_in(folder / place) for folder in released())


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what does not fit."""
    unwanted = left_out(config)
    chosen = [item for item in items if fits(item) and name_of(item) not in unwanted]
    if len(chosen) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen
