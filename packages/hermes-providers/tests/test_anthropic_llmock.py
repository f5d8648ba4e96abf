"""The Messages wire against llmock, a server that breaks its answers on demand, where it is installed."""

from __future__ import annotations

import asyncio
import importlib.util
from typing import Any

import pytest

from anthropic_help import MODEL, ask, provider_at
from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    ChatResponse,
    ErrorKind,
    FinishReason,
    ProviderError,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from wire_help import answer

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("llmock") is None, reason="not installed: llmock (dependency group vendor-types)"
)

WEATHER = ToolSpec.from_schema(
    "get_weather", "The weather.", {"type": "object", "properties": {"city": {"type": "string"}}}
)
QUESTION = ask(SystemMessage("Be brief."), UserMessage("Weather in Oslo?"), tools=(WEATHER,))


@pytest.fixture
def mock(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue("llmock")  # the plugin's, which is there when the library is


def reply(mock: Any, request: ChatRequest = QUESTION) -> ChatResponse:
    async def scenario() -> ChatResponse:
        provider = provider_at(mock.base_url("anthropic"))
        try:
            return await answer(provider, request)
        finally:
            await provider.close()

    return asyncio.run(scenario())


def error(mock: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        reply(mock)
    return caught.value


def test_text_and_calls(mock: Any) -> None:
    mock.reply("Sunny.")
    assert reply(mock).message.content == "Sunny."
    mock.call_tool("get_weather", {"city": "Oslo"}, text="I look.")
    called = reply(mock)
    assert called.message.content == "I look."
    assert [(call.name, call.parse_arguments()) for call in called.message.tool_calls] == [
        ("get_weather", {"city": "Oslo"})
    ]
    assert called.finish is FinishReason.TOOL_CALLS
    mock.assert_resilient()


def test_a_tool_round_is_a_request_that_it_accepts(mock: Any) -> None:
    call = ToolCall("call|1", "get_weather", '{"city": "Oslo"}')
    round_ = (AssistantMessage(tool_calls=(call,)), ToolMessage("call|1", "rain", status="error"))
    mock.reply("Rain.")
    request = ask(UserMessage("Weather in Oslo?"), *round_, tools=(WEATHER,), model=MODEL)
    assert reply(mock, request).message.content == "Rain."
    mock.assert_resilient()


def test_broken_streams_are_errors_and_never_answers(mock: Any) -> None:
    mock.reply("A long enough answer to be cut in the middle.", times=None)
    mock.disconnect(after_chunks=3)
    assert error(mock).kind is ErrorKind.TRANSPORT
    mock.truncate(after_chunks=3)
    assert error(mock).kind is ErrorKind.TRANSPORT
    mock.corrupt(after_chunks=3)
    assert error(mock).kind in {ErrorKind.SERVER, ErrorKind.TRANSPORT}


def test_errors_by_status(mock: Any) -> None:
    mock.rate_limit(retry_after=2)
    limited = error(mock)
    assert (limited.kind, limited.status, limited.retry_after_s) == (ErrorKind.RATE_LIMIT, 429, 2.0)
    mock.fail(529, message="Overloaded")
    assert error(mock).kind is ErrorKind.OVERLOADED
    mock.context_overflow()
    assert error(mock).kind is ErrorKind.CONTEXT_OVERFLOW
