"""Makes the helper modules of this folder importable from all its tests."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

# The counterpart is in the group `vendor-types`: where it is not installed, its tests are not there.
collect_ignore = [] if os.environ.get("LLMOCK") or shutil.which("llmock") else ["test_counterpart_llmock.py"]
