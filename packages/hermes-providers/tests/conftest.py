"""Makes the helper modules of this folder importable from all its tests."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parents[3] / ".ci"))  # for the modules `hard_times` and `quiet_port`
sys.path.insert(0, str(Path(__file__).parent))

collect_ignore = []
if not (os.environ.get("LLMOCK") or shutil.which("llmock")):
    # The counterpart is in the group `vendor-types`: where it is not installed, its tests are not there.
    collect_ignore.append("test_counterpart_llmock.py")
if not os.environ.get("HERMES_LIVE"):
    collect_ignore.append("test_live.py")  # real hosts, real money: only when asked for

# No test of properties fails because the machine is busy.
settings.register_profile(
    "hermes-providers", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("hermes-providers")
