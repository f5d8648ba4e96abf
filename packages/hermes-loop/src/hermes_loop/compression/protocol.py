"""What a compressor is, and what it is given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from hermes_messages import Message, Usage
from hermes_messages.protocols import Provider

__all__ = ["Compressed", "CompressionContext", "CompressionPlan", "Compressor"]


class CompressionPlan(Struct, frozen=True, kw_only=True):
    """The messages `[begin, end)` are to be replaced by about `target_tokens`; never a part of a round."""

    begin: int
    end: int
    target_tokens: int


class CompressionContext(Struct, frozen=True, kw_only=True):
    """What a compressor may use: the route of the turn, opened, and a wait that an interrupt ends."""

    session_id: str
    provider: Provider
    model: str
    sleep: Callable[[float], Awaitable[None]]


class Compressed(Struct, frozen=True):
    """What takes the place of the planned messages. `usage` is what it cost, None when nobody said."""

    messages: tuple[Message, ...]
    usage: Usage | None = None


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
