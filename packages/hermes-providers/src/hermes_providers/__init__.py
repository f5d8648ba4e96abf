"""Provider adapters from one message model to the wire and back, streaming first, over httpx.

Everything that needs httpx is imported when a provider is built, not here.

>>> from hermes_messages.protocols import ProviderOptions
>>> from hermes_providers import custom
>>> provider = custom(ProviderOptions(base_url="http://127.0.0.1:8080/v1", model="my-model"))
>>> provider.name, provider.default_model, provider.origin("my-model").host
('custom', 'my-model', '127.0.0.1:8080')
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from hermes_providers.classify import classify, overflowed_silently
from hermes_providers.models import KNOWN_MODELS, KnownModel, find_model
from hermes_providers.prices import Price, cost_usd
from hermes_providers.profiles import (
    AuthHeader,
    CallIdRule,
    ChatQuirks,
    Profile,
    ToolNameRule,
    get_profile,
    list_profiles,
)
from hermes_providers.routing import MaxPrice, Routing
from hermes_providers.streaming import ServerSentEvent, SSEParser
from hermes_providers.timeouts import Timeouts

if TYPE_CHECKING:
    from hermes_providers.adapter import HttpProvider
    from hermes_providers.chat_provider import chat_provider, wire_provider
    from hermes_providers.credentials import Secret
    from hermes_providers.engines.httpx_engine import HttpxTransport
    from hermes_providers.entry_points import custom, from_profile, openai, openrouter
    from hermes_providers.keys import KeyCallable, KeyFunction, KeyInput, KeyPool, KeySource
    from hermes_providers.limiter import Permit, RateLimiter
    from hermes_providers.local_provider import LocalProvider
    from hermes_providers.route import Route
    from hermes_providers.transport import HttpOptions, Reply, Transport, make_transport

from hermes_providers.prices import Dollars
from hermes_providers.timeouts import StreamClock
from hermes_providers.wire_names import WireName

__all__ = [
    "KNOWN_MODELS",
    "AuthHeader",
    "CallIdRule",
    "ChatQuirks",
    "Dollars",
    "HttpOptions",
    "HttpProvider",
    "HttpxTransport",
    "KeyCallable",
    "KeyFunction",
    "KeyInput",
    "KeyPool",
    "KeySource",
    "KnownModel",
    "LocalProvider",
    "MaxPrice",
    "Permit",
    "Price",
    "Profile",
    "RateLimiter",
    "Reply",
    "Route",
    "Routing",
    "SSEParser",
    "Secret",
    "ServerSentEvent",
    "StreamClock",
    "Timeouts",
    "ToolNameRule",
    "Transport",
    "WireName",
    "chat_provider",
    "classify",
    "cost_usd",
    "custom",
    "find_model",
    "from_profile",
    "get_profile",
    "list_profiles",
    "make_transport",
    "openai",
    "openrouter",
    "overflowed_silently",
    "wire_provider",
]

_LAZY = {
    "KeyCallable": "keys",
    "KeyInput": "keys",
    "Permit": "limiter",
    "Secret": "credentials",
    "HttpOptions": "transport",
    "HttpProvider": "adapter",
    "HttpxTransport": "engines.httpx_engine",
    "KeyFunction": "keys",
    "KeyPool": "keys",
    "KeySource": "keys",
    "LocalProvider": "local_provider",
    "RateLimiter": "limiter",
    "Reply": "transport",
    "Route": "route",
    "Transport": "transport",
    "chat_provider": "chat_provider",
    "custom": "entry_points",
    "from_profile": "entry_points",
    "make_transport": "transport",
    "openai": "entry_points",
    "openrouter": "entry_points",
    "wire_provider": "chat_provider",
}


def __getattr__(name: str) -> object:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
