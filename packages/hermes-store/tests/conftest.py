"""The settings of tests of properties, and patience with a machine that stands still."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from hermes_store import SessionDB

sys.path.insert(0, str(Path(__file__).parents[3] / ".ci"))  # for the module `hard_times`

# No test of properties fails because the machine is busy.
settings.register_profile(
    "hermes-store", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("hermes-store")

# How long the product waits for something that ends by itself in no time, unless the machine stands still.
# A test whose matter is one of them sets it itself.
BOUNDS = {
    "hermes_store.files": ("OPENING_LIMIT_S",),
    "hermes_store.methods.turn_leases": ("GIVE_BACK_LIMIT_S",),
    "hermes_store.postgres": ("SETTLE_S",),
    "hermes_store.postgres_link": ("CLOSE_S",),
    "hermes_store.postgres_transaction": ("UNDO_S",),
    "hermes_store.sqlite": ("SETTLE_S",),
}
PATIENCE_S = 300.0
# Their matter is a server that does not answer, so that every bound is reached.
WITH_ALL_BOUNDS = {"test_failing_servers.py", "test_silent_servers.py"}


@pytest.fixture(autouse=True)
def patience(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """No bound of the store is reached because the machine is slow or this process was stopped a while."""
    if request.path.name in WITH_ALL_BOUNDS:
        return
    for module, names in BOUNDS.items():
        for name in names if module in sys.modules else ():
            monkeypatch.setattr(f"{module}.{name}", PATIENCE_S)
    assert SessionDB.__init__.__kwdefaults__ is not None
    monkeypatch.setitem(SessionDB.__init__.__kwdefaults__, "busy_timeout_s", PATIENCE_S)
