from __future__ import annotations

import importlib
import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

import hermes_providers
from byte_server import ByteServer, stream
from hermes_messages import ConfigurationError, ErrorKind, ProviderError, UnknownNameError
from hermes_messages.protocols import Provider, ProviderOptions
from hermes_providers import (
    ChatQuirks,
    Profile,
    custom,
    from_profile,
    get_profile,
    list_profiles,
    openai,
    openrouter,
)
from wire_help import KEY, answer, ask, run, text_answer


def options(**more: Any) -> ProviderOptions:
    return ProviderOptions(**{"api_key": KEY, **more})


@pytest.mark.parametrize("name", ["openrouter", "openai", "custom", "local"])
def test_entry_point_is_declared_and_loads(name: str) -> None:
    found = [point for point in entry_points(group="hermes.providers") if point.name == name]
    assert len(found) == 1
    assert callable(found[0].load())


def test_every_profile_has_its_entry_point_and_no_other_has_one() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    declared = project["project"]["entry-points"]["hermes.providers"]
    assert set(declared) == {profile.name for profile in list_profiles()} | {"local"}
    for target in declared.values():
        module, _, attribute = target.partition(":")
        assert callable(getattr(importlib.import_module(module), attribute))


@pytest.mark.parametrize(
    ("factory", "name", "host", "model"),
    [
        (openrouter, "openrouter", "openrouter.ai", "openai/gpt-6-luna"),
        (openai, "openai", "api.openai.com", "gpt-6-luna"),
    ],
)
def test_hosts_are_built_from_a_key_alone(factory: Any, name: str, host: str, model: str) -> None:
    provider: Provider = factory(options())
    assert (provider.name, provider.default_model, provider.origin("x").host) == (name, model, host)
    assert KEY not in repr(provider)
    assert factory(options(model="other")).default_model == "other"


def test_missing_key_is_told_before_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        openai(ProviderOptions())
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env\n")
    assert openai(ProviderOptions()).name == "openai"


def test_custom_needs_an_address() -> None:
    with pytest.raises(ConfigurationError, match="base_url"):
        custom(ProviderOptions())
    with pytest.raises(ConfigurationError, match="https://"):
        custom(ProviderOptions(base_url="localhost:8000/v1"))


@pytest.mark.parametrize(
    ("settings", "near"),
    [
        ({"header": {}}, "headers"),
        ({"total": 1}, "total_s"),
        ({"quirks": {"max_token_key": "x"}}, "max_tokens_key"),
    ],
)
def test_unknown_setting_names_the_near_one(settings: dict[str, Any], near: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        openai(options(settings=settings))
    assert near in caught.value.near


@pytest.mark.parametrize(
    "settings",
    [
        {"total_s": "soon"},
        {"total_s": 0},
        {"connect_s": -1},
        {"max_connections": 0},
        {"headers": {"x": 1}},
        {"headers": {"x y": "1"}},
        {"headers": {"x": "a\nb"}},
        {"extra_body": {"messages": []}},
        {"extra_body": "x"},
        {"quirks": {"system_role": "boss"}},
        {"proxy": 5},
        {"context_window": 0},
        {"max_output_tokens": -1},
        {"prices": {"m-1": {"input": -1, "output": 1}}},
    ],
)
def test_setting_that_can_not_work_is_refused_at_construction(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        openai(options(settings=settings))


def test_settings_reach_the_wire() -> None:
    async def main() -> None:
        async with ByteServer([stream(text_answer("ok"))]) as server:
            provider = custom(
                options(
                    base_url=server.base_url,
                    settings={
                        "headers": {"X-Team": "blue", "User-Agent": "mine"},
                        "extra_body": {"top_k": 4},
                        "quirks": {"max_tokens_key": "max_completion_tokens"},
                        "context_window": 8192,
                    },
                )
            )
            await answer(provider, ask(max_tokens=9))
            request = server.requests[0]
            assert (request.headers["x-team"], request.headers["user-agent"]) == ("blue", "mine")
            assert (request.json()["top_k"], request.json()["max_completion_tokens"]) == (4, 9)
            assert provider.model_info("m").context_window == 8192
            await provider.close()

    run(main())


def test_secret_header_is_masked_in_errors() -> None:
    async def main() -> None:
        body = b'data: {"error":{"message":"you sent hush-hush-value"}}\n\n'
        async with ByteServer([stream(body)]) as server:
            provider = custom(
                options(base_url=server.base_url, settings={"headers": {"X-Secret": "hush-hush-value"}})
            )
            with pytest.raises(ProviderError) as caught:
                await answer(provider)
            assert "hush-hush" not in f"{caught.value} {caught.value.body} {provider!r} {provider._route!r}"  # type: ignore[attr-defined]
            assert caught.value.kind is ErrorKind.SERVER
            await provider.close()

    run(main())


def test_a_profile_of_ones_own() -> None:
    mine = Profile(
        name="mine", base_url="https://mine.example/api", needs_key=False, quirks=ChatQuirks(path="/talk")
    )
    provider = from_profile(mine, ProviderOptions(model="m"))
    assert (provider.name, provider._wire.builder.url(ask())) == ("mine", "https://mine.example/api/talk")


def test_profiles_are_listed_and_near_names_told() -> None:
    names = [profile.name for profile in list_profiles()]
    assert names == sorted(names)
    assert len(names) == 20
    with pytest.raises(UnknownNameError, match="openrouter"):
        get_profile("open-router")


def test_public_names_are_there() -> None:
    for name in hermes_providers.__all__:
        assert hasattr(hermes_providers, name), name
    assert len(set(hermes_providers.__all__)) == len(hermes_providers.__all__)
    with pytest.raises(AttributeError):
        hermes_providers.nothing  # noqa: B018
