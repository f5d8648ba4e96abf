"""The tables of hermes-loop's README say what the code says."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from hermes_loop import AIAgent
from hermes_loop.hooks import ABILITIES
from hermes_loop.result import FLAGS

pytestmark = pytest.mark.needs("workspace")

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "packages/hermes-loop/README.md").read_text("utf-8")
YES = {"yes": True, "": False}


def table(header: str) -> list[list[str]]:
    """The cells of the table whose first column has this title."""
    rows = PAGE.split(f"| {header} |")[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split(" |")] for row in rows]


def test_every_exit_is_in_the_table_with_its_flags() -> None:
    seen: list[str] = []
    for names, completed, partial, interrupted, failed in table("`turn_exit_reason`"):
        for reason, flags in FLAGS.items():
            if f"`{reason}`" not in re.findall(r"`\w+`", names):
                continue
            seen.append(reason)
            assert flags.completed is YES[completed], reason
            assert flags.interrupted is YES[interrupted], reason
            assert flags.failed is YES[failed], reason
            # A failed turn is partial when it left some text; a refusal is no part of an answer.
            told = "if there is text" if flags.failed and reason != "refused" else "yes" * flags.partial
            assert partial == told, reason
    assert sorted(seen) == sorted(FLAGS)


def test_every_ability_of_a_hook_is_in_the_table() -> None:
    named = {name for row in table("method") for name in re.findall(r"`(\w+)", row[0])}
    assert named == set(ABILITIES)


def test_every_parameter_of_an_agent_is_in_its_docstring() -> None:
    parameters = set(inspect.signature(AIAgent).parameters) - {"others"}
    told = set(re.findall(r"`(\w+)`", AIAgent.__doc__ or ""))
    callbacks = {name for name in parameters if name.endswith("_callback")}
    assert parameters - told <= callbacks
    assert all(f"`{name}`" in PAGE for name in callbacks)
