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
from hermes_providers.profiles import AuthHeader, CallIdRule, ChatQuirks, Profile, get_profile, list_profiles
from hermes_providers.streaming import ServerSentEvent, SSEParser
from hermes_providers.timeouts import Timeouts

if TYPE_CHECKING:
    from hermes_providers.adapter import HttpProvider, Route
    from hermes_providers.chat_provider import chat_provider
    from hermes_providers.entry_points import custom, from_profile, openai, openrouter
    from hermes_providers.local_provider import LocalProvider
    from hermes_providers.transport import HttpOptions, HttpxTransport, Reply, Transport

__all__ = [
    "AuthHeader",
    "CallIdRule",
    "ChatQuirks",
    "HttpOptions",
    "HttpProvider",
    "HttpxTransport",
    "LocalProvider",
    "Profile",
    "Reply",
    "Route",
    "SSEParser",
    "ServerSentEvent",
    "Timeouts",
    "Transport",
    "chat_provider",
    "classify",
    "custom",
    "from_profile",
    "get_profile",
    "list_profiles",
    "openai",
    "openrouter",
    "overflowed_silently",
]

_LAZY = {
    "HttpOptions": "transport",
    "HttpProvider": "adapter",
    "HttpxTransport": "transport",
    "LocalProvider": "local_provider",
    "Reply": "transport",
    "Route": "adapter",
    "Transport": "transport",
    "chat_provider": "chat_provider",
    "custom": "entry_points",
    "from_profile": "entry_points",
    "openai": "entry_points",
    "openrouter": "entry_points",
}


def __getattr__(name: str) -> object:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
