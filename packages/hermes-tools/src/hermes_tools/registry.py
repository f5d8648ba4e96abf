"""The tools of one turn by name: checked when they are registered, in an order that does not change."""

from __future__ import annotations

import difflib
import inspect
import re
import typing
from collections.abc import Iterable
from functools import lru_cache
from typing import Protocol, runtime_checkable

import msgspec

from hermes_messages import ConfigurationError, JsonObject, ToolDeclarationError, ToolSpec
from hermes_messages.abilities import supports
from hermes_messages.protocols import Scheduling, Tool
from hermes_tools.tool import FunctionTool

__all__ = [
    "RegisteredTool",
    "SupportsChanges",
    "SupportsLimits",
    "ToolRegistry",
    "check_tool",
    "normalised_name",
]

_SCHEDULING = typing.get_args(Scheduling)
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_AFFIXES = re.compile(r"^(?:functions?|tools?|default_api)[_.]+|(?:_?tool)+$")


@runtime_checkable
class SupportsLimits(Protocol):
    """A tool with limits of its own; None leaves one to the executor."""

    @property
    def timeout_s(self) -> float | None:
        """How long one call may take, in seconds."""
        ...

    @property
    def output_limit(self) -> int | None:
        """How long one result may be, in characters."""
        ...


@runtime_checkable
class SupportsChanges(Protocol):
    """A tool that says whether it changes files; a checkpoint is taken before one that does."""

    @property
    def changes_files(self) -> bool:
        """Whether a call may change files in the working directory."""
        ...


class RegisteredTool(msgspec.Struct, frozen=True):
    """A tool with what was found out about it once: its schema, decoded, and its limits."""

    tool: Tool
    schema: JsonObject
    timeout_s: float | None = None
    output_limit: int | None = None


class ToolRegistry:
    """Tools by name, in the order given."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        """Raises `ToolDeclarationError` for an object that is no usable tool, `ConfigurationError` for two
        tools of one name."""
        self._tools: dict[str, RegisteredTool] = {}
        for tool in tools:
            schema = check_tool(tool)
            name = tool.spec.name
            if name in self._tools:
                raise ConfigurationError(f"two tools are named {name!r}; rename one or leave out its toolset")
            limits: tuple[float | None, int | None] = (None, None)
            if type(tool) is FunctionTool or supports(tool, SupportsLimits):
                limits = (tool.timeout_s, tool.output_limit)
            self._tools[name] = RegisteredTool(tool, schema, *limits)
        self.specs: tuple[ToolSpec, ...] = tuple([entry.tool.spec for entry in self._tools.values()])
        self._normalised: dict[str, list[str]] | None = None

    def __len__(self) -> int:
        return len(self._tools)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tools, in order."""
        return tuple(self._tools)

    def find(self, name: str) -> RegisteredTool | None:
        """The tool that `name` means: the one of that name, else the only one that differs from it in
        nothing but case, dashes and words like `functions.` or `_tool`. None for anything else."""
        found = self._tools.get(name)
        if found is None and name:
            candidates = self._by_normalised_name().get(normalised_name(name), [])
            found = self._tools[candidates[0]] if len(candidates) == 1 else None
        return found

    def _by_normalised_name(self) -> dict[str, list[str]]:
        """Made when a model first writes a name that no tool has: most never do."""
        if self._normalised is None:
            self._normalised = {}
            for name in self._tools:
                self._normalised.setdefault(normalised_name(name), []).append(name)
        return self._normalised

    def near(self, name: str) -> tuple[str, ...]:
        """The names most like `name`, the nearest first."""
        return tuple(difflib.get_close_matches(name, self._tools, n=3, cutoff=0.5))


def normalised_name(name: str) -> str:
    """A name without what models add to names: `TodoTool_tool`, `functions.todo` and `Todo` become `todo`."""
    snake = _WORD_START.sub("_", name.strip()).lower().replace("-", "_").replace(" ", "_")
    return (_AFFIXES.sub("", _AFFIXES.sub("", snake)) or snake).replace("_", "")


def check_tool(tool: Tool) -> JsonObject:
    """The schema of `tool`, after a check that it can be run. Raises `ToolDeclarationError`."""
    if type(tool) is not FunctionTool:
        _check_methods(tool)
    name = tool.spec.name
    if tool.scheduling not in _SCHEDULING:
        raise ToolDeclarationError(f"tool {name!r}: scheduling {tool.scheduling!r} is none of {_SCHEDULING}")
    if not name.strip():
        raise ToolDeclarationError(f"{tool!r} has an empty name")
    try:
        return _decoded(bytes(tool.spec.parameters))
    except msgspec.DecodeError as error:
        raise ToolDeclarationError(
            f"tool {name!r}: its parameters are no JSON schema object: {error}"
        ) from None


def _check_methods(tool: Tool) -> None:
    missing = [member for member in ("spec", "scheduling", "run") if not hasattr(tool, member)]
    if missing:
        raise ToolDeclarationError(
            f"{tool!r} is no tool: it has no {', '.join(missing)}; make one of an async function with @tool"
        )
    if not inspect.iscoroutinefunction(tool.run):
        raise ToolDeclarationError(
            f"tool {tool.spec.name!r}: run() is not an async method; declare it with `async def`"
        )


@lru_cache(maxsize=512)
def _decoded(parameters: bytes) -> JsonObject:
    """A schema; executors share it, and read it only."""
    schema: JsonObject = msgspec.json.decode(parameters, type=dict[str, typing.Any])
    return schema
