"""Toolsets: named groups of tools, found through entry points, combined, switched on and off."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from msgspec import Struct

from hermes_messages import ConfigurationError, JsonValue, UnknownNameError
from hermes_messages.protocols import Tool, Toolset, ToolsetFactory, TurnContext

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "COMBINATIONS",
    "SupportsRefresh",
    "SupportsSettings",
    "ToolGroup",
    "expand_names",
    "load_toolsets",
    "toolset_names",
]

GROUP = "hermes.toolsets"

COMBINATIONS: Mapping[str, tuple[str, ...]] = {
    "coding": ("file", "terminal", "todo"),
    "all": ("*",),
}
"""Names that stand for several toolsets or further combinations; `*` is every toolset installed."""


class ToolGroup(Struct, frozen=True):
    """A toolset without state."""

    name: str
    """What `enabled_toolsets` finds it by."""
    tools: tuple[Tool, ...]
    """In the order in which the model is shown them."""


@runtime_checkable
class SupportsRefresh(Protocol):
    """A toolset that looks at the conversation, or at the world, at the start of each turn."""

    async def refresh(self, context: TurnContext) -> None:
        """Bring its state and its tools up to date."""
        ...


@runtime_checkable
class SupportsSettings(Protocol):
    """A toolset with a setting of its own, which stands under its name among the executor's."""

    def configure(self, settings: JsonValue) -> None:
        """Take it over, before the first turn. Raises `ConfigurationError`."""
        ...


@cache
def _installed() -> Mapping[str, EntryPoint]:
    """The toolsets that the installed packages announce, by name; metadata is read once, nothing imported."""
    from importlib.metadata import entry_points

    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)}


def toolset_names() -> tuple[str, ...]:
    """All names that can be enabled: toolsets and combinations."""
    return tuple(sorted({*_installed(), *COMBINATIONS}))


def expand_names(
    names: Iterable[str],
    installed: Iterable[str],
    combinations: Mapping[str, tuple[str, ...]] = COMBINATIONS,
) -> frozenset[str]:
    """The toolsets that `names` stand for, combinations resolved to any depth.

    Raises `UnknownNameError` for a name that is neither, `ConfigurationError` for one that contains itself.
    """
    known = frozenset(installed)
    return frozenset[str]().union(*(_expand(name, (), known, combinations) for name in names))


def _expand(
    name: str, above: tuple[str, ...], known: frozenset[str], combinations: Mapping[str, tuple[str, ...]]
) -> frozenset[str]:
    if name == "*":
        return known
    if name in above:
        raise ConfigurationError(f"toolset combination {name!r} contains itself: {' > '.join(above)}")
    if name in known:
        return frozenset({name})
    if name not in combinations:
        raise UnknownNameError("toolset", name, {*known, *combinations})
    parts = (_expand(part, (*above, name), known, combinations) for part in combinations[name])
    return frozenset[str]().union(*parts)


def load_toolsets(
    enabled: Sequence[str],
    disabled: Sequence[str] = (),
    groups: Mapping[str, tuple[str, ...]] | None = None,
) -> list[Toolset]:
    """New toolsets for the `enabled` names less the `disabled` ones, sorted by name.

    The order of the names given plays no part, so that the same set makes the same request bytes. `groups`
    are combinations of the host's own, which may hold others.
    Raises `UnknownNameError` for a name in either list that does not exist, before anything is imported, and
    `ConfigurationError` for a group that takes a name already there.
    """
    points = _installed()
    for name in groups or {}:
        if name in points or name in COMBINATIONS or name == "*":
            raise ConfigurationError(
                f"toolset group {name!r}: there is a toolset or group of that name already"
            )
    own = tuple([(name, tuple(parts)) for name, parts in groups.items()]) if groups else ()
    return [_make(points[name]) for name in _wanted(tuple(enabled), tuple(disabled), tuple(points), own)]


@lru_cache(maxsize=256)
def _wanted(
    enabled: tuple[str, ...],
    disabled: tuple[str, ...],
    installed: tuple[str, ...],
    groups: tuple[tuple[str, tuple[str, ...]], ...],
) -> tuple[str, ...]:
    """The names of the toolsets to load, sorted: the same for all agents of one kind."""
    combinations = {**COMBINATIONS, **dict(groups)}
    wanted = expand_names(enabled, installed, combinations) - expand_names(disabled, installed, combinations)
    return tuple(sorted(wanted))


@cache
def _loaded(point: EntryPoint) -> ToolsetFactory:
    factory: ToolsetFactory = point.load()
    return factory


def _make(point: EntryPoint) -> Toolset:
    try:
        toolset: Toolset = _loaded(point)()
    except (ImportError, AttributeError, TypeError) as error:
        raise ConfigurationError(
            f"toolset {point.name!r} ({point.value}) can not be loaded: {error}; "
            "update or remove the package that announces it"
        ) from error
    return toolset
