"""The three experiments of the turn loop: text only, one round of tools, an exhausted budget.

Each runs with a scripted model, real tools and a real SQLite store, and again with the real local model.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from hermes_loop import AIAgent
from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    Message,
    ModelInfo,
    Origin,
    StreamEvent,
    SystemMessage,
    ToolMessage,
    UserMessage,
    validate,
)
from hermes_messages.protocols import ConversationResult, Provider, ProviderOptions, StoredMessage
from hermes_messages.testing import ScriptedProvider, call, calls, text
from hermes_providers import LocalProvider
from hermes_store import SessionDB

pytestmark = pytest.mark.needs("hermes-loop", "hermes-providers", "hermes-tools", "hermes-store")


class Observed:
    """A provider that hands everything on to another and notes what the store holds at each request."""

    def __init__(self, inner: Provider, store: SessionDB, session_id: str) -> None:
        self._inner = inner
        self._store = store
        self._session_id = session_id
        self.requests: list[ChatRequest] = []
        self.stored: list[list[StoredMessage]] = []

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def default_model(self) -> str | None:
        return self._inner.default_model

    def origin(self, model: str) -> Origin:
        return self._inner.origin(model)

    def model_info(self, model: str) -> ModelInfo:
        return self._inner.model_info(model)

    async def open(self) -> None:
        await self._inner.open()

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamEvent, None]:
        self.requests.append(request)
        self.stored.append(await self._store.get_messages(self._session_id))
        async for event in self._inner.stream(request):
            yield event

    async def close(self) -> None:
        await self._inner.close()


class Experiment:
    """What one turn did, seen from the model, from the store and from the caller."""

    def __init__(self, provider: Observed, result: ConversationResult, stored: list[Message]) -> None:
        self.requests = provider.requests
        self.stored_at_request = [[entry.message for entry in entries] for entries in provider.stored]
        self.result = result
        self.stored = stored

    def kinds(self) -> list[str]:
        return [type(message).__name__ for message in self.stored]


async def experiment(
    inner: Provider, tmp_path: Path, prompt: str, toolsets: list[str], *, max_iterations: int = 10
) -> Experiment:
    async with SessionDB(tmp_path / "state.db") as store:
        provider = Observed(inner, store, "experiment")
        agent = AIAgent(
            provider=provider,
            session_db=store,
            session_id="experiment",
            enabled_toolsets=toolsets,
            max_iterations=max_iterations,
            max_tokens=200,
            temperature=0,
            cwd=tmp_path,
        )
        try:
            async with agent:
                result = await agent.run_conversation(prompt)
        finally:
            await inner.close()
        stored = [entry.message for entry in await store.get_messages("experiment")]
    return Experiment(provider, result, stored)


def scripted_text() -> Provider:
    return ScriptedProvider([text("Four.")])


def scripted_round() -> Provider:
    return ScriptedProvider([calls(call("terminal", {"command": "echo hello"})), text("It printed hello.")])


def local_model() -> Provider:
    return LocalProvider(ProviderOptions())


either_model = pytest.mark.parametrize(
    "model",
    [pytest.param("scripted"), pytest.param("local", marks=pytest.mark.local_model)],
)


@either_model
def test_a_text_only_answer_is_one_call_no_round_and_finalized(model: str, tmp_path: Path) -> None:
    provider = scripted_text() if model == "scripted" else local_model()
    seen = asyncio.run(experiment(provider, tmp_path, "Say hello.", []))
    assert seen.result["api_calls"] == len(seen.requests) == 1
    assert seen.result["turn_exit_reason"] == "text_response"
    assert seen.result["completed"]
    assert seen.result["saved"]
    assert seen.result["final_response"]
    assert seen.kinds() == ["UserMessage", "AssistantMessage"]
    assert [type(message) for message in seen.stored_at_request[0]] == [UserMessage]
    assert seen.result["cleanup_errors"] == []


LOCAL_PROMPTS = (
    'Run the shell command "uname -s"',
    'Run the shell command "expr 6 + 7"',
    'Run the shell command "seq 1 100 | wc -l"',
)


def assert_one_round(seen: Experiment) -> None:
    """The call and its result are stored before the second request, which contains them."""
    assert seen.result["api_calls"] == len(seen.requests) == 2
    assert seen.kinds() == ["UserMessage", "AssistantMessage", "ToolMessage", "AssistantMessage"]
    asked = seen.stored[1]
    assert isinstance(asked, AssistantMessage)
    assert seen.stored_at_request[1] == seen.stored[:3]
    answered = seen.stored[2]
    assert isinstance(answered, ToolMessage)
    assert answered.tool_call_id == asked.tool_calls[0].id
    sent = list(seen.requests[1].history)
    assert isinstance(sent[0], SystemMessage)
    assert sent[1:] == seen.stored[:3]
    assert sent[: len(seen.requests[0].history)] == list(seen.requests[0].history)
    assert validate(sent) == []
    assert seen.result["turn_exit_reason"] == "text_response"
    assert seen.result["final_response"]


def test_a_round_of_tools_is_stored_before_the_next_request_contains_it(tmp_path: Path) -> None:
    seen = asyncio.run(experiment(scripted_round(), tmp_path, "Run: echo hello", ["terminal"]))
    assert_one_round(seen)
    result = seen.stored[2]
    assert isinstance(result, ToolMessage)
    assert "hello" in str(result.content)


@pytest.mark.local_model
@pytest.mark.parametrize("prompt", LOCAL_PROMPTS)
def test_a_round_of_tools_with_the_local_model(prompt: str, tmp_path: Path) -> None:
    assert_one_round(asyncio.run(experiment(local_model(), tmp_path, prompt, ["terminal"])))


def test_an_exhausted_budget_gets_one_summary_call_without_tools(tmp_path: Path) -> None:
    provider = ScriptedProvider([calls(call("terminal", {"command": "echo hello"})), text("Not done yet.")])
    seen = asyncio.run(experiment(provider, tmp_path, "Work for long.", ["terminal"], max_iterations=1))
    assert_budget_exit(seen)
    assert seen.result["final_response"] == "Not done yet."


@pytest.mark.local_model
def test_an_exhausted_budget_with_the_local_model(tmp_path: Path) -> None:
    seen = asyncio.run(experiment(local_model(), tmp_path, LOCAL_PROMPTS[0], ["terminal"], max_iterations=1))
    assert_budget_exit(seen)


def assert_budget_exit(seen: Experiment) -> None:
    """One round, one summary call that may use no tool, and an exit that says why."""
    assert len(seen.requests) == 2
    assert seen.requests[0].tools
    assert seen.requests[1].tools == () or seen.requests[1].tool_choice == "none"
    assert seen.result["turn_exit_reason"] == "max_iterations"
    assert not seen.result["completed"]
    assert seen.result["partial"]
    assert seen.result["final_response"]
    assert validate(seen.stored) == []
    assert isinstance(seen.stored[-1], AssistantMessage)


def test_an_exhausted_budget_is_explained_even_when_the_summary_fails(tmp_path: Path) -> None:
    provider = ScriptedProvider([calls(call("terminal", {"command": "echo hello"})), text("")])
    seen = asyncio.run(experiment(provider, tmp_path, "Work for long.", ["terminal"], max_iterations=1))
    assert seen.result["turn_exit_reason"] == "max_iterations"
    assert "1" in (seen.result["final_response"] or "")
    assert validate(seen.stored) == []
