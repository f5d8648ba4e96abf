"""The joint between the loop and what a host hooks into its turns: one small Protocol for each ability.

A hook is any object with one or more of these methods. An agent finds out once, when it is made, which of
them each of its hooks has. A hook that raises is reported (log, event, `cleanup_errors`) and left out of that
step; only `TurnStoppedError` ends the turn. An interrupt of the turn ends a hook that hangs.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from msgspec import Struct

from hermes_messages.exchange import ChatRequest, ChatResponse
from hermes_messages.messages import ToolCall, ToolMessage, UserMessage
from hermes_messages.protocols.agent import ConversationResult

__all__ = [
    "HookContext",
    "HookFactory",
    "SupportsAroundTurn",
    "SupportsMemoryPrefetch",
    "SupportsMemorySync",
    "SupportsPostTurn",
    "SupportsPreModel",
    "SupportsRequestTransform",
    "SupportsResponseTransform",
    "SupportsToolResultTransform",
]


class HookContext(Struct, frozen=True, kw_only=True):
    """The turn that calls a hook, as it stands. `provider` and `model` are the route that is taken now."""

    session_id: str
    """The conversation."""
    task_id: str
    """What the tools run for: their folders and processes go by it."""
    turn_id: str
    """New with every turn."""
    provider: str
    model: str
    api_calls: int = 0
    """Requests to models so far in this turn."""


@runtime_checkable
class SupportsAroundTurn(Protocol):
    """Goes around the whole turn, for relay and accounting."""

    def around_turn(self, context: HookContext) -> AbstractAsyncContextManager[object]:
        """Entered once the turn is admitted, left when it is finalized, in the turn's own task. It can not
        swallow an exception of the turn."""
        ...


@runtime_checkable
class SupportsPreModel(Protocol):
    """Is asked once per turn, before the user's message is stored."""

    async def pre_model(self, context: HookContext, message: UserMessage) -> str | None:
        """A note for the model, or None. It stands at the end of each request of this turn and is not part of
        the conversation."""
        ...


@runtime_checkable
class SupportsMemoryPrefetch(Protocol):
    """Remembers what may help with a message."""

    async def prefetch_memory(self, context: HookContext, message: UserMessage) -> str | None:
        """What is remembered, or None; used as the note of `SupportsPreModel`."""
        ...


@runtime_checkable
class SupportsMemorySync(Protocol):
    """Keeps what a turn brought."""

    async def sync_memory(self, context: HookContext, result: ConversationResult) -> None:
        """Called after a turn that was finalized under its lease, whatever it ended with."""
        ...


@runtime_checkable
class SupportsRequestTransform(Protocol):
    """Changes each request before it is weighed and sent."""

    async def transform_request(self, context: HookContext, request: ChatRequest) -> ChatRequest:
        """The request to send, before the preflight gate looks at it. Return `request` itself to leave it:
        only then its bytes go on from those of the request before."""
        ...


@runtime_checkable
class SupportsResponseTransform(Protocol):
    """Changes each answer of a model, after its text was streamed."""

    async def transform_response(self, context: HookContext, response: ChatResponse) -> ChatResponse:
        """The response that enters the conversation. Its text was streamed by then."""
        ...


@runtime_checkable
class SupportsToolResultTransform(Protocol):
    """Changes the result of a tool call before it is stored and shown."""

    async def transform_tool_result(
        self, context: HookContext, call: ToolCall, result: ToolMessage
    ) -> ToolMessage:
        """The result that is stored and shown; it must answer the same call. Results of calls that run beside
        each other come beside each other."""
        ...


@runtime_checkable
class SupportsPostTurn(Protocol):
    """Is told of each turn's end."""

    async def post_turn(self, context: HookContext, result: ConversationResult) -> None:
        """Called when the turn is finalized; also for one that was cancelled, with little time then."""
        ...


class HookFactory(Protocol):
    """What an entry point of the group `hermes.hooks` names."""

    def __call__(self) -> object:
        """A new hook, with at least one of the abilities above."""
        ...
