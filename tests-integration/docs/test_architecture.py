"""The diagrams of docs/architecture.md say what the code says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from hermes_messages.transcript_rules import TRANSITIONS

pytestmark = pytest.mark.needs("workspace")

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text()


def test_the_transcript_diagram_is_the_table() -> None:
    drawn = re.search(r"```mermaid\nstateDiagram-v2\n(.*?)```", PAGE, re.DOTALL)
    assert drawn is not None
    generated = [
        f"{state} --> {after}: {event}"
        for state, events in TRANSITIONS.items()
        for event, after in events.items()
    ]
    assert [line.strip() for line in drawn.group(1).strip().splitlines()] == generated


def test_the_table_of_wheels_names_their_dependencies() -> None:
    rows = dict(re.findall(r"^\| (hermes-\w+) \| .* \| ([^|]+) \|$", PAGE, re.MULTILINE))
    for project in sorted(ROOT.glob("packages/*/pyproject.toml")):
        data = tomllib.loads(project.read_text())["project"]
        declared = {re.split(r"[<>=\[ ]", requirement)[0] for requirement in data["dependencies"]}
        assert set(rows[data["name"]].strip().split(", ")) == declared, data["name"]
