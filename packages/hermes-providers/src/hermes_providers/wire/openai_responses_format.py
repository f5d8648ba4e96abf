"""The wire `openai_responses`: the Responses API without a state at the host, streamed and plain."""

from __future__ import annotations

from hermes_messages import ChatRequest
from hermes_providers.credentials import join_url
from hermes_providers.wire.base import CountRequest, WireFormat, WireSettings
from hermes_providers.wire.openai_responses_quirks import WIRE, ResponsesQuirks
from hermes_providers.wire.openai_responses_request import ResponsesRequestBuilder
from hermes_providers.wire.openai_responses_stream import ResponsesStreamReader
from hermes_providers.wire.sent_history import count_in

__all__ = ["QUIRKS", "ResponsesTokenCounter", "make_wire"]

QUIRKS = ResponsesQuirks


class ResponsesTokenCounter:
    """`POST /responses/input_tokens` ("Get input token counts", API reference)."""

    def __init__(self, url: str, builder: ResponsesRequestBuilder) -> None:
        self._url = url
        self._builder = builder

    def first(self, request: ChatRequest) -> CountRequest:
        """The only question. Raises `ProviderError` (format) as the builder does."""
        return CountRequest(self._url, self._builder.count_body(request))

    def read(self, answer: bytes) -> int | None:
        """The number, or None when the answer has none."""
        return count_in(answer, "input_tokens")


def make_wire(settings: WireSettings) -> WireFormat:
    """Both halves of the wire. Raises `ConfigurationError` for an extra body that can not be sent."""
    quirks = settings.quirks if isinstance(settings.quirks, ResponsesQuirks) else ResponsesQuirks()
    builder = ResponsesRequestBuilder(settings, quirks)
    url = join_url(settings.base_url, quirks.path + "/input_tokens")
    absent = {"seed": quirks.seed_option, "stop": quirks.stop_option}
    return WireFormat(
        WIRE,
        builder,
        ResponsesStreamReader,
        counter=ResponsesTokenCounter(url, builder),
        tool_names=quirks.tool_names,
        think_tags=quirks.think_tags,
        starts_inside=quirks.starts_inside,
        absent=frozenset(name for name, taken in absent.items() if not taken),
    )
