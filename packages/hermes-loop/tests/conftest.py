"""The settings of tests of properties."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# No test of properties fails because the machine is busy.
settings.register_profile(
    "hermes-loop", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("hermes-loop")
