"""Every mutable local of one turn, and what a turn is given to work with."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Raw, Struct

from hermes_loop.admission import Lease
from hermes_loop.budget import Spent, TurnBudget
from hermes_loop.clock import Clock
from hermes_loop.compression.control import CompressionControl
from hermes_loop.conversation import Conversation
from hermes_loop.events import Callbacks, TurnEvents
from hermes_loop.hooks import NO_HOOKS, Hooks
from hermes_loop.idle import SupportsIdle
from hermes_loop.interrupts import InterruptFlag
from hermes_loop.output_type import OutputContract
from hermes_loop.recovery_policy import DEFAULT_POLICY, RecoveryPolicy
from hermes_loop.request_changes import NOTHING_CHANGED, RequestChange
from hermes_loop.routes import Route, Routes
from hermes_loop.runtime import SupportsWholeTurn
from hermes_loop.shielding import DEFAULT_BOUNDS, Bounds
from hermes_loop.steering import Steering
from hermes_loop.verdicts import Stop
from hermes_messages import (
    ConfigurationError,
    ErrorKind,
    ProviderError,
    ReasoningEffort,
    ToolSpec,
    Usage,
    UserMessage,
    add_usage,
)
from hermes_messages.approvals import ApprovalDecision
from hermes_messages.messages import Message, ToolCall
from hermes_messages.protocols import AgentFactory, SessionInfo, SessionStore, ToolExecutor, ToolSnapshot

__all__ = [
    "ModelSettings",
    "ResumeRequest",
    "RouteUsage",
    "TurnDeps",
    "TurnLimits",
    "TurnRequest",
    "TurnState",
]


class ModelSettings(Struct, frozen=True, kw_only=True):
    """What every request of an agent carries, whichever route it takes."""

    max_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None
    reasoning_effort: ReasoningEffort | None = None
    extra_body: Raw | None = None
    output: OutputContract | None = None


class TurnLimits(Struct, frozen=True, kw_only=True):
    """How often a turn tries again. All loops of a turn end by these."""

    max_iterations: int = 90
    empty_responses: int = 2
    rechecks: int = 3
    failing_rounds: int = 3
    corrections: int = 2


class TurnDeps(Struct, frozen=True, kw_only=True):
    """What an agent hands to each of its turns; nothing in it belongs to one turn."""

    routes: Routes
    executor: ToolExecutor
    store: SessionStore | None
    agent_factory: AgentFactory | None = None
    callbacks: Callbacks
    hooks: Hooks = NO_HOOKS
    steering: Steering
    settings: ModelSettings
    session_info: SessionInfo
    cwd: str
    system_prompt: str | None = None
    identity: str | None = None
    ephemeral_system_prompt: str | None = None
    context_files: tuple[str, ...] = ()
    prefill: tuple[Message, ...] = ()
    trajectory_dir: str | None = None
    compression: CompressionControl | None = None
    runtime: SupportsWholeTurn | None = None
    rerun_idempotent: bool = False
    idle: SupportsIdle | None = None
    limits: TurnLimits = TurnLimits()
    policy: RecoveryPolicy = DEFAULT_POLICY
    bounds: Bounds = DEFAULT_BOUNDS
    clock: Clock
    rng: random.Random


class TurnRequest(Struct, frozen=True, kw_only=True):
    """What the host asked for with this turn."""

    user_message: UserMessage
    system_message: str | None = None
    history: Sequence[Message] | None = None
    prelude: tuple[ToolCall, ...] = ()


class ResumeRequest(Struct, frozen=True, kw_only=True):
    """What a person decided on the calls of a suspended round, by call id."""

    decisions: Mapping[str, ApprovalDecision]


@dataclass(slots=True)
class RouteUsage:
    """What one turn used of one route. `usage` None: its host did not say."""

    route: Route
    api_calls: int = 0
    usage: Usage | None = None


@dataclass(slots=True, kw_only=True)
class TurnState:
    """One turn. Made new for every turn; nothing of it outlives the turn."""

    session_id: str
    task_id: str
    turn_id: str
    request: TurnRequest | ResumeRequest
    conversation: Conversation
    lease: Lease
    interrupt: InterruptFlag
    events: TurnEvents
    budget: TurnBudget
    route: Route
    system_message: str | None = None
    snapshot: ToolSnapshot = field(default_factory=ToolSnapshot)
    api_calls: int = 0
    steps: int = 0
    attempts: int = 0
    rechecks: int = 0
    compressions: int = 0
    change: RequestChange = NOTHING_CHANGED
    route_failures: dict[int, ProviderError] = field(default_factory=dict)
    live_attempt: object | None = None
    note: str = ""
    hooks_done: frozenset[tuple[int, str]] = frozenset()
    summary_call: bool = False
    spent: Spent | None = None
    empty_responses: int = 0
    failing_rounds: int = 0
    last_failing_round: tuple[tuple[str, str], ...] = ()
    unknown_tool_rounds: int = 0
    tools_started: bool = False
    refused_decisions: ConfigurationError | None = None
    attempt_parts: list[str] = field(default_factory=list)
    error_kind: ErrorKind | None = None
    best_answer: str | None = None
    structured_output: object = None
    corrections: int = 0
    correcting: bool = False
    last_input_tokens: int | None = None
    route_usage: dict[int, RouteUsage] = field(default_factory=dict)
    step_usage: Usage | None = None
    context_built: bool = False
    counted: bool = False
    trajectory_saved: bool = False
    cleanup_errors: list[str] = field(default_factory=list)
    uids: int = 0
    logged: bool = True
    """Whether the logger wants to know of each phase; asked once for a turn, which has dozens."""

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools that the model may call now: none in the summary call, and none while it corrects the
        form of its answer, for some hosts keep to a schema only without tools."""
        return () if self.summary_call or self.correcting else self.snapshot.tools

    @property
    def attempt_text(self) -> str:
        """The visible text of the live attempt so far; a long answer comes in thousands of pieces."""
        parts = self.attempt_parts
        if len(parts) > 1:
            parts[:] = ("".join(parts),)
        return parts[0] if parts else ""

    @attempt_text.setter
    def attempt_text(self, text: str) -> None:
        self.attempt_parts[:] = (text,) if text else ()

    def interruption(self) -> Stop | None:
        """Why the turn has to stop at this boundary; None when it need not."""
        if self.lease.lost:
            return Stop("lease_lost", "another process took over the session")
        interrupt = self.interrupt
        return Stop(interrupt.reason, interrupt.text) if interrupt.requested else None

    @property
    def used(self) -> RouteUsage:
        """The account of the route that is taken now."""
        route = self.route
        used = self.route_usage.get(route.place)
        if used is None:
            used = self.route_usage[route.place] = RouteUsage(route)
        return used

    @property
    def usage(self) -> Usage | None:
        """What all routes together used. None: no host said."""
        total: Usage | None = None
        for used in self.route_usage.values():
            total = add_usage(total, used.usage)
        return total

    def next_uid(self) -> str:
        """The identity of the next message of this turn."""
        self.uids += 1
        return f"{self.turn_id}-{self.uids}"
