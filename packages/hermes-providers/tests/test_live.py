"""Real hosts, when `HERMES_LIVE` names them: `HERMES_LIVE="openai=gpt-4.1-mini anthropic=claude-haiku-4-5"`.

Each needs its key in its usual variable. A few hundred tokens are spent for each host. The form
`openai/openai_responses=gpt-5-mini` takes another wire than the profile's.
"""

from __future__ import annotations

import json
import os

import pytest

from hermes_messages import (
    ChatRequest,
    FinishReason,
    Message,
    MessageLog,
    ProviderError,
    SystemMessage,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hermes_messages.protocols import ProviderOptions
from hermes_providers import HttpProvider, from_profile
from wire_help import answer, run

HOSTS = [entry.partition("=") for entry in os.environ.get("HERMES_LIVE", "").split()]
WEATHER = ToolSpec.from_schema(
    "get_weather",
    "The weather in a city, now.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)

pytestmark = [
    pytest.mark.parametrize(("host", "model"), [(host, model) for host, _, model in HOSTS]),
    pytest.mark.timeout(300),
]


def provider_of(host: str) -> HttpProvider:
    name, _, wire = host.partition("/")
    return from_profile(name, ProviderOptions(settings={"wire": wire} if wire else {}))


def request(model: str, log: MessageLog, tools: tuple[ToolSpec, ...] = ()) -> ChatRequest:
    return ChatRequest(model=model, history=log.view(), tools=tools, max_tokens=2000)


def conversation(*messages: Message) -> MessageLog:
    return MessageLog([SystemMessage("You answer in one short sentence."), *messages])


def test_text_usage_and_a_second_turn(host: str, model: str) -> None:
    async def main() -> None:
        provider = provider_of(host)
        log = conversation(UserMessage("My name is Ada. Say hello to me."))
        first = await answer(provider, request(model, log))
        assert first.finish is FinishReason.STOP
        assert first.usage is not None
        assert first.usage.input_tokens
        log.extend([first.message, UserMessage("What is my name?")])
        second = await answer(provider, request(model, log))
        assert "Ada" in str(second.message.content)
        await provider.close()

    run(main())


def test_tool_round(host: str, model: str) -> None:
    async def main() -> None:
        provider = provider_of(host)
        log = conversation(UserMessage("What is the weather in Oslo and in Lima? Use the tool for both."))
        for _ in range(3):
            response = await answer(provider, request(model, log, (WEATHER,)))
            log.append(response.message)
            if not response.message.tool_calls:
                break
            for call in response.message.tool_calls:
                assert "city" in json.loads(call.arguments)
                log.append(ToolMessage(call.id, "17 degrees, rain", call.name))
        assert "17" in str(response.message.content)
        await provider.close()

    run(main())


def test_unknown_model_is_a_typed_error(host: str, model: str) -> None:
    async def main() -> None:
        provider = provider_of(host)
        with pytest.raises(ProviderError) as caught:
            await answer(provider, request(model + "-that-is-none", conversation(UserMessage("hi"))))
        assert caught.value.status is not None
        await provider.close()

    run(main())
