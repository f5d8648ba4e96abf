"""A runtime outside that does whole turns by itself: another agent program, a hosted agent.

The loop keeps what is a session's: admission and lease, the user's message, durable rounds, budgets between
turns, finalization. Between these the runtime works alone.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Protocol, runtime_checkable

from msgspec import Struct

from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    ConfigurationError,
    Message,
    ModelInfo,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolMessage,
    ToolSpec,
    Usage,
)
from hermes_messages.parts import Origin
from hermes_messages.protocols import InterruptSignal

__all__ = ["RuntimeProvider", "SupportsWholeTurn", "WholeTurnAnswer", "WholeTurnContext"]


class WholeTurnContext(Struct, frozen=True, kw_only=True):
    """What a runtime is given for one turn.

    `messages` is the conversation, the user's message last; `tools` are those of the agent's executor, to be
    offered or ignored. `show` hands text to the host as it comes. `record` makes a message of the runtime's
    own work durable before it returns: an assistant message with calls, then one result for each. It raises
    `InvariantError` for a message that may not stand there, and `StoreError`, which the runtime must not
    swallow.
    """

    session_id: str
    """The conversation."""
    task_id: str
    """What tools run for: their folders and processes go by it."""
    turn_id: str
    """New with every turn."""
    cwd: str
    """The directory that relative paths start at."""
    system_prompt: str
    """"" where there is none."""
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    interrupt: InterruptSignal
    """Set when the turn is interrupted, which cancels the runtime too."""
    show: Callable[[TextDelta | ReasoningDelta], Awaitable[None]]
    record: Callable[[AssistantMessage | ToolMessage], Awaitable[None]]


class WholeTurnAnswer(Struct, frozen=True, kw_only=True):
    """How a runtime ended a turn: its final message, which has no calls. `usage` None: it did not say."""

    message: AssistantMessage
    """What the user is answered."""
    usage: Usage | None = None
    api_calls: int = 1
    """Requests that the runtime made, for the turn's account."""


@runtime_checkable
class SupportsWholeTurn(Protocol):
    """A runtime, given to an agent as `runtime=`."""

    @property
    def name(self) -> str:
        """A short name, for results and logs."""
        ...

    async def run_whole_turn(self, context: WholeTurnContext) -> WholeTurnAnswer:
        """Do the turn. An interrupt of the turn cancels this; it must leave nothing running.

        Raises `ProviderError` when the runtime fails: the turn ends with `provider_error`. What was recorded
        stays, calls without a result get one.
        """
        ...


class RuntimeProvider:
    """Stands where an agent has its `Provider`, so that results and logs have a name. It answers nothing."""

    def __init__(self, runtime: SupportsWholeTurn, model: str | None) -> None:
        self._runtime = runtime
        self._model = model

    @property
    def name(self) -> str:
        """The runtime's."""
        return self._runtime.name

    @property
    def default_model(self) -> str | None:
        """The agent's model, or the runtime's name."""
        return self._model or self._runtime.name

    def origin(self, model: str) -> Origin:
        """Nothing of a runtime is replayed to it."""
        return Origin(provider=self.name, host="", model=model)

    def model_info(self, model: str) -> ModelInfo:  # noqa: ARG002 - the Protocol's
        """The runtime sees to its own window."""
        return ModelInfo()

    async def open(self) -> None:
        """Nothing to open."""

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamEvent, None]:  # noqa: ARG002 - the Protocol's
        """Raises `ConfigurationError`."""
        for _ in range(1):  # a generator that never yields
            raise ConfigurationError(f"{self.name} runs whole turns; it answers no single request")
        yield TextDelta("")

    async def close(self) -> None:
        """Nothing to close."""
