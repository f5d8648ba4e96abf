"""The joint between the driver of a run and what runs a row: here, or on other machines.

The driver reads the dataset, hands rows out, tries them again, and appends the records; an engine runs one
attempt of one row wherever it likes. Engines are found by name through the entry points of the group
`hermes.row_engines`: callables that take the engine's settings and return it.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Final, Protocol

from msgspec import Struct

from hermes_batch.agent_options import AgentOptions
from hermes_batch.records import Record
from hermes_batch.row_settings import RowSettings
from hermes_batch.rows import PromptRow
from hermes_messages import UnknownNameError
from hermes_messages.argument_text import JsonValue
from hermes_messages.protocols import AgentFactory

__all__ = ["RowEngine", "RowEngineFactory", "RowJob", "engine_named"]

GROUP: Final = "hermes.row_engines"
_OURS: Final = {
    name: EntryPoint(name, value, GROUP)
    for name, value in (
        ("local", "hermes_batch.local_engine:make_local_engine"),
        ("ray", "hermes_batch.ray_engine.engine:make_ray_engine"),
    )
}


class RowJob(Struct, frozen=True, kw_only=True):
    """What an engine has to know of a run. At most `num_workers` rows are handed out at once.

    `agents` says who makes the agents: a factory that lives in this process, the name of a callable that
    makes one (`package.module:name`), or the options of the default agents.
    """

    settings: RowSettings
    """The same for all rows."""
    agents: AgentFactory | AgentOptions | str
    num_workers: int


class RowEngine(Protocol):
    """Runs rows. One run at a time: it is opened, given rows, and closed; then it may be opened again."""

    async def open(self, job: RowJob) -> None:
        """Get ready. Raises `ConfigurationError` for what can not work, `EngineStartError` when the machines
        do not answer, `ProviderError`; what was opened by then is released by `close`."""
        ...

    async def run_row(self, row: PromptRow) -> Record:
        """One attempt of `row`. Many are awaited at once; cancellation ends the attempt, bounded in time.

        Raises `WorkerLostError` when whatever ran the row is gone, so that nobody knows what came of it;
        `EngineLostError` when no row can be run any more; `OSError` for trouble with files.
        """
        ...

    async def close(self) -> None:
        """Release everything, bounded in time. Idempotent."""
        ...


class RowEngineFactory(Protocol):
    """What an entry point of the group `hermes.row_engines` names."""

    def __call__(self, settings: Mapping[str, JsonValue]) -> RowEngine:
        """The engine; nothing is opened. Raises `ConfigurationError`, `MissingDependencyError`."""
        ...


def engine_named(name: str, settings: Mapping[str, JsonValue]) -> RowEngine:
    """The engine of this name. Raises `ConfigurationError`: no such engine, or settings that it has not;
    `MissingDependencyError` when it needs what is not installed."""
    point = _OURS.get(name)
    if point is None:
        known = {point.name: point for point in entry_points(group=GROUP)} | _OURS
        if name not in known:
            raise UnknownNameError("row engine", name, known)
        point = known[name]
    factory: RowEngineFactory = point.load()
    return factory(settings)
