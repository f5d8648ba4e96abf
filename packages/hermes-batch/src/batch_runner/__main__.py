"""`python -m batch_runner` with the flags that users of Hermes know."""

from __future__ import annotations

import sys

from hermes_batch.familiar_flags import main

sys.exit(main())
