"""The wire `anthropic_messages`: Anthropic's Messages API, streamed and plain.

"API overview" and "Versions" (platform.claude.com/docs/en/api): the header `anthropic-version` goes with
every request, `anthropic-beta` names features that are not general yet.
"""

from __future__ import annotations

import msgspec

from hermes_messages import ChatRequest
from hermes_providers.wire.anthropic_quirks import (
    BINDING_BETA,
    WIRE,
    AnthropicQuirks,
    address,
    drops_unbound,
)
from hermes_providers.wire.anthropic_request import AnthropicRequestBuilder
from hermes_providers.wire.anthropic_stream import AnthropicStreamReader
from hermes_providers.wire.base import CountRequest, WireFormat, WireSettings

__all__ = ["QUIRKS", "make_wire"]

QUIRKS = AnthropicQuirks


def make_wire(settings: WireSettings) -> WireFormat:
    """Both halves of the wire. Raises `ConfigurationError` for an extra body that can not be sent."""
    quirks = settings.quirks if isinstance(settings.quirks, AnthropicQuirks) else AnthropicQuirks()
    builder = AnthropicRequestBuilder(settings, quirks)
    headers = {"anthropic-version": quirks.version}
    features = (*quirks.beta, BINDING_BETA) if drops_unbound(settings, quirks) else quirks.beta
    if features:
        headers["anthropic-beta"] = ",".join(dict.fromkeys(features))
    counter = None
    if quirks.count_path is not None:
        counter = AnthropicTokenCounter(builder, address(settings.base_url, quirks.count_path))
    return WireFormat(
        WIRE,
        builder,
        AnthropicStreamReader,
        headers,
        counter,
        tool_names=quirks.tool_names,
        think_tags=quirks.think_tags,
        starts_inside=quirks.starts_inside,
        absent=frozenset({"seed"}),
    )


class _Count(msgspec.Struct):
    input_tokens: int


class AnthropicTokenCounter:
    """ "Token counting" (platform.claude.com/docs/en/build-with-claude/token-counting): one free question."""

    def __init__(self, builder: AnthropicRequestBuilder, url: str) -> None:
        self._builder = builder
        self._url = url

    def first(self, request: ChatRequest) -> CountRequest:
        """The question. Raises `ProviderError` (format) when the history can not be sent."""
        return CountRequest(self._url, self._builder.count_body(request))

    def read(self, answer: bytes) -> CountRequest | int | None:
        """The number, or None when the answer has none."""
        try:
            return msgspec.json.decode(answer, type=_Count).input_tokens
        except msgspec.MsgspecError:
            return None
