"""Hold a cluster: `python -m hermes_batch.ray_engine.own_cluster CPUS [OPTION OF RAY START ...]`."""

from __future__ import annotations

import asyncio
import sys

from hermes_batch.ray_engine.own_cluster.holding import hold

if __name__ == "__main__":
    sys.exit(asyncio.run(hold(int(sys.argv[1]), sys.argv[2:])))
