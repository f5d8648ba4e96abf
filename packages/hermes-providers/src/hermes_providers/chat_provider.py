"""A route and the quirks of a wire to a provider."""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw, Struct

from hermes_providers.adapter import HttpProvider
from hermes_providers.engine_names import DEFAULT_ENGINE
from hermes_providers.limiter import RateLimiter
from hermes_providers.profiles import ChatQuirks
from hermes_providers.refusals import Refusals
from hermes_providers.route import Route
from hermes_providers.transport import HttpOptions, Transport, make_transport
from hermes_providers.wire.base import TokenCounter, WireSettings
from hermes_providers.wire.formats import make_wire

__all__ = ["chat_provider", "wire_provider"]


def wire_provider(
    route: Route,
    wire: str,
    quirks: Struct | None = None,
    extra_body: Raw | None = None,
    http: HttpOptions | None = None,
    *,
    engine: str = DEFAULT_ENGINE,
    transport: Transport | None = None,
    limiter: RateLimiter | None = None,
    counter: TokenCounter | None = None,
    model_wires: tuple[tuple[str, str], ...] = (),
) -> HttpProvider:
    """A provider on `route` that speaks `wire`, over the `engine` of that name; `transport` stands for it.
    `counter` stands for the wire's own way of counting tokens. `model_wires` as in `Profile`: models in whose
    names the expression is found speak that wire, with its default quirks.

    Raises `UnknownNameError` for the name of no wire or engine, `MissingDependencyError` for an engine that
    is not installed, and `ConfigurationError` when `extra_body` is no JSON object or sets what only the
    adapter may set.
    """
    refusals = Refusals()
    settings = WireSettings(
        base_url=route.base_url,
        provider=route.provider,
        host=route.host,
        quirks=quirks,
        extra_body=extra_body,
        refusals=refusals,
        headers=route.headers,
    )
    made = make_wire(wire, settings)
    if counter is not None:
        made = msgspec.structs.replace(made, counter=counter)
    of_models = [
        (re.compile(pattern), make_wire(name, msgspec.structs.replace(settings, quirks=None)))
        for pattern, name in model_wires
    ]
    transport = transport or make_transport(engine, route.timeouts, http)
    return HttpProvider(route, made, transport, limiter=limiter, refusals=refusals, of_models=of_models)


def chat_provider(
    route: Route,
    quirks: ChatQuirks,
    extra_body: Raw | None = None,
    http: HttpOptions | None = None,
    *,
    transport: Transport | None = None,
) -> HttpProvider:
    """A provider on `route` that speaks chat completions: `wire_provider` with that wire, and its errors."""
    return wire_provider(route, "openai_chat", quirks, extra_body, http, transport=transport)
