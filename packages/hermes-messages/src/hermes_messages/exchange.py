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
ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How much a model is to reason, rising; each provider puts it into its host's words, and takes the nearest
that the model has for one that it does not have."""


class ToolSpec(Struct, frozen=True, gc=False):
    """A tool as the model sees it. `parameters` is its JSON schema as bytes, the same in each request."""

    name: str
    """What the model calls it by; unique among the tools of a request."""
    description: str
    """What the model chooses it by; "" where there is none."""
    parameters: Raw

    @classmethod
    def from_schema(cls, name: str, description: str, schema: Mapping[str, JsonValue]) -> ToolSpec:
        """A spec from a JSON schema object, encoded once, here."""
        return cls(name, description, Raw(msgspec.json.encode(schema)))


class ChatRequest(Struct, frozen=True, gc=False, kw_only=True):
    """One model call. Values that are None are left to the host.

    `history` holds everything the model sees, the system message first; providers raise `MessageFormatError`
    for a list that stands there in its place. `extra_body` is a JSON object of
    host-specific fields (bytes) that is merged into the request body last; `session_id` lets a host route
    requests of one conversation to one cache.
    """

    model: str
    """The host's name for it."""
    history: History
    tools: tuple[ToolSpec, ...] = ()
    """What the model may call, in an order that stays the same; empty: no tools are sent."""
    tool_choice: ToolChoice = "auto"
    """Of no effect where `tools` is empty."""
    parallel_tool_calls: bool | None = None
    """False: at most one call in an answer, on hosts that know how to say so."""
    max_tokens: int | None = None
    """The most that may be generated, reasoning included."""
    temperature: float | None = None
    """0 takes the likeliest; not every reasoning model accepts one."""
    seed: int | None = None
    """For repeatable answers, on hosts that take one."""
    stop: tuple[str, ...] = ()
    """Texts before which the answer ends."""
    reasoning_effort: ReasoningEffort | None = None
    """How hard to think, on models that reason."""
    response_schema: Raw | None = None
    """A JSON schema, as bytes, that the visible text has to fit."""
    extra_body: Raw | None = None
    session_id: str | None = None


class FinishReason(StrEnum):
    """Why a response ended, in one vocabulary; the host's own word is in `AssistantMessage.finish_reason`."""

    STOP = "stop"
    """The model was done, or met a stop text."""
    TOOL_CALLS = "tool_calls"
    """It waits for the results of its calls."""
    LENGTH = "length"
    """It was cut off: by `max_tokens`, by the window, or by a stream without an end."""
    CONTENT_FILTER = "content_filter"
    """The host took it away or broke it off."""
    MALFORMED_CALL = "malformed_call"
    """A call came out in a form that can not be run."""


class PartialToolCall(Struct, frozen=True, gc=False):
    """A call that the response did not finish. It is reported, and must never be run."""

    id: str
    """The host's, or one made here where it had sent none."""
    name: str
    """Empty where the name had not come."""
    arguments: str
    """What had come of the text; as a rule no JSON."""
    reason: str
    """Why it must not run, in words."""


class ChatResponse(Struct, frozen=True, gc=False, kw_only=True):
    """One complete answer. `message.tool_calls` holds only calls that may be run.

    `usage` None means that the host did not say. `model` is what the host says it ran.
    """

    message: AssistantMessage
    finish: FinishReason
    """Why it ended, in our words."""
    usage: Usage | None = None
    model: str | None = None
    response_id: str | None = None
    """The host's id of the answer, for its support; None: it gave none."""
    unfinished_calls: tuple[PartialToolCall, ...] = ()
    """What the model began to call when it was cut off."""


class TextDelta(Struct, frozen=True, gc=False, tag=True):
    """More visible `text`: append it to what was shown."""

    text: str


class ReasoningDelta(Struct, frozen=True, gc=False, tag=True):
    """More reasoning `text`, which is no part of the answer."""

    text: str


class ToolCallStarted(Struct, frozen=True, gc=False, tag=True):
    """A call whose name is known by now. `position` counts the calls of this response from 0."""

    position: int
    id: str
    """The id that the finished call will have."""
    name: str
    """Whole and final, whatever pieces the host sent it in."""


class ToolCallArgumentsDelta(Struct, frozen=True, gc=False, tag=True):
    """More argument `text` of the call at `position`, sent only after its `ToolCallStarted`."""

    position: int
    text: str


class ResponseDone(Struct, frozen=True, gc=False, tag=True):
    """The end of a stream that succeeded: exactly one, last."""

    response: ChatResponse
    """All that was streamed, put together."""


StreamEvent = TextDelta | ReasoningDelta | ToolCallStarted | ToolCallArgumentsDelta | ResponseDone
"""What `Provider.stream` yields. The last one is a `ResponseDone`, unless the stream fails."""


class ModelInfo(Struct, frozen=True, gc=False, kw_only=True):
    """What is known of a model on its host. None means unknown. Sizes are in tokens."""

    context_window: int | None = None
    """The most that prompt and answer may come to together."""
    max_output_tokens: int | None = None
    """The most that one answer may hold."""
    supports_tools: bool = True
    """Whether requests may carry tools; taken to be so unless it is known to be false."""
    supports_images: bool | None = None
    """Whether messages may hold images."""
    strong_efforts: bool = False
    """Whether requests may ask for "xhigh" and "max", for which its provider then takes the nearest effort
    that the model has. One older than these words does not say so, and the loop asks it for "high"."""
