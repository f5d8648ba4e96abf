"""The executor: the tools of one agent, round by round."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from hermes_messages import ConfigurationError, HermesError, ToolCall, ToolMessage, ToolSpec, parse_arguments
from hermes_messages.abilities import supports
from hermes_messages.approvals import ApprovalAnswer, ApprovalDecision, Approve, match_decisions
from hermes_messages.protocols import (
    RoundContext,
    RoundOutcome,
    SupportsAvailability,
    SupportsDecisions,
    SupportsIdempotence,
    SupportsRepetition,
    Tool,
    ToolExecutor,
    Toolset,
    ToolSnapshot,
    TurnContext,
    UnavailableTool,
)
from hermes_tools.approvals import Approvals
from hermes_tools.arguments import fit_arguments
from hermes_tools.context import CallContext
from hermes_tools.errors import ArgumentsMismatchError
from hermes_tools.failures import place as place_of
from hermes_tools.guardrails import Guardrails
from hermes_tools.middleware import Insert, Middleware, Station, compose, place, run_end_of_path
from hermes_tools.registry import ToolRegistry, check_tool
from hermes_tools.resources import TaskResources
from hermes_tools.secrets import SecretMasker, own_secrets, secret_values
from hermes_tools.settings import ExecutorSettings
from hermes_tools.shielding import finish_despite_cancel
from hermes_tools.stations import Budgets, Callbacks, Redaction
from hermes_tools.tool import FunctionTool
from hermes_tools.tool_round import Dispatch, ToolRound
from hermes_tools.toolsets import SupportsRefresh

if TYPE_CHECKING:  # most agents have no checkpoints and no container
    from hermes_tools.checkpoints import Checkpoints
    from hermes_tools.containers.engine import ContainerEngine
    from hermes_tools.containers.runner import ContainerCommands
    from hermes_tools.containers.settings import ContainerSettings

__all__ = ["Executor", "SupportsClose", "SupportsGuidance"]

P = TypeVar("P")

logger: logging.Logger = logging.getLogger(__name__)

_NO_TOOLS = ToolRegistry(())
_RELEASE_LIMIT_S = 15.0
_IN_CONTAINER = "Shell commands and file tools work in a container, on all of its files."


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
    """Runs the tools of `toolsets` and `own_tools`, in that order. It satisfies `ToolExecutor`,
    `SupportsDecisions` and `SupportsRepetition`.

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
        middleware: Sequence[Middleware | Insert] = (),
        secrets: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._toolsets = tuple(toolsets)
        self._refreshers = _those_that(self._toolsets, SupportsRefresh)
        self._guides = _those_that(self._toolsets, SupportsGuidance)
        self._closers = _those_that(self._toolsets, SupportsClose)
        self._own_tools = tuple(own_tools)
        self._settings = ExecutorSettings() if settings is None else settings.checked()
        known = own_secrets() if environment is None else secret_values(environment)
        self._masker = SecretMasker({*known, *secrets})
        self._redaction = Redaction(self._masker)
        self._budgets = Budgets(self._settings.result_limit, self._settings.turn_call_limit)
        self._guardrails = Guardrails(self._settings.repeat_limit)
        self._checkpoints: dict[str, Checkpoints] = {}
        self._containers = _engine_of(self._settings.container)
        self._commands: dict[TaskResources, ContainerCommands] = {}
        self._handler = compose(place(self._stations(), middleware), run_end_of_path)
        self._resources: dict[str, TaskResources] = {}
        self._abandoned: set[asyncio.Task[None]] = set()
        self._closed = False
        self._registry, self._seen = _NO_TOOLS, list[tuple[Tool, ToolSpec]]()
        self._registry, self._unavailable = self._read_tools()

    async def open(self) -> None:
        """Make ready, again after `close`. Idempotent. Raises `ContainerError` where commands are to run in a
        container and none can be had."""
        if self._containers is not None:
            await self._containers.check()
        self._closed = False

    async def refresh(self, context: TurnContext) -> ToolSnapshot:
        """The tools of this turn. Toolsets that follow the conversation look at `context.history`."""
        self._guardrails.reset()
        self._budgets.reset()
        for toolset in self._refreshers:
            await toolset.refresh(context)
        self._registry, self._unavailable = self._read_tools()
        unavailable = list(self._unavailable)
        if self._settings.checkpoints:
            reason = await self.checkpoints_of(context.cwd).unavailable_reason()
            if reason is not None:
                unavailable.append(UnavailableTool("checkpoints", reason))
        guidance = [toolset.guidance for toolset in self._guides]
        if self._settings.container is not None:
            guidance.append(_IN_CONTAINER)
        return ToolSnapshot(
            tools=self._registry.specs,
            unavailable=tuple(unavailable),
            guidance="\n\n".join(text for text in guidance if text),
        )

    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        """Run a round; see `ToolExecutor.execute`. Raises `HermesError` on a closed executor."""
        return await ToolRound(calls, context, self._dispatch(context)).run()

    async def resume(
        self,
        calls: Sequence[ToolCall],
        results: Sequence[ToolMessage | None],
        decisions: Mapping[str, ApprovalAnswer],
        context: RoundContext,
    ) -> RoundOutcome:
        """Finish a round; see `SupportsDecisions.resume`. Raises `HermesError` on a closed executor."""
        matched = match_decisions(calls, results, decisions)
        for position, decision in matched.items():
            self._check_changed(calls[position], decision)
        return await ToolRound(calls, context, self._dispatch(context), results, matched).run()

    def may_repeat(self, call: ToolCall) -> bool:
        """Whether the tool of `call` says that a second run does no harm."""
        entry = self._registry.find(call.name)
        return entry is not None and supports(entry.tool, SupportsIdempotence) and entry.tool.idempotent

    def _check_changed(self, call: ToolCall, decision: ApprovalDecision) -> None:
        entry = self._registry.find(call.name)
        if entry is None or not isinstance(decision, Approve) or decision.arguments is None:
            return
        try:
            fit_arguments(parse_arguments(decision.arguments), entry.schema)
        except ArgumentsMismatchError as error:
            raise ConfigurationError(
                f"the changed arguments for call {call.id!r} do not fit: {error}"
            ) from None

    def _stations(self) -> list[Station]:
        """Our part of the path, the outermost first."""
        stations = [
            Station("budgets", self._budgets),
            Station("guardrails", self._guardrails),
            Station("redaction", self._redaction),
            Station("approval", Approvals(self._settings.approval_policy, self._redaction)),
        ]
        if self._settings.checkpoints:
            from hermes_tools.checkpoints import CheckpointStation

            changing = frozenset(self._settings.checkpoint_tools)
            stations.append(Station("checkpoint", CheckpointStation(self.checkpoints_of, changing)))
        return [*stations, Station("callbacks", Callbacks())]

    def checkpoints_of(self, cwd: str) -> Checkpoints:
        """The snapshots of a working directory, to list, compare and restore them."""
        known = self._checkpoints.get(cwd)
        if known is None:
            from hermes_tools.checkpoints import Checkpoints

            settings = self._settings
            known = self._checkpoints[cwd] = Checkpoints(
                cwd,
                directory=settings.checkpoint_directory,
                file_limit=settings.checkpoint_file_limit,
                files_limit=settings.checkpoint_files_limit,
                keep=settings.checkpoint_keep,
            )
        return known

    def _dispatch(self, context: RoundContext) -> Dispatch:
        if self._closed:
            raise HermesError("this executor is closed; no call was run; await open() to use it again")
        self._masker.learn(context.secrets)
        return Dispatch(
            registry=self._registry,
            handler=self._handler,
            budgets=self._budgets,
            redaction=self._redaction,
            guardrails=self._guardrails,
            policy=self._settings.approval_policy,
            settings=self._settings,
            make_context=self._make_context,
            abandoned=self._abandoned,
        )

    def is_idle(self, task_id: str | None = None) -> bool:
        """Whether `task_id`, or without one the executor, holds nothing: then its `release`, or `close`, has
        nothing to wait for."""
        if task_id is not None:
            resources = self._resources.get(task_id)
            return resources is None or resources.is_empty
        return not (self._resources or self._abandoned or self._closers)

    async def release(self, task_id: str) -> None:
        """Stop the processes and remove the temporary files of `task_id`. Idempotent; it is finished even
        when the task that awaits it is cancelled, within 15 s."""
        resources = self._resources.get(task_id)
        if resources is not None:
            if not resources.is_empty:
                await finish_despite_cancel(resources.release, _RELEASE_LIMIT_S)
            self._resources.pop(task_id, None)

    async def close(self) -> None:
        """Release every task and close the toolsets. Idempotent. Raises what a toolset raises, after all
        others are closed."""
        self._closed = True
        if not self.is_idle():
            await finish_despite_cancel(self._close, 2 * _RELEASE_LIMIT_S)

    async def _close(self) -> None:
        for task in self._abandoned:
            task.cancel()
        if self._abandoned:
            await asyncio.wait(self._abandoned, timeout=self._settings.stop_limit_s)
        for task_id, resources in list(self._resources.items()):
            await resources.release()
            self._resources.pop(task_id, None)
        failures: list[Exception] = []
        for toolset in self._closers:
            try:
                await toolset.close()
            except Exception as error:  # noqa: BLE001 - raised when all others are closed
                failures.append(error)
        for further in failures[1:]:
            logger.warning("a further toolset could not be closed: %s", place_of(further))
        if failures:
            raise failures[0]

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
            commands=self._commands_of(resources),
        )

    def _commands_of(self, resources: TaskResources) -> ContainerCommands | None:
        """The container of a task, if it is to have one; it is removed with the task's resources."""
        if self._containers is None:
            return None
        commands = self._commands.get(resources)
        if commands is None:
            from hermes_tools.containers.runner import ContainerCommands

            commands = self._commands[resources] = ContainerCommands(self._containers, resources.task_id)
            resources.on_release(self._release_of(commands, resources))
        return commands

    def _release_of(
        self, commands: ContainerCommands, resources: TaskResources
    ) -> Callable[[], Awaitable[None]]:
        async def release() -> None:
            await commands.release()
            self._commands.pop(resources, None)

        return release

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
        usable, unknown = _without(usable, self._settings.disabled_tools)
        known = {item.name for item in absent}
        absent += [item for item in unknown if item.name not in known]
        if len(usable) != len(self._seen) or not all(
            tool is known_tool and tool.spec is spec
            for tool, (known_tool, spec) in zip(usable, self._seen, strict=True)
        ):
            self._registry = ToolRegistry(usable)
            self._seen = [(tool, tool.spec) for tool in usable]
        return self._registry, tuple(absent)


def _those_that(toolsets: tuple[Toolset, ...], protocol: Callable[..., P]) -> tuple[P, ...]:
    """The toolsets with an ability."""
    return tuple([one for one in toolsets if supports(one, protocol)]) if toolsets else ()


def _engine_of(container: ContainerSettings | None) -> ContainerEngine | None:
    if container is None:
        return None
    from hermes_tools.containers.engine import ContainerEngine

    return ContainerEngine(container)


def _without(tools: list[Tool], names: Sequence[str]) -> tuple[list[Tool], list[UnavailableTool]]:
    """The tools that are not among `names`, and those of the names that no tool has."""
    if not names:
        return tools, []
    for tool in tools:
        check_tool(tool)
    found = {tool.spec.name for tool in tools}
    reason = "disabled_tools names it, and there is no such tool"
    unknown = [UnavailableTool(name, reason) for name in sorted({*names} - found)]
    return [tool for tool in tools if tool.spec.name not in names], unknown


def _sort_out(tools: Sequence[Tool], usable: list[Tool], absent: list[UnavailableTool]) -> None:
    for tool in tools:
        reason = _reason(tool)
        if reason is None:
            usable.append(tool)
        else:
            absent.append(UnavailableTool(tool.spec.name, reason))


def _reason(thing: Tool | Toolset) -> str | None:
    if type(thing) is FunctionTool:
        return None
    return thing.unavailable_reason() if supports(thing, SupportsAvailability) else None


if TYPE_CHECKING:

    def _fits(executor: Executor) -> ToolExecutor:
        return executor

    def _decides(executor: Executor) -> tuple[SupportsDecisions, SupportsRepetition]:
        return executor, executor
