"""Rows on a Ray cluster: `BatchRunner(engine="ray")`, extra `ray`.

The driver of a run (engine.py) starts a child process, the gateway (__main__.py, gateway.py), which is Ray's
driver; actors on the cluster (worker.py) run the rows. What passes between them is bytes (wire.py). Ray stays
out of the process of the run: connecting blocks, Ray takes over signal handlers, ends its process when the
cluster goes, and shows the command line of its process on its dashboard.
"""

__all__: list[str] = []
