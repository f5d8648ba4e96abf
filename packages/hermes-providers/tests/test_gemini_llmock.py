"""The Gemini and the Responses wire against llmock, a server that breaks its answers on demand, where it is
installed."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    ChatResponse,
    ErrorKind,
    FinishReason,
    History,
    Message,
    ProviderError,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hermes_messages.protocols import Provider, ProviderOptions
from hermes_providers.entry_points import google, openai
from wire_help import KEY, answer, run

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("llmock") is None, reason="not installed: llmock (dependency group vendor-types)"
)

WEATHER = ToolSpec.from_schema(
    "get_weather", "The weather.", {"type": "object", "properties": {"city": {"type": "string"}}}
)


class Mocked:
    """One wire and the server that plays its host."""

    def __init__(self, mock: Any, wire: str) -> None:
        self.mock = mock
        self._wire = wire

    def provider(self) -> Provider:
        if self._wire == "gemini":
            base_url = f"{self.mock.base_url('gemini')}/v1beta"
            return google(ProviderOptions(base_url=base_url, api_key=KEY))
        base_url = self.mock.base_url("openai")
        settings = {"wire": "openai_responses"}
        return openai(ProviderOptions(base_url=base_url, api_key=KEY, settings=settings))

    def reply(self, *messages: Message) -> ChatResponse:
        asked = messages or (SystemMessage("Be brief."), UserMessage("Weather in Oslo?"))
        model = "gemini-3-flash" if self._wire == "gemini" else "gpt-5"
        request = ChatRequest(model=model, history=History.of(asked), tools=(WEATHER,))

        async def scenario() -> ChatResponse:
            provider = self.provider()
            await provider.open()
            try:
                return await answer(provider, request)
            finally:
                await provider.close()

        return run(scenario())

    def error(self) -> ProviderError:
        with pytest.raises(ProviderError) as caught:
            self.reply()
        return caught.value


@pytest.fixture(params=["gemini", "openai_responses"])
def host(request: pytest.FixtureRequest) -> Mocked:
    return Mocked(request.getfixturevalue("llmock"), request.param)  # the plugin's fixture


def test_text_and_calls(host: Mocked) -> None:
    host.mock.reply("Sunny.")
    assert host.reply().message.content == "Sunny."
    host.mock.call_tool("get_weather", {"city": "Oslo"})
    called = host.reply()
    (call,) = called.message.tool_calls
    assert (call.name, call.parse_arguments()) == ("get_weather", {"city": "Oslo"})
    assert called.finish is FinishReason.TOOL_CALLS
    assert called.usage is not None
    host.mock.assert_resilient()


def test_tool_round_is_a_request_that_it_accepts(host: Mocked) -> None:
    host.mock.call_tool("get_weather", {"city": "Oslo"})
    called = host.reply()
    (call,) = called.message.tool_calls
    host.mock.reply("Rain.")
    own = host.reply(UserMessage("Weather?"), called.message, ToolMessage(call.id, "rain"))
    assert own.message.content == "Rain."
    foreign = ToolCall("call|1", "get_weather", '{"city": "Oslo"}')
    host.mock.reply("Rain.")
    other = host.reply(
        UserMessage("Weather?"),
        AssistantMessage(tool_calls=(foreign,)),
        ToolMessage("call|1", "rain", status="error"),
    )
    assert other.message.content == "Rain."
    host.mock.assert_resilient()


def test_broken_streams_are_errors_and_never_answers(host: Mocked) -> None:
    host.mock.reply("A long enough answer to be cut in the middle.", times=None)
    host.mock.disconnect(after_chunks=3)
    assert host.error().kind is ErrorKind.TRANSPORT
    host.mock.truncate(after_chunks=3)
    assert host.error().kind is ErrorKind.TRANSPORT
    host.mock.corrupt(after_chunks=3)
    assert host.error().kind in {ErrorKind.SERVER, ErrorKind.TRANSPORT}


def test_errors_by_status(host: Mocked) -> None:
    host.mock.rate_limit(retry_after=2)
    limited = host.error()
    assert (limited.kind, limited.status, limited.retry_after_s) == (ErrorKind.RATE_LIMIT, 429, 2.0)
    host.mock.fail(503, message="The model is overloaded.")
    assert host.error().kind is ErrorKind.OVERLOADED
    host.mock.context_overflow()
    assert host.error().kind is ErrorKind.CONTEXT_OVERFLOW
