"""The executor: the tools of one agent, round by round."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from hermes_messages import HermesError, ToolCall
from hermes_messages.protocols import (
    RoundContext,
    RoundOutcome,
    SupportsAvailability,
    Tool,
    ToolExecutor,
    Toolset,
    ToolSnapshot,
    TurnContext,
    UnavailableTool,
)
from hermes_tools.context import CallContext
from hermes_tools.middleware import Middleware, OutputLimits, Redaction, RepeatGuard, StartCallback
from hermes_tools.registry import ToolRegistry
from hermes_tools.resources import TaskResources
from hermes_tools.secrets import SecretMasker, secret_values
from hermes_tools.settings import ExecutorSettings
from hermes_tools.shielding import finish_despite_cancel
from hermes_tools.tool_round import Dispatch, ToolRound
from hermes_tools.toolsets import SupportsRefresh

__all__ = ["Executor", "SupportsClose", "SupportsGuidance"]

_RELEASE_LIMIT_S = 10.0


@runtime_checkable
class SupportsClose(Protocol):
    """A toolset that holds something open."""

    async def close(self) -> None:
        """Release it. Idempotent."""
        ...


@runtime_checkable
class SupportsGuidance(Protocol):
    """A toolset with text on its use for the system prompt."""

    @property
    def guidance(self) -> str:
        """The text."""
        ...


class Executor:
    """Runs the tools of `toolsets` and `own_tools`, in that order. It satisfies `ToolExecutor`.

    `middleware` is the user's own part of the path to a tool (see `hermes_tools.middleware`). `secrets` are
    credentials to hide in results, beside those found in the environment. Nothing is opened here. Raises
    `ToolDeclarationError` and `ConfigurationError` for tools that can not be used together.
    """

    def __init__(
        self,
        toolsets: Sequence[Toolset] = (),
        own_tools: Sequence[Tool] = (),
        *,
        settings: ExecutorSettings | None = None,
        middleware: Sequence[Middleware] = (),
        secrets: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._toolsets = tuple(toolsets)
        self._own_tools = tuple(own_tools)
        self._settings = (settings or ExecutorSettings()).checked()
        known = secret_values(os.environ if environment is None else environment)
        self._masker = SecretMasker({*known, *secrets})
        self._redaction = Redaction(self._masker)
        self._limits = OutputLimits(self._settings.result_limit)
        self._guard = RepeatGuard(self._settings.repeat_limit) if self._settings.repeat_limit else None
        guards = (self._guard,) if self._guard else ()
        self._path: tuple[Middleware, ...] = (
            *(self._limits, *guards, self._redaction, StartCallback()),
            *middleware,
        )
        self._resources: dict[str, TaskResources] = {}
        self._abandoned: set[asyncio.Task[None]] = set()
        self._closed = False
        self._registry, self._unavailable = self._read_tools()

    async def open(self) -> None:
        """Make ready again after `close`. Idempotent."""
        self._closed = False

    async def refresh(self, context: TurnContext) -> ToolSnapshot:
        """The tools of this turn. Toolsets that follow the conversation look at `context.history`."""
        if self._guard is not None:
            self._guard.reset()
        for toolset in self._toolsets:
            if isinstance(toolset, SupportsRefresh):
                await toolset.refresh(context)
        self._registry, self._unavailable = self._read_tools()
        guidance = [toolset.guidance for toolset in self._toolsets if isinstance(toolset, SupportsGuidance)]
        return ToolSnapshot(
            tools=self._registry.specs,
            unavailable=self._unavailable,
            guidance="\n\n".join(text for text in guidance if text),
        )

    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        """Run a round; see `ToolExecutor.execute`. Raises `HermesError` on a closed executor."""
        if self._closed:
            raise HermesError("this executor is closed; no call was run; await open() to use it again")
        self._masker.learn(context.secrets)
        dispatch = Dispatch(
            registry=self._registry,
            path=self._path,
            limits=self._limits,
            redaction=self._redaction,
            guard=self._guard,
            settings=self._settings,
            make_context=self._make_context,
            abandoned=self._abandoned,
        )
        return await ToolRound(calls, context, dispatch).run()

    async def release(self, task_id: str) -> None:
        """Stop the processes and remove the temporary files of `task_id`. Idempotent; it is finished even
        when the task that awaits it is cancelled, within 10 s."""
        resources = self._resources.get(task_id)
        if resources is not None:
            await finish_despite_cancel(resources.release, _RELEASE_LIMIT_S)
            self._resources.pop(task_id, None)

    async def close(self) -> None:
        """Release every task and close the toolsets. Idempotent."""
        self._closed = True
        await finish_despite_cancel(self._close, 2 * _RELEASE_LIMIT_S)

    async def _close(self) -> None:
        for task in self._abandoned:
            task.cancel()
        if self._abandoned:
            await asyncio.wait(self._abandoned, timeout=self._settings.stop_limit_s)
        for task_id, resources in list(self._resources.items()):
            await resources.release()
            self._resources.pop(task_id, None)
        for toolset in self._toolsets:
            if isinstance(toolset, SupportsClose):
                await toolset.close()

    def _make_context(self, call: ToolCall, round_: RoundContext) -> CallContext:
        resources = self._resources.get(round_.task_id)
        if resources is None:
            resources = self._resources[round_.task_id] = TaskResources(round_.task_id)
        return CallContext(
            call,
            round_,
            resources=resources,
            masker=self._masker,
            extra_roots=self._settings.extra_roots,
        )

    def _read_tools(self) -> tuple[ToolRegistry, tuple[UnavailableTool, ...]]:
        """The usable tools in order, and what is enabled but absent."""
        usable: list[Tool] = []
        absent: list[UnavailableTool] = []
        for toolset in self._toolsets:
            reason = _reason(toolset)
            if reason is not None:
                absent.append(UnavailableTool(toolset.name, reason))
                continue
            _sort_out(toolset.tools, usable, absent)
        _sort_out(self._own_tools, usable, absent)
        return ToolRegistry(usable), tuple(absent)


def _sort_out(tools: Sequence[Tool], usable: list[Tool], absent: list[UnavailableTool]) -> None:
    for tool in tools:
        reason = _reason(tool)
        if reason is None:
            usable.append(tool)
        else:
            absent.append(UnavailableTool(tool.spec.name, reason))


def _reason(thing: Tool | Toolset) -> str | None:
    return thing.unavailable_reason() if isinstance(thing, SupportsAvailability) else None


if TYPE_CHECKING:

    def _fits(executor: Executor) -> ToolExecutor:
        return executor
