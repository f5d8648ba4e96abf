"""The engine that runs rows in this process, on its event loop."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping

from hermes_batch.agent_options import AgentOptions
from hermes_batch.engines import RowEngine, RowJob
from hermes_batch.files import OwnDirectory
from hermes_batch.records import Record
from hermes_batch.row_directories import RowDirectories
from hermes_batch.row_runner import run_row
from hermes_batch.row_settings import RowSettings
from hermes_batch.rows import PromptRow
from hermes_batch.supervision import supervised
from hermes_messages import ConfigurationError
from hermes_messages.argument_text import JsonValue
from hermes_messages.protocols import AgentFactory

__all__ = ["LocalEngine", "factory_named", "make_local_engine"]

logger: logging.Logger = logging.getLogger(__name__)

_CLOSE_LIMIT_S = 30.0
_PLACE = "hermes-rows-"


class LocalEngine:
    """Runs rows with agents of one factory. A factory that was given as an object stays its owner's to close;
    one that was made here, from a name or from options, is closed here."""

    def __init__(self) -> None:
        self._settings: RowSettings | None = None
        self._factory: AgentFactory | None = None
        self._made: AgentFactory | None = None
        self._place: OwnDirectory | None = None
        self._directories: RowDirectories | None = None

    async def open(self, job: RowJob) -> None:
        """Open the factory, and make the directory of the rows' directories. Raises as `RowEngine.open`, what
        the factory raises, and `OSError`."""
        self._factory = _factory_of(job.agents)
        self._made = self._factory if isinstance(job.agents, AgentOptions | str) else None
        self._settings = job.settings
        await self._factory.open()
        self._place = await OwnDirectory.make(_PLACE)
        self._directories = RowDirectories(self._place.path, job.num_workers)
        await self._directories.prepare()

    async def run_row(self, row: PromptRow) -> Record:
        """One attempt of `row`. Raises as `run_row`."""
        if self._factory is None or self._settings is None or self._directories is None:
            raise ConfigurationError("the engine is not open")
        return await run_row(row, self._factory, self._settings, self._directories)

    async def close(self) -> None:
        """Remove the rows' directories, and close the agents' shared parts if they are ours. The rows'
        results stand, however that goes."""
        made, self._made, self._factory = self._made, None, None
        place, self._place = self._place, None
        directories, self._directories = self._directories, None
        try:
            if made is not None:
                await supervised(made.close(), what="closing the agents", limit_s=_CLOSE_LIMIT_S)
        except Exception:  # whatever a part of the agents raises, the results stand
            logger.exception("the agents could not be closed")
        finally:
            try:
                if directories is not None:
                    await directories.close()
            finally:
                if place is not None:
                    await place.remove()


def make_local_engine(settings: Mapping[str, JsonValue]) -> RowEngine:
    """The entry point `local`. Raises `ConfigurationError`: it has no settings."""
    if settings:
        raise ConfigurationError(f"the local engine has no setting {min(settings)!r}")
    return LocalEngine()


def _factory_of(agents: AgentFactory | AgentOptions | str) -> AgentFactory:
    match agents:
        case str():
            return factory_named(agents)
        case AgentOptions():
            from hermes_batch.default_agent import DefaultAgentFactory

            return DefaultAgentFactory(agents)
        case _:
            return agents


def factory_named(name: str) -> AgentFactory:
    """The agent factory that the callable `package.module:name` makes. Raises `ConfigurationError`."""
    module_name, _, attribute = name.partition(":")
    if not attribute or not module_name or module_name == "__main__":
        raise ConfigurationError(
            f"the agent factory {name!r} is not written package.module:name, of a module that can be imported"
        )
    try:
        maker: object = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"the agent factory {name!r} can not be imported: {error}") from error
    if not callable(maker):
        raise ConfigurationError(f"the agent factory {name!r} is not callable; it is to return a factory")
    made: AgentFactory = maker()
    if not hasattr(made, "create_agent"):
        raise ConfigurationError(f"{name!r} returned {type(made).__name__}, which is no agent factory")
    return made
