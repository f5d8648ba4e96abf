"""What a compressor is, and what it is given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from hermes_messages import ChatRequest, ChatResponse, Message
from hermes_messages.protocols import Provider

__all__ = ["Compressed", "CompressionContext", "CompressionPlan", "Compressor"]


class CompressionPlan(Struct, frozen=True, kw_only=True):
    """The messages `[begin, end)` are to be replaced by about `target_tokens`; never a part of a round. What
    is kept word for word of them besides may take `words_tokens`."""

    begin: int
    end: int
    target_tokens: int
    words_tokens: int


class CompressionContext(Struct, frozen=True, kw_only=True):
    """What a compressor may use: the route of the turn, opened, and a wait that an interrupt ends. It tells
    `report` of each answer that it got, as it comes, so that the turn accounts for it whatever follows."""

    session_id: str
    """The conversation that is made smaller."""
    provider: Provider
    """Opened; a summary may be asked of it."""
    model: str
    """What the turn asks of that provider."""
    sleep: Callable[[float], Awaitable[None]]
    """Waits so many seconds."""
    report: Callable[[Provider, ChatRequest, ChatResponse], None]


class Compressed(Struct, frozen=True):
    """The `messages` that take the place of the planned ones."""

    messages: tuple[Message, ...]


@runtime_checkable
class Compressor(Protocol):
    """Says what takes the place of the older part of a conversation."""

    async def compress(
        self, messages: Sequence[Message], plan: CompressionPlan, context: CompressionContext
    ) -> Compressed:
        """The replacement for `messages[plan.begin : plan.end]`, a valid beginning of a transcript.

        `messages` is the whole conversation, without system message. Raises `HermesError`; the conversation
        stays as it is then. It is cancelled when its time is over or the turn is interrupted.
        """
        ...
