"""`delegate_task`: child agents do parts of the work, each with a conversation and a budget of its own.

The agents come from the `AgentFactory` of the round. A child sees nothing of the conversation but its task;
its last answer is all that comes back.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING

import msgspec

from hermes_messages import ConfigurationError, HermesError, JsonValue
from hermes_messages.protocols import (
    Agent,
    AgentFactory,
    AgentRequest,
    ConversationResult,
    SupportsAvailability,
    Tool,
    Toolset,
    TurnContext,
)
from hermes_tools.context import CallContext
from hermes_tools.errors import ToolFailure
from hermes_tools.failures import describe, place
from hermes_tools.output_limits import cut_middle
from hermes_tools.shielding import finish_despite_cancel
from hermes_tools.tool import tool
from hermes_tools.toolsets import SupportsRefresh, SupportsSettings

__all__ = ["DelegatedTask", "DelegationSettings", "DelegationToolset"]

logger: logging.Logger = logging.getLogger(__name__)

_CLOSE_LIMIT_S = 10.0
_NO_FACTORY = "there is no factory for child agents"
_ENDING = (
    "You do this for another agent that sees only your last answer. When you are done, answer with what you "
    "found or did, where it is, and what is left open, as briefly as that can be said."
)

_depth: ContextVar[int] = ContextVar("hermes_delegation_depth", default=0)
"""How many delegations are above the code that runs now; children run in the context of their call."""


class DelegatedTask(msgspec.Struct, frozen=True):
    """One part of the work. `context` is what the child needs to know; without `toolsets` it has its usual
    ones."""

    goal: str
    context: str = ""
    toolsets: list[str] | None = None


class DelegationSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The setting `delegation` of an executor.

    `iterations` are the model calls that all children of one call may make together: each gets an equal
    share. `max_depth` 1 means that children can not delegate. `timeout` bounds one child, in seconds.
    `result_limit` is how much of a child's answer comes back, in characters.
    """

    max_tasks: int = 8
    max_parallel: int = 3
    max_depth: int = 1
    iterations: int = 60
    timeout: float | None = None
    result_limit: int = 8_000

    def checked(self) -> DelegationSettings:
        """These settings. Raises `ConfigurationError` for numbers that can not work."""
        numbers = msgspec.structs.asdict(self)
        for name, value in numbers.items():
            if value is not None and value <= 0:
                raise ConfigurationError(f"the setting delegation: {name} must be above 0")
        return self


class DelegationToolset:
    """The toolset `delegation`. It is absent where the turn has no factory for agents, and in children that
    may not delegate."""

    name = "delegation"

    def __init__(self, settings: DelegationSettings | None = None) -> None:
        """Raises `ConfigurationError`."""
        self._settings = (settings or DelegationSettings()).checked()
        self._reason: str | None = None

        @tool(scheduling="sequential")
        async def delegate_task(context: CallContext, tasks: list[DelegatedTask]) -> str:
            """Have other agents do parts of the work, side by side. They know nothing of this conversation.

            Args:
                tasks: goal, what to know for it (context), toolsets
            """
            return await _Delegation(self._settings, tasks, context).run()

        self._tools: tuple[Tool, ...] = (delegate_task,)

    @property
    def tools(self) -> Sequence[Tool]:
        """Its one tool."""
        return self._tools

    def configure(self, settings: JsonValue) -> None:
        """Take over the setting `delegation`. Raises `ConfigurationError`."""
        if not isinstance(settings, Mapping):
            raise ConfigurationError("the setting delegation must be a mapping")
        try:
            self._settings = msgspec.convert(dict(settings), DelegationSettings).checked()
        except msgspec.ValidationError as error:
            raise ConfigurationError(f"the setting delegation: {error}") from None

    async def refresh(self, context: TurnContext) -> None:
        """See whether the turn can make agents."""
        self._reason = _NO_FACTORY if context.agent_factory is None else _depth_reason(self._settings)

    def unavailable_reason(self) -> str | None:
        """Says what is missing, if anything is."""
        return self._reason


def _depth_reason(settings: DelegationSettings) -> str | None:
    depth = _depth.get()
    return f"agents at depth {depth} may not delegate further" if depth >= settings.max_depth else None


class _Delegation:
    """One call: its children, and what has come of each."""

    def __init__(
        self, settings: DelegationSettings, tasks: Sequence[DelegatedTask], context: CallContext
    ) -> None:
        self._settings = settings
        self._tasks = tasks
        self._context = context
        self._reports: list[str | None] = [None] * len(tasks)
        self._done = 0

    async def run(self) -> str:
        """The reports of all children, in the order of the tasks. Raises `ToolFailure` if all failed."""
        factory = self._context.round.agent_factory
        self._check(factory)
        assert factory is not None
        self._context.partial_output_from(self._so_far)
        await factory.open()
        places = asyncio.Semaphore(self._settings.max_parallel)
        reset = _depth.set(_depth.get() + 1)
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(len(self._tasks)):
                    group.create_task(self._run_child(factory, number, places))
        finally:
            _depth.reset(reset)
        if not self._done:
            raise ToolFailure(self._so_far())
        return self._so_far()

    def _check(self, factory: AgentFactory | None) -> None:
        reason = _NO_FACTORY if factory is None else _depth_reason(self._settings)
        if reason is not None:
            raise ToolFailure(reason)
        if not 0 < len(self._tasks) <= self._settings.max_tasks:
            raise ToolFailure(f"give 1 to {self._settings.max_tasks} tasks; none was begun")
        for number, task in enumerate(self._tasks, 1):
            if not task.goal.strip():
                raise ToolFailure(f"task {number} has no goal; none was begun")

    def _so_far(self) -> str:
        reports = (report or f"## Task {n}: not finished" for n, report in enumerate(self._reports, 1))
        return "\n\n".join(reports)

    async def _run_child(self, factory: AgentFactory, number: int, places: asyncio.Semaphore) -> None:
        async with places:
            limit = asyncio.timeout(self._settings.timeout)
            try:
                async with limit:
                    result = await self._result_of(factory, number)
            except Exception as error:  # noqa: BLE001 - a child that fails is a result; the others go on
                if isinstance(error, TimeoutError) and limit.expired():
                    report = f"failed: it took longer than {self._settings.timeout:g} s"
                else:
                    if not isinstance(error, HermesError):
                        logger.warning("child agent %d failed: %s", number + 1, place(error))
                    report = f"failed: {describe(error)}"
            else:
                report = self._report(result)
        self._reports[number] = f"## Task {number + 1}: {report}"
        finished = sum(report is not None for report in self._reports)
        await self._context.progress(f"{finished} of {len(self._tasks)} tasks ended")

    async def _result_of(self, factory: AgentFactory, number: int) -> ConversationResult:
        """Run one child from its making to its end."""
        task, round_ = self._tasks[number], self._context.round
        mark = secrets.token_hex(6)
        agent: Agent = factory.create_agent(
            AgentRequest(
                session_id=f"delegated-{mark}",
                task_id=f"{round_.task_id}-{mark}",
                cwd=round_.cwd,
                source="delegation",
                toolsets=None if task.toolsets is None else tuple(task.toolsets),
                max_iterations=max(1, self._settings.iterations // len(self._tasks)),
                metadata={
                    "parent_session_id": round_.session_id,
                    "parent_task_id": round_.task_id,
                    "depth": _depth.get(),
                },
            )
        )
        parts = [task.goal.strip(), task.context.strip(), _ENDING]
        try:
            return await agent.run_conversation(
                "\n\n".join(part for part in parts if part), task_id=f"{round_.task_id}-{mark}"
            )
        finally:
            await finish_despite_cancel(agent.close, _CLOSE_LIMIT_S)

    def _report(self, result: ConversationResult) -> str:
        calls = f"{result['api_calls']} model calls, session {result['session_id']}"
        answer = (result["final_response"] or "").strip()
        shown = cut_middle(answer, self._settings.result_limit, "[... {left_out} characters left out ...]")
        if result["failed"]:
            return f"failed ({calls}): {result['error'] or result['turn_exit_reason']}\n{shown}".rstrip()
        self._done += 1
        ended = "done" if result["completed"] else f"not complete, {result['turn_exit_reason']}"
        return f"{ended} ({calls})\n{shown or '[no answer]'}"


if TYPE_CHECKING:

    def _fits(
        toolset: DelegationToolset,
    ) -> tuple[Toolset, SupportsRefresh, SupportsAvailability, SupportsSettings]:
        return toolset, toolset, toolset, toolset
