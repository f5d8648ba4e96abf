"""What a wire reader turns its events into; `hermes_messages.assembler` makes messages of them."""

from __future__ import annotations

from msgspec import Raw, Struct

from hermes_messages.usage import Usage

__all__ = [
    "Delta",
    "FinishChunk",
    "MetaChunk",
    "ReasoningChunk",
    "RefusalChunk",
    "ReplayChunk",
    "TextChunk",
    "ToolCallChunk",
    "UsageChunk",
]


class TextChunk(Struct, frozen=True, gc=False, tag=True):
    """More of the visible text. May be empty, and may hold pieces of `<think>` tags."""

    text: str


class ReasoningChunk(Struct, frozen=True, gc=False, tag=True):
    """More reasoning. An empty one still says that there was reasoning: "" is not None."""

    text: str


class RefusalChunk(Struct, frozen=True, gc=False, tag=True):
    """More of a refusal."""

    text: str


class ToolCallChunk(Struct, frozen=True, gc=False, tag=True):
    """A fragment of a tool call; any field may be missing. `index` is the wire's, and not to be trusted."""

    index: int | None = None
    id: str | None = None
    name: str | None = None
    arguments: str | None = None


class ReplayChunk(Struct, frozen=True, gc=False, tag=True):
    """One whole block of the provider's own, to be sent back as it is, in this order."""

    block: Raw


class UsageChunk(Struct, frozen=True, gc=False, tag=True):
    """What the host says that the request cost; a later one replaces an earlier one."""

    usage: Usage


class MetaChunk(Struct, frozen=True, gc=False, tag=True):
    """What the host says about the response as a whole."""

    model: str | None = None
    response_id: str | None = None


class FinishChunk(Struct, frozen=True, gc=False, tag=True):
    """The host's word for why the response ended; an empty one means nothing."""

    reason: str | None


Delta = (
    TextChunk
    | ReasoningChunk
    | RefusalChunk
    | ToolCallChunk
    | ReplayChunk
    | UsageChunk
    | MetaChunk
    | FinishChunk
)
"""What the reader of a wire emits; `StreamAssembler` makes events and the response of it."""
