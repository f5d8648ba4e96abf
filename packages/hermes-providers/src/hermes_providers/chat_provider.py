"""A route and its quirks to a provider that speaks chat completions."""

from __future__ import annotations

from functools import partial

from msgspec import Raw

from hermes_providers.adapter import HttpProvider, Route, WireFormat
from hermes_providers.profiles import ChatQuirks
from hermes_providers.transport import HttpOptions, HttpxTransport, Transport
from hermes_providers.wire.openai_chat_messages import WIRE
from hermes_providers.wire.openai_chat_request import ChatRequestBuilder
from hermes_providers.wire.openai_chat_stream import ChatStreamReader

__all__ = ["chat_provider"]


def chat_provider(
    route: Route,
    quirks: ChatQuirks,
    extra_body: Raw | None = None,
    http: HttpOptions | None = None,
    *,
    transport: Transport | None = None,
) -> HttpProvider:
    """A provider on `route`. `transport` stands for ours, with whatever engine is under it.

    Raises `ConfigurationError` when `extra_body` is no JSON object or sets what only the adapter may set.
    """
    builder = ChatRequestBuilder(
        base_url=route.base_url,
        provider=route.provider,
        host=route.host,
        quirks=quirks,
        extra_body=extra_body,
    )
    wire = WireFormat(WIRE, builder, partial(ChatStreamReader, quirks))
    return HttpProvider(route, wire, transport or HttpxTransport(route.timeouts, http))
