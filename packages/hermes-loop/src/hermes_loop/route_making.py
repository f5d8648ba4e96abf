"""From what a host gave to providers and models: the agent's list of routes. Nothing is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from hermes_loop.discovery import make_provider, names_in
from hermes_loop.options import AgentOptions
from hermes_loop.route_specs import RouteSpec
from hermes_loop.routes import Route, Routes
from hermes_messages import ConfigurationError, JsonValue, UnknownNameError
from hermes_messages.protocols import Provider, ProviderOptions

__all__ = ["make_routes"]

_Key = tuple[str | None, str | None, str | None, bytes]


def make_routes(options: AgentOptions, own: Callable[[Provider], None]) -> Routes:
    """The primary route and the fallbacks. Routes that differ in the model only share their provider.

    `own` is told of each provider that was made here. Raises `ConfigurationError` for what can not work, so
    that a fallback without a key is found before it is needed.
    """
    made: dict[_Key, Provider] = {}
    primary = options.provider
    main = RouteSpec(
        provider=primary,
        model=options.model,
        base_url=options.base_url,
        api_key=options.api_key,
        settings=options.provider_settings,
    )
    routes: list[Route] = []
    for spec in (main, *options.fallbacks):
        if routes and _is_of_primary(spec, primary):
            provider = routes[0].provider
        elif spec.provider is not None and not isinstance(spec.provider, str):
            provider = spec.provider
        else:
            provider = _made(spec, spec.provider, made, own, is_fallback=bool(routes))
        model = spec.model or provider.default_model
        if model is None:
            raise ConfigurationError(f"provider {provider.name!r} has no default model; give model=")
        routes.append(Route(provider, model, len(routes)))
    return Routes(routes)


def _is_of_primary(spec: RouteSpec, primary: str | Provider | None) -> bool:
    """Whether a fallback means another model of the provider that the agent has already."""
    if spec.base_url or spec.api_key or spec.settings:
        return False
    return spec.provider is None or spec.provider is primary or spec.provider == primary


def _made(
    spec: RouteSpec,
    name: str | None,
    made: dict[_Key, Provider],
    own: Callable[[Provider], None],
    *,
    is_fallback: bool,
) -> Provider:
    if is_fallback and name is not None:
        _check_name(name)
    key = (name, spec.base_url, spec.api_key, _encoded(spec.settings))
    if key not in made:
        made[key] = make_provider(
            name,
            ProviderOptions(
                base_url=spec.base_url, api_key=spec.api_key, model=spec.model, settings=spec.settings
            ),
        )
        own(made[key])
    return made[key]


def _check_name(name: str) -> None:
    known = names_in("hermes.providers")
    if known and name not in known:
        hint = f"for a model of the agent's own provider write {{'model': '{name}/...'}}"
        raise UnknownNameError("provider", name, known, hint)


def _encoded(settings: Mapping[str, JsonValue]) -> bytes:
    return msgspec.json.encode(settings, order="sorted")
