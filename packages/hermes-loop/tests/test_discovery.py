"""From names to objects, and what is said when there is none."""

from __future__ import annotations

import asyncio
import sys
import types
from importlib.metadata import EntryPoint

import pytest

from hermes_loop import AIAgent, discovery
from hermes_loop.discovery import default_provider_name, make_store, store_name
from hermes_messages import ConfigurationError, MissingDependencyError, UnknownNameError
from hermes_messages.testing import MemoryStore, ScriptedProvider, ToolDouble, text


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, EntryPoint]]:
    """What is installed, by group; nothing unless a test adds it."""
    found: dict[str, dict[str, EntryPoint]] = {}
    monkeypatch.setattr(discovery, "names_in", lambda group: found.get(group, {}))
    return found


@pytest.mark.parametrize(
    ("environ", "base_url", "name"),
    [
        ({}, "http://127.0.0.1:8080/v1", "custom"),
        ({"OPENROUTER_API_KEY": "a", "OPENAI_API_KEY": "b"}, None, "openrouter"),
        ({"OPENAI_API_KEY": "b"}, None, "openai"),
        ({"OPENROUTER_API_KEY": " \n", "OPENAI_API_KEY": "b"}, None, "openai"),
        ({"OPENROUTER_API_KEY": "a"}, "http://x", "custom"),
    ],
)
def test_the_provider_that_is_meant_without_a_name(
    environ: dict[str, str], base_url: str | None, name: str
) -> None:
    assert default_provider_name(environ, base_url) == name


def test_without_any_hint_the_ways_to_say_it_are_named() -> None:
    with pytest.raises(ConfigurationError) as caught:
        default_provider_name({}, None)
    for way in ("OPENROUTER_API_KEY", "base_url=", "provider='local'"):
        assert way in str(caught.value)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"provider": "openrouter"}, "pip install hermes-providers"),
        ({"provider": ScriptedProvider([]), "enabled_toolsets": ["file"]}, "pip install hermes-tools"),
        ({"provider": ScriptedProvider([]), "tools": [ToolDouble("t")]}, "pip install hermes-tools"),
        ({"provider": ScriptedProvider([]), "session_db": "state.db"}, "pip install hermes-store"),
    ],
)
@pytest.mark.usefixtures("installed")
def test_a_missing_wheel_is_named_with_the_line_that_installs_it(
    options: dict[str, object], line: str
) -> None:
    async def main() -> None:
        with pytest.raises(MissingDependencyError) as caught:
            await AIAgent(**options).chat("hi")  # type: ignore[arg-type]
        assert caught.value.install == line
        assert line in str(caught.value)

    asyncio.run(main())


def test_an_unknown_name_comes_with_the_near_one(installed: dict[str, dict[str, EntryPoint]]) -> None:
    installed["hermes.providers"] = {"openrouter": EntryPoint("openrouter", "x:y", "hermes.providers")}

    async def main() -> None:
        with pytest.raises(UnknownNameError, match="did you mean 'openrouter'"):
            await AIAgent(provider="openruter").chat("hi")

    asyncio.run(main())


def test_a_name_becomes_the_object_that_its_wheel_offers(
    installed: dict[str, dict[str, EntryPoint]], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    targets: list[str] = []

    def factory(target: str) -> MemoryStore:
        targets.append(target)
        return store

    module = types.ModuleType("a_store_wheel")
    monkeypatch.setattr(module, "factory", factory, raising=False)
    monkeypatch.setitem(sys.modules, "a_store_wheel", module)
    installed["hermes.stores"] = {"sqlite": EntryPoint("sqlite", "a_store_wheel:factory", "hermes.stores")}

    async def main() -> None:
        agent = AIAgent(provider=ScriptedProvider([text("a")]), session_db="state.db")
        await agent.chat("hi")
        await agent.close()

    asyncio.run(main())
    assert targets == ["state.db"]
    assert store.closed


def test_a_wheel_that_lacks_an_import_says_which(installed: dict[str, dict[str, EntryPoint]]) -> None:
    installed["hermes.stores"] = {"sqlite": EntryPoint("sqlite", "no_such_module:x", "hermes.stores")}
    with pytest.raises(MissingDependencyError, match="no_such_module"):
        make_store("state.db")


def test_the_kind_of_a_store_is_its_scheme() -> None:
    assert store_name("state.db") == "sqlite"
    assert store_name("postgresql://host/db") == "postgresql"


def test_the_metadata_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []

    def read(*, group: str) -> tuple[EntryPoint, ...]:
        reads.append(group)
        return ()

    monkeypatch.setattr(discovery, "entry_points", read)
    monkeypatch.setattr(discovery, "_found", {})
    discovery.names_in("hermes.stores")
    discovery.names_in("hermes.stores")
    assert reads == ["hermes.stores"]


def test_the_drop_in_module_is_the_same_class() -> None:
    import run_agent

    assert run_agent.AIAgent is AIAgent
