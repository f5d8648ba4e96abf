"""The joint between an agent and whoever drives it: a host, a batch runner, a delegating tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, Protocol, TypedDict

from msgspec import Struct

from hermes_messages.argument_text import JsonObject, JsonValue
from hermes_messages.errors import ErrorKind
from hermes_messages.messages import Message, UserMessage

__all__ = [
    "Agent",
    "AgentFactory",
    "AgentRequest",
    "ConversationResult",
    "RouteUse",
    "StreamCallback",
    "TurnExitReason",
]

StreamCallback = Callable[[str], Awaitable[None] | None]
"""Called with each piece of visible text. May be async; a plain one must be short."""

TurnExitReason = Literal[
    "text_response",
    "empty_response",
    "refused",
    "output_truncated",
    "max_iterations",
    "budget_exhausted",
    "interrupted",
    "cancelled",
    "provider_error",
    "context_overflow",
    "context_compression_timeout",
    "session_persistence_failed",
    "lease_lost",
    "tool_loop",
    "approval_pending",
    "invalid_output",
    "tool_finished",
    "stopped_by_hook",
    "unsupported",
    "internal_error",
]
"""Why a turn ended; the closed set. A table in the documentation says which flags hold for each."""


class RouteUse(TypedDict):
    """What a turn used of one model on one host. Figures that the host did not give are None."""

    provider: str
    model: str
    api_calls: int
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    reasoning_tokens: int | None
    cost_usd: float | None


class ConversationResult(TypedDict):
    """What `run_conversation` returns.

    `messages` is a new list of plain OpenAI-shape dicts: the whole conversation; `transcript` is the same
    as typed messages, with each tool result's status. `final_response` is the text of the last response, or
    None; `structured_output` is its value where an `output_type` was asked for and it fits, else None.
    `completed`: the model gave its final answer. `partial`: what there is, is not the whole answer.
    `model` and `provider` are those that were asked last; `usage_by_route` has a row for each that was asked.
    `error_kind` is the provider's when a provider failed. `pending_approvals` are the tool calls that wait
    for a decision, as plain JSON data (`hermes_messages.approvals.pending_from_json` reads it); empty when
    none does. Figures that no host gave are None. `saved` tells whether the conversation is durable in the
    store. `tools` are the tool definitions that the model saw, in OpenAI shape.
    """

    final_response: str | None
    structured_output: object
    messages: list[JsonObject]
    transcript: tuple[Message, ...]
    completed: bool
    api_calls: int
    partial: bool
    interrupted: bool
    failed: bool
    error: str | None
    turn_exit_reason: TurnExitReason
    session_id: str
    task_id: str
    turn_id: str
    model: str
    provider: str
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    reasoning_tokens: int | None
    cost_usd: float | None
    usage_by_route: list[RouteUse]
    error_kind: ErrorKind | None
    tools: list[JsonObject]
    pending_approvals: list[JsonObject]
    saved: bool
    cleanup_errors: list[str]


class Agent(Protocol):
    """One ordered conversation with a model."""

    async def run_conversation(
        self,
        user_message: str | UserMessage,
        system_message: str | None = None,
        conversation_history: Sequence[Mapping[str, JsonValue]] | None = None,
        task_id: str | None = None,
        stream_callback: StreamCallback | None = None,
    ) -> ConversationResult:
        """Run one turn. A failed turn is a result with `failed`, not an exception; bad input raises
        `HermesError` before any side effect; cancellation is re-raised after a short, bounded clean-up."""
        ...

    async def close(self) -> None:
        """Release everything that the agent owns. Idempotent."""
        ...


class AgentRequest(Struct, frozen=True, kw_only=True):
    """What is asked of an `AgentFactory`: a fresh agent for one job. None means the factory's own default.

    `image` names the container image in which the agent's commands are to run; a factory that has no
    containers refuses it with a `ConfigurationError`.
    """

    session_id: str
    task_id: str
    cwd: str
    source: str = "library"
    toolsets: tuple[str, ...] | None = None
    max_iterations: int | None = None
    system_prompt: str | None = None
    metadata: Mapping[str, JsonValue] = {}
    image: str | None = None


class AgentFactory(Protocol):
    """Makes agents that share what can be shared (a client, a store) and nothing of a conversation."""

    async def open(self) -> None:
        """Open what the agents share. Idempotent. Raises `HermesError` with nothing left open."""
        ...

    def create_agent(self, request: AgentRequest) -> Agent:
        """A new agent; nothing is opened yet. Raises `ConfigurationError`."""
        ...

    async def close(self) -> None:
        """Close what the agents share. Idempotent."""
        ...
