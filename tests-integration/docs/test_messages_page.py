"""The tables of docs/messages.md say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hermes_messages
from hermes_messages import QuirkKind, RepairKind, errors
from hermes_messages.transcript_rules import TRANSITIONS

pytestmark = pytest.mark.needs("workspace")

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/messages.md").read_text("utf-8")
README = (ROOT / "packages/hermes-messages/README.md").read_text("utf-8")


def section(title: str, page: str = PAGE) -> str:
    return page.split(f"## {title}\n")[1].split("\n## ")[0]


def first_cells(text: str) -> list[str]:
    return re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)


def test_the_transcript_table_is_the_table() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", section("What may follow what"), re.MULTILINE)
    written = {state: dict(re.findall(r"`(\w+)` → `(\w+)`", cell)) for state, cell in rows}
    assert written == {state: dict(events) for state, events in TRANSITIONS.items()}


def test_every_quirk_and_every_change_is_listed_in_order() -> None:
    assert first_cells(section("Quirks")) == list(QuirkKind)
    assert first_cells(section("Changes")) == list(RepairKind)


def test_every_error_is_in_the_tree() -> None:
    drawn = re.findall(r"^[| `-]*(\w+Error)\b", section("Errors"), re.MULTILINE)
    assert sorted(drawn) == sorted(set(errors.__all__) - {"ErrorKind"})


def test_every_module_named_exists() -> None:
    source = Path(hermes_messages.__path__[0])
    cells = re.findall(r"^\| (`.*?`) \|", section("Modules", README), re.MULTILINE)
    names = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert len(names) > 15
    assert all((source / f"{name}.py").is_file() or (source / name).is_dir() for name in names)
