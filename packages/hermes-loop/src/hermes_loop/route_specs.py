"""What a host gives as fallback routes, read when the agent is made. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from hermes_loop.checks import check_json_object, check_provider
from hermes_messages import ConfigurationError, JsonValue
from hermes_messages.protocols import Provider

__all__ = ["RouteGiven", "RouteSpec", "read_fallbacks"]

RouteGiven = str | Mapping[str, object] | Provider
"""One route as a host gives it: `"provider/model"`; a dict with `model` and, as needed, `provider`,
`base_url`, `api_key`, `settings`; or a `Provider` that has a default model."""

_TEXTS: Final = ("model", "base_url", "api_key")
_KEYS: Final = {*_TEXTS, "provider", "settings"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteSpec:
    """One route, not made yet. `provider` None is the agent's own, or `base_url`'s. `api_key` never shows."""

    provider: str | Provider | None = None
    model: str | None = None
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    settings: Mapping[str, JsonValue] = field(default_factory=dict, repr=False)


def read_fallbacks(one: object, more: object) -> tuple[RouteSpec, ...]:
    """The routes of `fallback_model=` and `fallback_models=`, in this order; each may be one or a list.

    Raises `ConfigurationError` that says which of them can not be read, and never shows a key.
    """
    return (*_read_all("fallback_model", one), *_read_all("fallback_models", more))


def _read_all(name: str, given: object) -> tuple[RouteSpec, ...]:
    if given is None:
        return ()
    routes = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    return tuple(_read(f"{name}[{place}]", route) for place, route in enumerate(routes))


def _read(name: str, given: object) -> RouteSpec:
    match given:
        case str():
            provider, slash, model = given.strip().partition("/")
            if not provider or (slash and not model):
                raise ConfigurationError(f"{name} must be 'provider/model', not {given!r}")
            return RouteSpec(provider=provider, model=model) if slash else RouteSpec(model=provider)
        case Mapping():
            return _from_mapping(name, given)
        case _:
            return RouteSpec(provider=check_provider(name, given))


def _from_mapping(name: str, given: Mapping[str, object]) -> RouteSpec:
    unknown = sorted(str(key) for key in given if key not in _KEYS)
    if unknown:
        raise ConfigurationError(f"{name} knows {', '.join(sorted(_KEYS))}; not {', '.join(unknown)}")
    texts = {key: _text(name, key, given.get(key)) for key in _TEXTS}
    check_json_object(f"{name}['settings']", given.get("settings"))
    settings = cast("Mapping[str, JsonValue]", given.get("settings") or {})
    provider = given.get("provider")
    if not isinstance(provider, str | None):
        provider = check_provider(name, provider)
        if settings or texts["base_url"] or texts["api_key"]:
            raise ConfigurationError(f"{name}: the provider is an object; configure the object instead")
    if texts["model"] is None and provider is None:
        raise ConfigurationError(f"{name} names neither a model nor a provider")
    return RouteSpec(provider=provider, settings=settings, **texts)


def _text(name: str, key: str, value: object) -> str | None:
    if value is None or (isinstance(value, str) and value.strip()):
        return value
    raise ConfigurationError(f"{name}[{key!r}] must be text that is not empty")
