"""How many examples hypothesis tries here, per profile; `HERMES_TEST_PROFILE` chooses one."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# profile -> (examples for each property, seconds allowed for one test)
PROFILES = {
    "ci": (500, 120),
    "nightly": (10_000, 3_600),
}
PROFILE = os.environ.get("HERMES_TEST_PROFILE", "ci")
EXAMPLES, TIME_LIMIT_S = PROFILES[PROFILE]

settings.register_profile(
    f"hermes-messages-{PROFILE}",
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(f"hermes-messages-{PROFILE}")

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for the strategies, which several modules use

collect_ignore = [] if find_spec("mypy") else ["typing/test_typing.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.timeout(TIME_LIMIT_S))
