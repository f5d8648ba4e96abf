"""Every test that docs/limits.md names as the proof of a line is there, once."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/limits.md").read_text("utf-8")


def test_every_proof_that_is_named_exists() -> None:
    known = Counter(
        name
        for pattern in ("packages/*/tests", "tests-integration")
        for folder in ROOT.glob(pattern)
        for path in folder.rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)\(", path.read_text("utf-8"))
    )
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 50
    assert {name for name in named if not known[name]} == set()


def test_every_line_has_a_proof_or_is_a_promise_of_others() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and " --- " not in line]
    bare = [row.split(" | ")[0].strip("| ") for row in rows if row.endswith("| |") or " |" not in row]
    assert [row for row in bare if row != "the machine loses power"] == []
