"""What a compressor is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from hermes_messages import Message

__all__ = ["CompressionPlan", "Compressor"]


class CompressionPlan(Struct, frozen=True, kw_only=True):
    """The messages `[begin, end)` that a summary is to replace; never a part of a tool round."""

    begin: int
    end: int
    target_tokens: int


class Compressor(Protocol):
    """Replaces the middle of a conversation by something shorter."""

    async def compress(self, messages: Sequence[Message], plan: CompressionPlan) -> Sequence[Message]:
        """The conversation with `plan` carried out. Raises `HermesError`; the caller keeps what it had."""
        ...
