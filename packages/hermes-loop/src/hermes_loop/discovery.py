"""From names to objects: entry points, read once, when a name is first asked for.

Reading them looks at the metadata of installed wheels only; a wheel is imported when its name is used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final, Literal, cast

from hermes_messages import ConfigurationError, MissingDependencyError, UnknownNameError
from hermes_messages.protocols import (
    ExecutorFactory,
    ExecutorOptions,
    HookFactory,
    Provider,
    ProviderFactory,
    ProviderOptions,
    SessionStore,
    StoreFactory,
    ToolExecutor,
)

__all__ = ["default_provider_name", "make_executor", "make_hook", "make_provider", "make_store", "store_name"]

Group = Literal["hermes.providers", "hermes.executors", "hermes.toolsets", "hermes.stores", "hermes.hooks"]

WHEELS: Final[dict[Group, str]] = {
    "hermes.providers": "hermes-providers",
    "hermes.executors": "hermes-tools",
    "hermes.toolsets": "hermes-tools",
    "hermes.stores": "hermes-store",
}
KINDS: Final[dict[Group, str]] = {
    "hermes.providers": "provider",
    "hermes.executors": "tool executor",
    "hermes.toolsets": "toolset",
    "hermes.stores": "session store",
    "hermes.hooks": "hook",
}

_found: dict[Group, dict[str, EntryPoint]] = {}


def names_in(group: Group) -> dict[str, EntryPoint]:
    """The entry points of `group` by name; the metadata is read the first time only."""
    if group not in _found:
        _found[group] = {point.name: point for point in entry_points(group=group)}
    return _found[group]


def load(group: Group, name: str) -> object:
    """The object that `name` stands for.

    Raises `MissingDependencyError` (nothing offers this group, or what offers it lacks an import) with the
    line that installs it, `UnknownNameError` with the nearest names.
    """
    known = names_in(group)
    wheel = WHEELS.get(group, "the wheel that offers it")
    if not known and group in WHEELS:
        raise MissingDependencyError(f"{KINDS[group]} {name!r} needs {wheel}, which", f"pip install {wheel}")
    if name not in known:
        raise UnknownNameError(KINDS[group], name, known)
    try:
        return _loaded(known[name])
    except ImportError as error:
        raise MissingDependencyError(
            f"{KINDS[group]} {name!r} needs {error.name or error}, which", f"pip install {wheel}"
        ) from error


@cache
def _loaded(point: EntryPoint) -> object:
    """What is loaded is loaded: asked once for each agent, the import system would be asked each time."""
    found: object = point.load()
    return found


def default_provider_name(environ: Mapping[str, str], base_url: str | None) -> str:
    """Which provider is meant when the caller names none. Pure.

    Raises `ConfigurationError` that names the ways to say it.
    """
    if base_url:
        return "custom"
    if environ.get("OPENROUTER_API_KEY", "").strip():
        return "openrouter"
    if environ.get("OPENAI_API_KEY", "").strip():
        return "openai"
    raise ConfigurationError(
        "no provider: set OPENROUTER_API_KEY or OPENAI_API_KEY, or give base_url= and model= of a server "
        "with the chat-completions interface, or provider='local' for a small model on this machine"
    )


def make_provider(name: str | None, options: ProviderOptions) -> Provider:
    """The provider of this name, not opened. Raises `ConfigurationError`."""
    chosen = name if name is not None else default_provider_name(os.environ, options.base_url)
    factory = cast("ProviderFactory", load("hermes.providers", chosen))
    return factory(options)


def make_executor(toolsets: Sequence[str], options: ExecutorOptions) -> ToolExecutor:
    """The executor for these toolsets and the host's own tools, not opened. Raises `ConfigurationError`."""
    factory = cast("ExecutorFactory", load("hermes.executors", "default"))
    return factory(toolsets, options)


def make_hook(name: str) -> object:
    """A new hook of this name. Nothing installed is a hook of an agent that does not name it.

    Raises `ConfigurationError`.
    """
    factory = cast("HookFactory", load("hermes.hooks", name))
    return factory()


def store_name(target: str) -> str:
    """Which kind of store an address means: its scheme, or SQLite for a path. Pure."""
    scheme, separator, _ = target.partition("://")
    return scheme.lower() if separator else "sqlite"


def make_store(target: str) -> SessionStore:
    """The store at this path or address, not opened. Raises `ConfigurationError`."""
    factory = cast("StoreFactory", load("hermes.stores", store_name(target)))
    return factory(target)
