"""The errors of a batch run.

HermesError
|-- DatasetError      a dataset file that can not be read, or holds no usable row
|-- RunExistsError    a run directory that has results, and no wish to resume was given
|-- RunLockedError    another live process works on this run
|-- RunAbortedError   the run was stopped early because nothing works any more; finished rows are kept
|-- EngineStartError  what is to run the rows could not be started or reached; nothing was written
|-- EngineLostError   what runs the rows has gone; finished rows are kept
`-- WorkerLostError   one worker has gone; the driver hands its rows out again
"""

from __future__ import annotations

from pathlib import Path

from hermes_messages import ConfigurationError, HermesError

__all__ = [
    "GO_ON",
    "DatasetError",
    "EngineLostError",
    "EngineStartError",
    "RunAbortedError",
    "RunExistsError",
    "RunLockedError",
    "WorkerLostError",
]

GO_ON = "; finished rows are kept, continue with resume=True"
"""How the error of a run that gave up ends."""


class DatasetError(ConfigurationError):
    """A dataset file that can not be used. Nothing was started."""


class RunExistsError(ConfigurationError):
    """The run in `run_dir` has results already. Nothing was touched."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        super().__init__(
            f"{run_dir} holds an earlier run; continue it with resume=True, or choose another run_name"
        )


class RunLockedError(ConfigurationError):
    """Another live process works on the run in `run_dir`. `owner` says which. Nothing was touched."""

    def __init__(self, run_dir: Path, owner: str) -> None:
        self.run_dir = run_dir
        self.owner = owner
        super().__init__(f"{run_dir} is in use by another process ({owner}); wait for it or stop it first")


class RunAbortedError(HermesError):
    """The run was stopped because row after row failed. Finished rows are kept; resume when it is mended."""


class EngineStartError(ConfigurationError):
    """What is to run the rows could not be started or reached. Nothing was written."""


class EngineLostError(HermesError):
    """What runs the rows has gone, or can run no more. Finished rows are kept; resume when it is mended."""


class WorkerLostError(HermesError):
    """The worker of a row has gone, and nobody knows what came of the row."""
