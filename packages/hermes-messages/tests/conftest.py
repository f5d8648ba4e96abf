"""Loads the hypothesis profile (`example_counts`) and gives its tests their time."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for the modules that several tests use

from example_counts import COUNTS  # noqa: E402 - found through the line above

collect_ignore = [] if find_spec("mypy") else ["typing/test_typing.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.timeout(COUNTS.time_limit_s))
