"""What the tests of this package share with others of the workspace."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / ".ci"))  # for the module `browser`
