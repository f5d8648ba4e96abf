"""A key given to the library never comes back: not in tool output, the store, a trajectory or an error."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest

from hermes_loop import AIAgent
from hermes_messages import ChatRequest, StreamEvent
from hermes_messages.protocols import ProviderOptions, SupportsSecrets
from hermes_messages.testing import ScriptedProvider, call, calls, text
from hermes_providers import KeyFunction, custom
from hermes_store import SessionDB

pytestmark = pytest.mark.needs("hermes-loop", "hermes-providers", "hermes-tools", "hermes-store")

KEY = "sk-integration-0123456789"


class ProviderWithKey(ScriptedProvider):
    """A scripted model that holds a credential, as a real provider does."""

    def secret_values(self) -> tuple[str, ...]:
        return (KEY,)


def test_a_key_that_a_tool_prints_is_masked_everywhere(tmp_path: Path) -> None:
    (tmp_path / "config.ini").write_text(f"api_key = {KEY}\n")
    provider = ProviderWithKey(
        [
            calls(call("read_file", {"path": "config.ini"})),
            calls(call("terminal", {"command": "cat config.ini"})),
            text("Done."),
        ]
    )

    async def turn() -> str:
        async with SessionDB(tmp_path / "state.db") as store, AIAgent(
            provider=provider, session_db=store, enabled_toolsets=["file", "terminal"], cwd=tmp_path,
            save_trajectories=tmp_path / "trajectories",
        ) as agent:  # fmt: skip
            return str(await agent.run_conversation("Show me the configuration."))

    result = asyncio.run(turn())
    assert "api_key = " in result
    assert KEY not in result
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "config.ini"]
    assert any(path.suffix == ".jsonl" for path in written)
    assert not any(KEY.encode() in path.read_bytes() for path in written)


def test_a_real_provider_names_its_key_and_shows_it_nowhere() -> None:
    provider = custom(ProviderOptions(base_url="http://127.0.0.1:1/v1", api_key=KEY, model="m"))
    assert KEY not in repr(provider)
    assert isinstance(provider, SupportsSecrets)
    assert KEY in provider.secret_values()


def test_an_agent_with_a_key_does_not_show_it(caplog: pytest.LogCaptureFixture) -> None:
    async def turn() -> str:
        agent = AIAgent(base_url="http://127.0.0.1:1/v1", api_key=KEY, model="m")
        async with agent:
            return repr(agent) + str(await agent.run_conversation("hi"))

    with caplog.at_level("DEBUG"):
        shown = asyncio.run(turn())
    assert KEY not in shown + caplog.text


class ProviderWhoseKeyIsFetched(ScriptedProvider):
    """A scripted model whose every request fetches another token, as a short-lived one is."""

    def __init__(self, script: Sequence[object]) -> None:
        super().__init__(script)  # type: ignore[arg-type]
        self._numbers = itertools.count(1)
        self._keys = KeyFunction(lambda: f"fetched-token-number-{next(self._numbers)}")

    def secret_values(self) -> tuple[str, ...]:
        return self._keys.secrets()

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamEvent, None]:
        await self._keys.get()
        async for event in super().stream(request):
            yield event


def test_a_token_that_was_fetched_after_the_agent_was_made_is_masked(tmp_path: Path) -> None:
    tokens = [f"fetched-token-number-{number}" for number in (1, 2)]
    (tmp_path / "log.txt").write_text("\n".join(tokens))
    look = call("read_file", {"path": "log.txt"})
    provider = ProviderWhoseKeyIsFetched([calls(look), calls(look), text("Done.")])

    async def turn() -> list[str]:
        async with AIAgent(provider=provider, enabled_toolsets=["file"], cwd=tmp_path) as agent:
            assert provider.secret_values() == ()
            result = await agent.run_conversation("What does the log say?")
            return [str(message) for message in result["messages"] if message["role"] == "tool"]

    first, second = asyncio.run(turn())
    assert tokens[0] not in first
    assert not any(token in second for token in tokens)
    assert "[hidden]" in first
