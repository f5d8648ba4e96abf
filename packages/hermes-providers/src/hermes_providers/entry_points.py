"""What the entry points of the group `hermes.providers` name: options in, provider out, nothing opened."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from hermes_messages import ConfigurationError, ModelInfo, UnknownNameError
from hermes_messages.protocols import Provider, ProviderOptions
from hermes_providers.adapter import HttpProvider, Route
from hermes_providers.chat_provider import chat_provider
from hermes_providers.credentials import check_base_url, check_header, find_key
from hermes_providers.profiles import ChatQuirks, Profile, get_profile
from hermes_providers.settings import HttpSettings, read_settings
from hermes_providers.timeouts import Timeouts
from hermes_providers.transport import HttpOptions

__all__ = ["custom", "from_profile", "local", "openai", "openrouter"]


def openrouter(options: ProviderOptions) -> Provider:
    """OpenRouter; the key from the options or `OPENROUTER_API_KEY`."""
    return from_profile(get_profile("openrouter"), options)


def openai(options: ProviderOptions) -> Provider:
    """OpenAI, chat completions; the key from the options or `OPENAI_API_KEY`."""
    return from_profile(get_profile("openai"), options)


def custom(options: ProviderOptions) -> Provider:
    """Any host that speaks chat completions, at `base_url`; a key is optional (`HERMES_CUSTOM_API_KEY`)."""
    return from_profile(get_profile("custom"), options)


def local(options: ProviderOptions) -> Provider:
    """The embedded llama.cpp server: started by `open`, stopped by the last `close` (see `LocalProvider`)."""
    from hermes_providers.local_provider import LocalProvider

    return LocalProvider(options)


def from_profile(profile: Profile, options: ProviderOptions) -> HttpProvider:
    """The provider of a profile, of ours or of one's own making.

    Raises `ConfigurationError` for a missing or malformed key, a bad address and a setting that can not
    work; a setting or quirk that does not exist is named with its near match.
    """
    settings = read_settings(options.settings, HttpSettings)
    base_url = options.base_url if options.base_url is not None else profile.base_url
    if base_url is None:
        raise ConfigurationError(
            f"provider {profile.name!r} needs base_url=..., like https://host.example/v1"
        )
    for name, value in settings.headers.items():
        check_header(name, value)
    route = Route(
        provider=profile.name,
        base_url=check_base_url(base_url),
        auth=profile.auth,
        key=find_key(profile, options.api_key),
        headers=dict(profile.headers) | settings.headers,
        timeouts=_timeouts(settings),
        default_model=options.model or profile.default_model,
        info=ModelInfo(context_window=settings.context_window, max_output_tokens=settings.max_output_tokens),
    )
    extra_body = Raw(msgspec.json.encode(settings.extra_body)) if settings.extra_body else None
    return chat_provider(route, _changed(profile.quirks, settings.quirks), extra_body, _http(settings))


def _timeouts(settings: HttpSettings) -> Timeouts:
    return Timeouts(
        connect_s=settings.connect_s,
        first_event_s=settings.first_event_s,
        between_events_s=settings.between_events_s,
        after_finish_s=settings.after_finish_s,
        total_s=settings.total_s,
    )


def _http(settings: HttpSettings) -> HttpOptions:
    return HttpOptions(
        max_connections=settings.max_connections, proxy=settings.proxy, keep_alive=settings.keep_alive
    )


def _changed(quirks: ChatQuirks, changes: dict[str, Raw]) -> ChatQuirks:
    """`quirks` with single fields replaced."""
    known = ChatQuirks.__struct_fields__
    for name in changes:
        if name not in known:
            raise UnknownNameError("quirk", name, known)
    fields = {name: Raw(msgspec.json.encode(value)) for name, value in msgspec.structs.asdict(quirks).items()}
    try:
        return msgspec.json.decode(msgspec.json.encode(fields | changes), type=ChatQuirks)
    except msgspec.MsgspecError as error:
        raise ConfigurationError(f"a quirk can not be read: {error}") from None
