"""A route and its quirks to a provider that speaks chat completions."""

from __future__ import annotations

from msgspec import Raw

from hermes_providers.adapter import HttpProvider, Route
from hermes_providers.profiles import ChatQuirks
from hermes_providers.transport import HttpOptions, HttpxTransport, Transport
from hermes_providers.wire.base import WireSettings
from hermes_providers.wire.formats import make_wire

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
    settings = WireSettings(
        base_url=route.base_url,
        provider=route.provider,
        host=route.host,
        quirks=quirks,
        extra_body=extra_body,
    )
    return HttpProvider(
        route, make_wire("openai_chat", settings), transport or HttpxTransport(route.timeouts, http)
    )
