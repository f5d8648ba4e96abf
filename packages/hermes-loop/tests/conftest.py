"""The settings of tests of properties."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parents[3] / ".ci"))  # for `cancellations` and `hard_times`
sys.path.insert(0, str(Path(__file__).parent))  # for the modules that several tests use

# No test of properties fails because the machine is busy.
settings.register_profile(
    "hermes-loop", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("hermes-loop")
