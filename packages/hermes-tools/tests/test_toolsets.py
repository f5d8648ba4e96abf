"""Toolsets of others, groups of a host, and what is left out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from hermes_messages import ConfigurationError, UnknownNameError
from hermes_messages.protocols import ExecutorOptions, UnavailableTool
from hermes_messages.testing import ToolDouble
from hermes_tools import build_executor, toolsets

THIRD_PARTY = """
from hermes_messages.testing import ToolDouble

class Greetings:
    name = "greetings"
    missing = None
    tools = (ToolDouble("greet"), ToolDouble("wave"))

    def unavailable_reason(self):
        return self.missing

class Broken(Greetings):
    missing = "GREETINGS_KEY is not set"

def make():
    return Greetings()

def needs_key():
    return Broken()
"""


@pytest.fixture
def third_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A package that imports nothing of ours but the Protocols, and announces toolsets."""
    (tmp_path / "greetings_for_tests.py").write_text(THIRD_PARTY)
    info = tmp_path / "greetings_for_tests-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greetings-for-tests\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[hermes.toolsets]\n"
        "greetings = greetings_for_tests:make\n"
        "guarded_greetings = greetings_for_tests:needs_key\n"
        "gone = greetings_for_tests:nothing\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    toolsets._installed.cache_clear()
    yield
    toolsets._installed.cache_clear()
    sys.modules.pop("greetings_for_tests", None)


def names(
    bench: Any, run_async: Any, enabled: list[str], **options: Any
) -> tuple[list[str], tuple[Any, ...]]:
    async def main() -> Any:
        executor = build_executor(enabled, ExecutorOptions(cwd=str(bench.workspace), **options))
        snapshot = await executor.refresh(bench.turn())
        await executor.close()
        return snapshot

    snapshot = run_async(main())
    return [spec.name for spec in snapshot.tools], snapshot.unavailable


@pytest.mark.usefixtures("third_party")
def test_a_toolset_of_another_package_is_found_by_its_entry_point(bench: Any, run_async: Any) -> None:
    assert names(bench, run_async, ["greetings", "todo"]) == (["greet", "wave", "todo"], ())


@pytest.mark.usefixtures("third_party")
def test_what_is_absent_says_why(bench: Any, run_async: Any) -> None:
    found, absent = names(bench, run_async, ["guarded_greetings", "todo"])
    assert found == ["todo"]
    assert absent == (UnavailableTool("greetings", "GREETINGS_KEY is not set"),)


@pytest.mark.usefixtures("third_party")
def test_a_toolset_that_can_not_be_loaded_names_its_package(bench: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"'gone' \(greetings_for_tests:nothing\) can not be loaded"):
        build_executor(["gone"], ExecutorOptions(cwd=str(bench.workspace)))


@pytest.mark.usefixtures("third_party")
def test_groups_of_a_host_hold_toolsets_and_other_groups(bench: Any, run_async: Any) -> None:
    groups = {"polite": ["greetings"], "work": ["polite", "todo", "file"]}
    settings: dict[str, Any] = {"toolset_groups": groups}
    found, _ = names(bench, run_async, ["work"], settings=settings, disabled_toolsets=("file",))
    assert found == ["greet", "wave", "todo"]
    found, _ = names(bench, run_async, ["work"], settings=settings, disabled_toolsets=("polite", "file"))
    assert found == ["todo"]
    options: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"work": ["wrok"]}, UnknownNameError, "wrok"),
        ({"work": ["more"], "more": ["work"]}, ConfigurationError, "contains itself"),
        ({"file": ["todo"], "work": ["file"]}, ConfigurationError, "already"),
        ({"work": "todo"}, ConfigurationError, "toolset_groups"),
    ]
    for bad, kind, said in options:
        with pytest.raises(kind, match=said):
            build_executor(["work"], ExecutorOptions(cwd="/", settings={"toolset_groups": bad}))


def test_single_tools_are_left_out_and_a_name_that_is_none_is_told(bench: Any, run_async: Any) -> None:
    own = (ToolDouble("mine"), ToolDouble("other"))
    found, absent = names(
        bench, run_async, ["file"], own_tools=own, settings={"disabled_tools": ["write_file", "mine", "pach"]}
    )
    assert "write_file" not in found
    assert "mine" not in found
    assert {"read_file", "other"} <= set(found)
    assert [item.name for item in absent] == ["pach"]
