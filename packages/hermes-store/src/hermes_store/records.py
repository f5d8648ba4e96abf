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
    provider: str | None
    api_calls: int
    usage: Usage
    created_at: float


class InterruptedCall(Struct, frozen=True):
    """A call whose result never came: `position` is its place in `round`, for `set_tool_result`."""

    round: ToolRound
    position: int
    call: ToolCall


class ModelUsage(Struct, frozen=True, kw_only=True):
    """What one model of one provider cost. A figure that no call reported is None."""

    model: str | None
    provider: str | None
    api_calls: int
    usage: Usage


class Conversations(NamedTuple):
    """Both readings of a lineage, as plain OpenAI-shape dicts."""

    conversation: list[JsonObject]
    """What the model is sent: the newest session's messages."""
    display: list[JsonObject]
    """What a person reads: everything that was said, from the first session on, each message once."""


class RetentionReport(Struct, frozen=True):
    """Sessions that were deleted or archived, or would be; `characters` counts their text and data."""

    session_ids: tuple[str, ...]
    messages: int
    characters: int


class ImportReport(Struct, frozen=True):
    """What an import added. `skipped` are the ids of sessions that were there before: they are left alone."""

    sessions: int
    messages: int
    skipped: tuple[str, ...]
    unreadable_rows: int = 0
