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
    """More of the visible `text`. May be empty, and may hold pieces of `<think>` tags."""

    text: str


class ReasoningChunk(Struct, frozen=True, gc=False, tag=True):
    """More reasoning. An empty `text` still says that there was reasoning: "" is not None."""

    text: str


class RefusalChunk(Struct, frozen=True, gc=False, tag=True):
    """More of a refusal."""

    text: str
    """In the model's own words; may be empty."""


class ToolCallChunk(Struct, frozen=True, gc=False, tag=True):
    """A fragment of a tool call; any field may be missing. `index` is the wire's, and not to be trusted."""

    index: int | None = None
    id: str | None = None
    """As a rule only in the first fragment of a call; some hosts repeat it."""
    name: str | None = None
    """The tool's; hosts send it whole, or in pieces, or again."""
    arguments: str | None = None
    """The next piece of the text."""


class ReplayChunk(Struct, frozen=True, gc=False, tag=True):
    """One whole `block` of the provider's own, to be sent back as it is, in this order."""

    block: Raw


class UsageChunk(Struct, frozen=True, gc=False, tag=True):
    """What the host says that the request cost; a later `usage` replaces an earlier one."""

    usage: Usage


class MetaChunk(Struct, frozen=True, gc=False, tag=True):
    """What the host says about the response as a whole."""

    model: str | None = None
    """What it says that it runs; None: nothing new."""
    response_id: str | None = None
    """Its id of the answer; None: nothing new."""


class FinishChunk(Struct, frozen=True, gc=False, tag=True):
    """The `reason`, in the host's word, why the response ended; "" or None means nothing."""

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
