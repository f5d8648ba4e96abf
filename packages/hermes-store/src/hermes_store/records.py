"""What the store answers, beyond the records of `hermes_messages.protocols`."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from hermes_messages import JsonObject, ToolCall, Usage
from hermes_messages.protocols import ToolRound

__all__ = [
    "CallRecord",
    "Conversations",
    "ImportReport",
    "InterruptedCall",
    "ModelUsage",
    "RetentionReport",
]


class CallRecord(Struct, frozen=True, kw_only=True):
    """One report of usage, as `update_token_counts` got it. `created_at`: seconds since the epoch."""

    model: str | None
    """Who was asked; None: the report did not say."""
    provider: str | None
    """The host of it; None: the report did not say."""
    api_calls: int
    """Requests that the report stands for."""
    usage: Usage
    """Of these requests together."""
    created_at: float


class InterruptedCall(Struct, frozen=True):
    """A call whose result never came: `position` is its place in `round`, for `set_tool_result`."""

    round: ToolRound
    position: int
    call: ToolCall
    """What the model asked for; whether it ran is not known."""


class ModelUsage(Struct, frozen=True, kw_only=True):
    """What one model of one provider cost. A figure that no call reported is None."""

    model: str | None
    """None: reports that named none."""
    provider: str | None
    """None: reports that named none."""
    api_calls: int
    """Requests, all reports together."""
    usage: Usage
    """Sums over these."""


class Conversations(NamedTuple):
    """Both readings of a lineage, as plain OpenAI-shape dicts."""

    conversation: list[JsonObject]
    """What the model is sent: the newest session's messages."""
    display: list[JsonObject]
    """What a person reads: everything that was said, from the first session on, each message once."""


class RetentionReport(Struct, frozen=True):
    """Sessions that were deleted or archived, or would be; `characters` counts their text and data."""

    session_ids: tuple[str, ...]
    """With `dry_run` those that it would have been."""
    messages: int
    """How many were in them."""
    characters: int


class ImportReport(Struct, frozen=True):
    """What an import added. `skipped` are the ids of sessions that were there before: they are left alone."""

    sessions: int
    """How many were added."""
    messages: int
    """How many were added with them."""
    skipped: tuple[str, ...]
    unreadable_rows: int = 0
    """Rows that could not be read, and those of sessions that can not be stored."""
