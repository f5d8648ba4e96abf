"""What goes to a provider and what comes back: request, stream events, response."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from hermes_messages.argument_text import JsonValue
from hermes_messages.history import History
from hermes_messages.messages import AssistantMessage
from hermes_messages.usage import Usage

__all__ = [
    "ChatRequest",
    "ChatResponse",
    "FinishReason",
    "ModelInfo",
    "PartialToolCall",
    "ReasoningDelta",
    "ReasoningEffort",
    "ResponseDone",
    "StreamEvent",
    "TextDelta",
    "ToolCallArgumentsDelta",
    "ToolCallStarted",
    "ToolChoice",
    "ToolSpec",
]

ToolChoice = Literal["auto", "none", "required"]
"""Whether the model may (`auto`), must not (`none`) or must (`required`) call a tool."""
ReasoningEffort = Literal["none", "minimal", "low", "medium", "high"]
"""How much a model is to reason; each provider puts it into its host's words."""


class ToolSpec(Struct, frozen=True, gc=False):
    """A tool as the model sees it. `parameters` is its JSON schema as bytes, the same in each request."""

    name: str
    description: str
    parameters: Raw

    @classmethod
    def from_schema(cls, name: str, description: str, schema: Mapping[str, JsonValue]) -> ToolSpec:
        """A spec from a JSON schema object, encoded once, here."""
        return cls(name, description, Raw(msgspec.json.encode(schema)))


class ChatRequest(Struct, frozen=True, gc=False, kw_only=True):
    """One model call. Values that are None are left to the host.

    `history` holds everything the model sees, the system message first. `extra_body` is a JSON object of
    host-specific fields (bytes) that is merged into the request body last; `session_id` lets a host route
    requests of one conversation to one cache.
    """

    model: str
    history: History
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = "auto"
    parallel_tool_calls: bool | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    reasoning_effort: ReasoningEffort | None = None
    response_schema: Raw | None = None
    extra_body: Raw | None = None
    session_id: str | None = None


class FinishReason(StrEnum):
    """Why a response ended, in one vocabulary; the host's own word is in `AssistantMessage.finish_reason`."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"
    MALFORMED_CALL = "malformed_call"


class PartialToolCall(Struct, frozen=True, gc=False):
    """A call that the response did not finish. It is reported, and must never be run."""

    id: str
    name: str
    arguments: str
    reason: str


class ChatResponse(Struct, frozen=True, gc=False, kw_only=True):
    """One complete answer. `message.tool_calls` holds only calls that may be run.

    `usage` None means that the host did not say. `model` is what the host says it ran.
    """

    message: AssistantMessage
    finish: FinishReason
    usage: Usage | None = None
    model: str | None = None
    response_id: str | None = None
    unfinished_calls: tuple[PartialToolCall, ...] = ()


class TextDelta(Struct, frozen=True, gc=False, tag=True):
    """More visible text: append it to what was shown."""

    text: str


class ReasoningDelta(Struct, frozen=True, gc=False, tag=True):
    """More reasoning text, which is no part of the answer."""

    text: str


class ToolCallStarted(Struct, frozen=True, gc=False, tag=True):
    """A call whose name is known by now. `position` counts the calls of this response from 0."""

    position: int
    id: str
    name: str


class ToolCallArgumentsDelta(Struct, frozen=True, gc=False, tag=True):
    """More of the argument text of the call at `position`, sent only after its `ToolCallStarted`."""

    position: int
    text: str


class ResponseDone(Struct, frozen=True, gc=False, tag=True):
    """The end of a stream that succeeded: exactly one, last."""

    response: ChatResponse


StreamEvent = TextDelta | ReasoningDelta | ToolCallStarted | ToolCallArgumentsDelta | ResponseDone
"""What `Provider.stream` yields. The last one is a `ResponseDone`, unless the stream fails."""


class ModelInfo(Struct, frozen=True, gc=False, kw_only=True):
    """What is known of a model on its host. None means unknown. Sizes are in tokens."""

    context_window: int | None = None
    max_output_tokens: int | None = None
    supports_tools: bool = True
    supports_images: bool | None = None
