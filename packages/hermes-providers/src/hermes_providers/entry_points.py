"""What the entry points of the group `hermes.providers` name: options in, provider out, nothing opened."""

from __future__ import annotations

import os

import msgspec
from msgspec import UNSET, Raw, Struct

from hermes_messages import ConfigurationError, ModelInfo, UnknownNameError
from hermes_messages.protocols import Provider, ProviderFactory, ProviderOptions
from hermes_providers.adapter import HttpProvider
from hermes_providers.chat_provider import wire_provider
from hermes_providers.credentials import check_base_url, check_header, find_key
from hermes_providers.keys import FixedKey, KeyInput, KeySource, key_source
from hermes_providers.limiter import RateLimiter
from hermes_providers.profiles import AuthHeader, Profile, get_profile
from hermes_providers.proxies import proxy_passwords
from hermes_providers.route import Route
from hermes_providers.settings import HttpSettings, read_settings
from hermes_providers.timeouts import Timeouts
from hermes_providers.transport import HttpOptions, Transport
from hermes_providers.wire.base import TokenCounter
from hermes_providers.wire.formats import quirks_type

__all__ = ["custom", "from_profile", "local", "openai", "openrouter"]


def _factory(name: str) -> ProviderFactory:
    def make(options: ProviderOptions) -> Provider:
        return from_profile(name, options)

    make.__name__ = make.__qualname__ = name.replace("-", "_")
    make.__doc__ = f"The provider `{name}` (see `hermes_providers.get_profile`)."
    return make


anthropic: ProviderFactory = _factory("anthropic")
azure_openai: ProviderFactory = _factory("azure-openai")
custom: ProviderFactory = _factory("custom")
"""Any host with the chat-completions interface; `base_url` of the options says which."""
deepseek: ProviderFactory = _factory("deepseek")
fireworks: ProviderFactory = _factory("fireworks")
google: ProviderFactory = _factory("google")
groq: ProviderFactory = _factory("groq")
huggingface: ProviderFactory = _factory("huggingface")
llamacpp: ProviderFactory = _factory("llamacpp")
lmstudio: ProviderFactory = _factory("lmstudio")
mistral: ProviderFactory = _factory("mistral")
moonshot: ProviderFactory = _factory("moonshot")
nvidia: ProviderFactory = _factory("nvidia")
ollama: ProviderFactory = _factory("ollama")
openai: ProviderFactory = _factory("openai")
"""OpenAI: chat completions up to GPT-5.2, Responses for later models, unless the settings name a wire. The
key is in OPENAI_API_KEY where the options have none."""
openrouter: ProviderFactory = _factory("openrouter")
"""OpenRouter; the key is in OPENROUTER_API_KEY where the options have none."""
together: ProviderFactory = _factory("together")
vllm: ProviderFactory = _factory("vllm")
xai: ProviderFactory = _factory("xai")
zai: ProviderFactory = _factory("zai")


def local(options: ProviderOptions) -> Provider:
    """The embedded llama.cpp server: started by `open`, stopped by the last `close` (see `LocalProvider`)."""
    from hermes_providers.local_provider import LocalProvider

    return LocalProvider(options)


def from_profile(
    profile: Profile | str,
    options: ProviderOptions | None = None,
    *,
    key: KeyInput | None = None,
    limiter: RateLimiter | None = None,
    transport: Transport | None = None,
) -> HttpProvider:
    """The provider of a profile: one of ours by name, or one of the caller's own making.

    `key` is what `options.api_key` can not be: a function (plain, or to be awaited) that gives a key, several
    keys that take turns, or a `KeySource`. `limiter` is shared by all providers that are given the same one.
    `transport` stands for the engine that the settings name.

    Raises `ConfigurationError` for a missing or malformed key, a bad address and a setting that can not
    work; a profile, setting or quirk that does not exist is named with its near match.
    """
    profile = get_profile(profile) if isinstance(profile, str) else profile
    options = options or ProviderOptions()
    settings = read_settings(options.settings, HttpSettings)
    wire = settings.wire or profile.wire
    route = _route(profile, wire, options, settings, _keys(profile, options, key))
    quirks = profile.quirks if wire == "openai_chat" else profile.wire_quirks
    if settings.quirks:
        quirks = _changed(quirks or quirks_type(wire)(), settings.quirks)
    return wire_provider(
        route,
        wire,
        quirks,
        _extra_body(profile, settings),
        _http(settings),
        engine=settings.engine,
        transport=transport,
        limiter=limiter or _own_limiter(settings),
        counter=_counter(profile, route) if wire == "openai_chat" else None,
        model_wires=() if _says_a_wire(profile, options, settings) else profile.model_wires,
    )


def _says_a_wire(profile: Profile, options: ProviderOptions, settings: HttpSettings) -> bool:
    """Whether anything is said that belongs to one wire, or leads to where there may be one only."""
    elsewhere = options.base_url not in {None, profile.base_url}
    return elsewhere or bool(settings.wire or settings.quirks or settings.extra_body)


def _route(
    profile: Profile, wire: str, options: ProviderOptions, settings: HttpSettings, keys: KeySource
) -> Route:
    base_url = options.base_url if options.base_url is not None else profile.base_url
    if base_url is None:
        raise ConfigurationError(
            f"provider {profile.name!r} needs base_url=..., like https://host.example/v1"
        )
    headers = {name: check_header(name, value) for name, value in settings.headers.items()}
    timeouts, explicit = _timeouts(settings)
    return Route(
        provider=profile.name,
        base_url=check_base_url(base_url),
        auth=AuthHeader() if wire == "openai_chat" != profile.wire else profile.auth,
        keys=keys,
        headers=dict(profile.headers) | headers,
        timeouts=timeouts,
        reasoning_timeouts=timeouts.for_reasoning(explicit),
        default_model=options.model or profile.default_model,
        info=ModelInfo(context_window=settings.context_window, max_output_tokens=settings.max_output_tokens),
        prices=settings.prices,
        hidden=proxy_passwords(settings.proxy, os.environ),
    )


def _keys(profile: Profile, options: ProviderOptions, key: KeyInput | None) -> KeySource:
    if key is None:
        return FixedKey(find_key(profile, options.api_key))
    if options.api_key is not None:
        raise ConfigurationError("pass either key=... or ProviderOptions(api_key=...), not both")
    return key_source(key)


def _timeouts(settings: HttpSettings) -> tuple[Timeouts, frozenset[str]]:
    """The limits, and the names of those that the user said."""
    given = {name: getattr(settings, name) for name in Timeouts.__struct_fields__}
    said = {name: value for name, value in given.items() if value is not UNSET}
    return Timeouts(**said), frozenset(said)


def _http(settings: HttpSettings) -> HttpOptions:
    return HttpOptions(
        max_connections=settings.max_connections,
        proxy=settings.proxy,
        keep_alive=settings.keep_alive,
        http2=settings.http2,
        ca_file=settings.ca_file,
        client_certificate=settings.client_certificate,
    )


def _own_limiter(settings: HttpSettings) -> RateLimiter | None:
    limits = (settings.requests_per_minute, settings.tokens_per_minute, settings.max_concurrent)
    if limits == (None, None, None):
        return None
    return RateLimiter(
        requests_per_minute=settings.requests_per_minute,
        tokens_per_minute=settings.tokens_per_minute,
        max_concurrent=settings.max_concurrent,
    )


def _extra_body(profile: Profile, settings: HttpSettings) -> Raw | None:
    fields = dict(settings.extra_body)
    if settings.routing is not None:
        if not profile.routing:
            raise ConfigurationError(f"provider {profile.name!r} takes no routing options; OpenRouter does")
        fields.setdefault("provider", Raw(msgspec.json.encode(settings.routing)))
    return Raw(msgspec.json.encode(fields)) if fields else None


def _counter(profile: Profile, route: Route) -> TokenCounter | None:
    if profile.counts_tokens is None:
        return None
    from hermes_providers.wire.llamacpp_tokens import LlamaCppTokenCounter

    return LlamaCppTokenCounter(route.base_url, route.provider, route.host, profile.quirks)


def _changed(quirks: Struct, changes: dict[str, Raw]) -> Struct:
    """`quirks` with single fields replaced."""
    known = quirks.__struct_fields__
    for name in changes:
        if name not in known:
            raise UnknownNameError("quirk", name, known)
    fields = {name: Raw(msgspec.json.encode(value)) for name, value in msgspec.structs.asdict(quirks).items()}
    try:
        return msgspec.json.decode(msgspec.json.encode(fields | changes), type=type(quirks))
    except msgspec.MsgspecError as error:
        raise ConfigurationError(f"a quirk can not be read: {error}") from None
