"""The joint between the loop and tools, and between an executor and the tools it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

from hermes_messages.approvals import (
    ApprovalAnswer,
    ApprovalCallback,
    ApprovalDecision,
    Approve,
    Deny,
    Later,
    PendingApproval,
)
from hermes_messages.argument_text import JsonObject, JsonValue
from hermes_messages.exchange import ToolSpec
from hermes_messages.messages import Message, ToolCall, ToolMessage
from hermes_messages.protocols.agent import AgentFactory
from hermes_messages.protocols.store import SessionStore

__all__ = [
    "ApprovalAnswer",
    "ApprovalCallback",
    "ApprovalDecision",
    "Approve",
    "ClarifyCallback",
    "Deny",
    "ExecutorFactory",
    "ExecutorOptions",
    "InterruptSignal",
    "Later",
    "PendingApproval",
    "ResultCallback",
    "RoundContext",
    "RoundOutcome",
    "Scheduling",
    "SupportsAvailability",
    "SupportsDecisions",
    "SupportsIdempotence",
    "SupportsRepetition",
    "Tool",
    "ToolCallContext",
    "ToolCompleteCallback",
    "ToolExecutor",
    "ToolProgressCallback",
    "ToolSnapshot",
    "ToolStartCallback",
    "Toolset",
    "ToolsetFactory",
    "TurnContext",
    "UnavailableTool",
]

Scheduling = Literal["parallel", "sequential", "interactive"]
"""`parallel`: may overlap with its neighbours. `sequential`: runs alone, in order. `interactive`: runs alone
and may wait for a person."""


class InterruptSignal(Protocol):
    """How a running round learns that the turn was interrupted."""

    @property
    def requested(self) -> bool:
        """Whether an interrupt was asked for."""
        ...

    async def wait(self) -> None:
        """Return once an interrupt is asked for."""
        ...


ToolStartCallback = Callable[[ToolCall], Awaitable[None] | None]
"""Called with a call before it runs. May be async; a plain one runs on the event loop and must be short."""
ToolProgressCallback = Callable[[ToolCall, str], Awaitable[None] | None]
"""Called with a call that runs and what its tool tells of it."""
ToolCompleteCallback = Callable[[ToolCall, ToolMessage], Awaitable[None] | None]
"""Called with a call that has ended and its result."""
ClarifyCallback = Callable[[str, Sequence[str]], Awaitable[str]]
"""Awaited with a question and the answers to choose from, which may be none; gives the answer."""
ResultCallback = Callable[[int, ToolMessage], Awaitable[None]]
"""Awaited with the position of a call in its round, from 0, and its result. Here results become durable."""


class TurnContext(Struct, frozen=True, kw_only=True):
    """Who asks, once per turn. `history` is the conversation so far, for tools that keep state in it.

    `store`, `agent_factory` and `clarify` are what the rounds of the turn will be given, so that a toolset
    can restore its state and say at once that it lacks something.
    """

    session_id: str
    """The conversation."""
    task_id: str
    """Whom files, processes and containers are kept for until `ToolExecutor.release`."""
    turn_id: str
    """New with every turn."""
    cwd: str
    """The directory that relative paths start at."""
    history: Sequence[Message] = ()
    store: SessionStore | None = None
    agent_factory: AgentFactory | None = None
    clarify: ClarifyCallback | None = None


class RoundContext(Struct, frozen=True, kw_only=True):
    """All that a round of tool calls may use.

    `on_result` is awaited with the position of the call in the round and its result as soon as that call
    ends, before `execute` returns: that is how results become durable one by one. Callbacks that are plain
    functions are called on the event loop and must be short.

    `approval` is asked about calls that the executor does not run unasked. Without it they are denied, with
    the reason for asking; nothing is ever asked on a terminal.

    `secrets` are the credentials that the library holds now. An executor masks them beside those of
    `ExecutorOptions.secrets`: a token that was fetched since is only here. They are left out of the repr.
    """

    session_id: str
    """The conversation."""
    task_id: str
    """Whom files, processes and containers are kept for until `ToolExecutor.release`."""
    turn_id: str
    """The same in all rounds of a turn."""
    cwd: str
    """The directory that relative paths start at."""
    interrupt: InterruptSignal
    """Set when the turn is to end: calls that run are stopped, the others not begun."""
    on_result: ResultCallback
    store: SessionStore | None = None
    """Where the session is kept; None: nowhere."""
    agent_factory: AgentFactory | None = None
    """What makes agents for parts of the work; None: tools can hand on none."""
    tool_start: ToolStartCallback | None = None
    """The host is told with it that a call begins."""
    tool_progress: ToolProgressCallback | None = None
    """The host is told with it what a tool says meanwhile."""
    tool_complete: ToolCompleteCallback | None = None
    """The host is told with it how a call ended."""
    clarify: ClarifyCallback | None = None
    """Asks the user; None: there is nobody to ask."""
    approval: ApprovalCallback | None = None
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"RoundContext(session_id={self.session_id!r}, turn_id={self.turn_id!r}, cwd={self.cwd!r})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [("session_id", self.session_id), ("turn_id", self.turn_id), ("cwd", self.cwd)]


class UnavailableTool(Struct, frozen=True):
    """A tool or toolset that is enabled but absent, and why."""

    name: str
    """As it was asked for."""
    reason: str
    """For people, with what to do about it."""


class ToolSnapshot(Struct, frozen=True, kw_only=True):
    """The tools of one turn, in a stable order. `guidance` is text on their use for the system prompt."""

    tools: tuple[ToolSpec, ...] = ()
    """What the model is offered in all requests of the turn."""
    unavailable: tuple[UnavailableTool, ...] = ()
    """What was asked for and can not be offered now."""
    guidance: str = ""


class RoundOutcome(Struct, frozen=True, kw_only=True):
    """The results of a round in the order of its calls; a call in `pending` has None in `results`."""

    results: tuple[ToolMessage | None, ...]
    pending: tuple[PendingApproval, ...] = ()


class ToolExecutor(Protocol):
    """Runs rounds of tool calls. One executor serves one agent."""

    async def open(self) -> None:
        """Make ready. Idempotent. Raises `ConfigurationError`."""
        ...

    async def refresh(self, context: TurnContext) -> ToolSnapshot:
        """The tools of this turn; called once at its start."""
        ...

    async def execute(self, calls: Sequence[ToolCall], context: RoundContext) -> RoundOutcome:
        """Run `calls`; exactly one result for each, whatever happens, save those left pending.

        A call is pending only when the `approval` callback answered `Later`. The others run all the same,
        also those that come after it; `SupportsDecisions.resume` finishes the round. An interrupt settles
        pending calls as `not_started`: `pending` is then empty.

        A tool's failure is a result, not an exception. An interrupt makes results of status `interrupted`
        and `not_started`. Cancelling the task that awaits this stops every running tool, waits for them and
        re-raises; results that were handed to `on_result` by then stand. An exception of `on_result` stops
        the round in the same way and is raised.
        """
        ...

    async def release(self, task_id: str) -> None:
        """Stop the processes and remove the temporary files that belong to `task_id`. Idempotent."""
        ...

    async def close(self) -> None:
        """Release everything. Idempotent."""
        ...


@runtime_checkable
class SupportsDecisions(Protocol):
    """An executor that finishes a round which came back with pending calls, also in another process."""

    async def resume(
        self,
        calls: Sequence[ToolCall],
        results: Sequence[ToolMessage | None],
        decisions: Mapping[str, ApprovalAnswer],
        context: RoundContext,
    ) -> RoundOutcome:
        """Finish the round of `calls`, of which `results` are there by now (None where one is missing).

        `decisions` are by call id. An approved call runs without being asked about again, with the changed
        arguments if there are any; a denied one gets a result of status `denied` with the reason. A missing
        call without a decision, or with `Later`, stays pending; the `approval` callback is not asked. A
        call with a result never runs again: `results` come back as they were, and `on_result` is awaited
        for the new ones only. Approved calls keep the order and the barriers of `execute`; interrupt,
        cancellation and a failing `on_result` act as there. What the executor's policy denies stays denied.

        Raises `ConfigurationError` before anything runs: for results that do not belong to `calls`, a
        decision for a call that is unknown or has its result, and changed arguments that are no JSON object
        or do not fit the tool (see `hermes_messages.approvals.match_decisions`).
        """
        ...


@runtime_checkable
class SupportsRepetition(Protocol):
    """An executor that knows which calls may be run a second time."""

    def may_repeat(self, call: ToolCall) -> bool:
        """Whether running `call` again does no harm, though it may have run before: its tool says so."""
        ...


class ToolCallContext(Protocol):
    """What one running tool may use."""

    @property
    def call(self) -> ToolCall:
        """The call as the model made it."""
        ...

    @property
    def round(self) -> RoundContext:
        """The round it belongs to."""
        ...

    async def progress(self, text: str) -> None:
        """Tell the host how it goes."""
        ...


class Tool(Protocol):
    """A tool that an executor can run. Any object with these members is one."""

    @property
    def spec(self) -> ToolSpec:
        """Name, description and schema, as the model sees them."""
        ...

    @property
    def scheduling(self) -> Scheduling:
        """Whether calls of it may overlap with others."""
        ...

    async def run(self, arguments: JsonObject, context: ToolCallContext) -> str:
        """Do it and return what the model is told. An exception becomes an error result with its text."""
        ...


class Toolset(Protocol):
    """A named group of tools."""

    @property
    def name(self) -> str:
        """The name by which it is enabled (`file`)."""
        ...

    @property
    def tools(self) -> Sequence[Tool]:
        """Its tools, in the order in which the model sees them."""
        ...


@runtime_checkable
class SupportsAvailability(Protocol):
    """A toolset or tool that can be absent (a missing key, binary or callback)."""

    def unavailable_reason(self) -> str | None:
        """Why it can not be used here, or None when it can."""
        ...


@runtime_checkable
class SupportsIdempotence(Protocol):
    """A tool that says whether its calls may run twice."""

    @property
    def idempotent(self) -> bool:
        """Whether a call that runs a second time does no harm: it only reads, or does the same once more."""
        ...


class ToolsetFactory(Protocol):
    """What an entry point of the group `hermes.toolsets` names; called once for each executor."""

    def __call__(self) -> Toolset:
        """A new toolset with state of its own."""
        ...


class ExecutorOptions(Struct, frozen=True, kw_only=True):
    """How an executor is to be built. `own_tools` are objects of the `Tool` Protocol.

    `secrets` are credentials given to the library, as far as they are known when it is built: an executor
    masks them in what tools return, and they are left out of the repr. Later ones come with each round.
    `settings` are the executor's own options by name; an unknown one raises `ConfigurationError`.
    """

    cwd: str
    """The directory that relative paths start at."""
    disabled_toolsets: tuple[str, ...] = ()
    """Names that are left out, also of what a group brings."""
    own_tools: tuple[Tool, ...] = ()
    settings: Mapping[str, JsonValue] = {}
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"ExecutorOptions(cwd={self.cwd!r}, disabled_toolsets={self.disabled_toolsets!r})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [("cwd", self.cwd), ("disabled_toolsets", self.disabled_toolsets)]


class ExecutorFactory(Protocol):
    """What an entry point of the group `hermes.executors` names (ours is `default`). Nothing is opened."""

    def __call__(self, toolsets: Sequence[str], options: ExecutorOptions) -> ToolExecutor:
        """Build the executor. Raises `UnknownNameError` for a toolset that does not exist."""
        ...
