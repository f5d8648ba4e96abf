"""How many examples hypothesis tries, per profile; the environment variable HERMES_TEST_PROFILE names one."""

from __future__ import annotations

import os
from typing import NamedTuple

from hypothesis import HealthCheck, settings


class Counts(NamedTuple):
    """`examples` of each property, `fewer` of those marked so, and the seconds allowed for one test."""

    examples: int
    fewer: int
    time_limit_s: int


PROFILES = {
    "ci": Counts(examples=500, fewer=100, time_limit_s=900),
    "nightly": Counts(examples=10_000, fewer=10_000, time_limit_s=3_600),
}
PROFILE = os.environ.get("HERMES_TEST_PROFILE", "ci")
COUNTS = PROFILES[PROFILE]

settings.register_profile(
    f"hermes-messages-{PROFILE}",
    max_examples=COUNTS.examples,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(f"hermes-messages-{PROFILE}")

fewer_examples = settings(max_examples=COUNTS.fewer)
"""For a property that no published figure hangs on."""
