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
    """The name of the host."""
    model: str
    """The model, by the name that the host was asked for it with."""
    api_calls: int
    """How often the model was asked."""
    input_tokens: int | None
    """All tokens of the requests, cached ones included."""
    output_tokens: int | None
    """All tokens of the answers, reasoning included."""
    cache_read_tokens: int | None
    """Those of `input_tokens` that the host had kept."""
    cache_write_tokens: int | None
    """Those of `input_tokens` that the host keeps for later."""
    reasoning_tokens: int | None
    """Those of `output_tokens` that are reasoning."""
    cost_usd: float | None
    """In US dollars."""


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
    store, but for results that stand for ones that never came (status "unknown"): where the store could not
    be given one, the next turn gives it. `tools` are the tool definitions that the model saw, in OpenAI
    shape.
    """

    final_response: str | None
    structured_output: object
    messages: list[JsonObject]
    transcript: tuple[Message, ...]
    completed: bool
    api_calls: int
    """How often a model was asked in this turn."""
    partial: bool
    interrupted: bool
    """The turn was stopped from outside."""
    failed: bool
    """The turn did not come to an answer, and `error` says why."""
    error: str | None
    """For people; None where nothing failed."""
    turn_exit_reason: TurnExitReason
    """Why the turn ended."""
    session_id: str
    """The conversation, in the store and for hosts."""
    task_id: str
    """What the tools of this turn ran for: their folders and processes go by it."""
    turn_id: str
    """This turn alone."""
    model: str
    provider: str
    input_tokens: int | None
    """All tokens of the requests of this turn, cached ones included."""
    output_tokens: int | None
    """All tokens of the answers of this turn, reasoning included."""
    cache_read_tokens: int | None
    """Those of `input_tokens` that the hosts had kept."""
    cache_write_tokens: int | None
    """Those of `input_tokens` that the hosts keep for later."""
    reasoning_tokens: int | None
    """Those of `output_tokens` that are reasoning."""
    cost_usd: float | None
    """In US dollars."""
    usage_by_route: list[RouteUse]
    error_kind: ErrorKind | None
    tools: list[JsonObject]
    pending_approvals: list[JsonObject]
    saved: bool
    cleanup_errors: list[str]
    """What went wrong when the turn was over and did not change its result, a line each."""


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
    """The conversation of the job; one that the store does not have begins."""
    task_id: str
    """What the tools run for: their folders and processes go by it."""
    cwd: str
    """The directory of file tools and commands."""
    source: str = "library"
    """Who asks, as the store notes it."""
    toolsets: tuple[str, ...] | None = None
    """The names of the toolsets that the agent may use."""
    max_iterations: int | None = None
    """The most requests to the model in a turn."""
    system_prompt: str | None = None
    """The system message of a conversation that begins."""
    metadata: Mapping[str, JsonValue] = {}
    """Kept with the session in the store."""
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
