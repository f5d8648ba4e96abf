"""The wire `gemini`: Google's `generateContent`, streamed and plain."""

from __future__ import annotations

from hermes_messages import ChatRequest
from hermes_providers.wire.base import CountRequest, WireFormat, WireSettings
from hermes_providers.wire.gemini_quirks import WIRE, GeminiQuirks
from hermes_providers.wire.gemini_request import GeminiRequestBuilder
from hermes_providers.wire.gemini_stream import GeminiStreamReader
from hermes_providers.wire.sent_history import count_in

__all__ = ["QUIRKS", "GeminiTokenCounter", "make_wire"]

QUIRKS = GeminiQuirks


class GeminiTokenCounter:
    """`POST models/NAME:countTokens` ("Counting tokens", ai.google.dev/api/tokens)."""

    def __init__(self, builder: GeminiRequestBuilder) -> None:
        self._builder = builder

    def first(self, request: ChatRequest) -> CountRequest:
        """The only question. Raises `ProviderError` (format) as the builder does."""
        return CountRequest(self._builder.count_url(request), self._builder.count_body(request))

    def read(self, answer: bytes) -> int | None:
        """The number, or None when the answer has none."""
        return count_in(answer, "totalTokens")


def make_wire(settings: WireSettings) -> WireFormat:
    """Both halves of the wire. Raises `ConfigurationError` for an extra body that can not be sent."""
    quirks = settings.quirks if isinstance(settings.quirks, GeminiQuirks) else GeminiQuirks()
    builder = GeminiRequestBuilder(settings, quirks)
    return WireFormat(
        WIRE,
        builder,
        GeminiStreamReader,
        counter=GeminiTokenCounter(builder),
        tool_names=quirks.tool_names,
        think_tags=quirks.think_tags,
        starts_inside=quirks.starts_inside,
        absent=frozenset({"parallel_tool_calls"}),
    )
