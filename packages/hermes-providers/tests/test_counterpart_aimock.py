"""All wires against aimock (npm, `@copilotkit/aimock`), a server of others that plays scripted answers.

It needs Node and is installed by `.ci/run`. What it does unlike the vendors: usage is only told on the chat
wire, and Gemini's calls end with a finish reason of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from all_wires import WIRES, model_of, provider_for
from counterparts import AIMOCK, NODE_IS_TOO_OLD, NODE_VERSION, serving
from hermes_messages import (
    ChatRequest,
    ErrorKind,
    FinishReason,
    MessageLog,
    ProviderError,
    ReasoningDelta,
    ResponseDone,
    TextDelta,
    ToolCallStarted,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from wire_help import answer, collect, run

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(NODE_IS_TOO_OLD, reason=f"platform: aimock needs Node 20, here is {NODE_VERSION}"),
    pytest.mark.skipif(
        AIMOCK is None or not NODE_VERSION,
        reason="needs node and the packages of .ci/node: python3 .ci/node_packages.py installs them",
    ),
]

WEATHER = ToolSpec.from_schema(
    "get_weather", "The weather in a city.", {"type": "object", "properties": {"city": {"type": "string"}}}
)
PATHS = {"openai_chat": "/v1", "openai_responses": "/v1", "anthropic_messages": "", "gemini": "/v1beta"}
TEXT = "one two three four five six seven eight nine ten"
FIXTURES = [
    {
        "match": {"userMessage": "both cities", "hasToolResult": False},
        "response": {
            "reasoning": "先看 🌦 both",
            "blocks": [
                {"type": "text", "text": "I look at 東京 and Zürich."},
                {"type": "toolCall", "id": "call_a", "name": "get_weather", "arguments": {"city": "東京 🗼"}},
                {"type": "toolCall", "id": "call_b", "name": "get_weather", "arguments": {"city": "Zürich"}},
            ],
        },
        "chunkSize": 3,
    },
    {
        "match": {"userMessage": "both cities", "hasToolResult": True},
        "response": {"content": "晴れ ☀️ in both."},
        "chunkSize": 2,
    },
    {
        "match": {"userMessage": "cut"},
        "response": {"content": TEXT},
        "truncateAfterChunks": 3,
        "chunkSize": 5,
    },
    {
        "match": {"userMessage": "drop"},
        "response": {"content": TEXT},
        "disconnectAfterMs": 100,
        "latency": 30,
        "chunkSize": 5,
    },
    {"match": {"userMessage": "drip"}, "response": {"content": TEXT}, "latency": 20, "chunkSize": 4},
    {
        "match": {"userMessage": "limited"},
        "response": {"error": {"message": "Rate limited", "type": "rate_limit_error"}, "status": 429},
    },
    {
        "match": {"userMessage": "broken"},
        "response": {"error": {"message": "Something broke", "type": "server_error"}, "status": 500},
    },
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    fixtures: Path = tmp_path_factory.mktemp("aimock") / "fixtures.json"
    fixtures.write_text(json.dumps({"fixtures": FIXTURES}), encoding="utf-8")
    assert AIMOCK is not None
    options = ["-f", str(fixtures), "--strict", "--validate-on-load", "--log-level", "silent"]
    with serving(lambda port: ["node", str(AIMOCK), "-p", str(port), *options], "/health") as root:
        yield root


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def requests_so_far(server: str) -> int:
    return len(httpx.get(f"{server}/__aimock/journal", trust_env=False).json())


def requested(wire: str, log: MessageLog, **more: Any) -> ChatRequest:
    return ChatRequest(model=model_of(wire), history=log.view(), max_tokens=200, **more)


def test_a_round_of_parallel_calls_with_reasoning(server: str, wire: str) -> None:
    async def main() -> None:
        provider = provider_for(wire, server + PATHS[wire])
        log = MessageLog([UserMessage("What is the weather in both cities?")])
        events = await collect(provider, requested(wire, log, tools=(WEATHER,), reasoning_effort="low"))
        last = events[-1]
        assert isinstance(last, ResponseDone)
        message = last.response.message
        assert last.response.finish is FinishReason.TOOL_CALLS
        assert message.content == "I look at 東京 and Zürich."
        assert message.reasoning == "先看 🌦 both"
        assert "".join(e.text for e in events if isinstance(e, TextDelta)) == message.content
        assert "".join(e.text for e in events if isinstance(e, ReasoningDelta)) == message.reasoning
        assert len([e for e in events if isinstance(e, ToolCallStarted)]) == 2
        assert [(call.name, json.loads(call.arguments)) for call in message.tool_calls] == [
            ("get_weather", {"city": "東京 🗼"}),
            ("get_weather", {"city": "Zürich"}),
        ]
        log.append(message)
        log.extend([ToolMessage(call.id, "sunny", "get_weather") for call in message.tool_calls])
        final = await answer(provider, requested(wire, log, tools=(WEATHER,), reasoning_effort="low"))
        assert final.message.content == "晴れ ☀️ in both."
        assert final.finish is FinishReason.STOP
        if wire == "openai_chat":
            assert final.usage is not None
            assert final.usage.output_tokens
        await provider.close()

    run(main())


@pytest.mark.parametrize("question", ["cut", "drop"])
def test_a_stream_that_is_cut_is_never_an_answer(server: str, wire: str, question: str) -> None:
    async def main() -> None:
        provider = provider_for(wire, server + PATHS[wire])
        with pytest.raises(ProviderError) as caught:
            await answer(provider, requested(wire, MessageLog([UserMessage(question)])))
        assert caught.value.kind is ErrorKind.TRANSPORT
        await provider.close()

    run(main())


def test_a_slow_drip_is_no_fault(server: str, wire: str) -> None:
    async def main() -> None:
        provider = provider_for(wire, server + PATHS[wire], between_events_s=5)
        events = await collect(provider, requested(wire, MessageLog([UserMessage("drip")])))
        pieces = [event.text for event in events if isinstance(event, TextDelta)]
        assert len(pieces) > 5
        assert "".join(pieces) == TEXT
        await provider.close()

    run(main())


@pytest.mark.parametrize(
    ("question", "kind", "status"),
    [("limited", ErrorKind.RATE_LIMIT, 429), ("broken", ErrorKind.SERVER, 500)],
)
def test_errors_are_typed_and_nothing_is_sent_twice(
    server: str, wire: str, question: str, kind: ErrorKind, status: int
) -> None:
    async def main() -> None:
        provider = provider_for(wire, server + PATHS[wire])
        with pytest.raises(ProviderError) as caught:
            await answer(provider, requested(wire, MessageLog([UserMessage(question)])))
        assert (caught.value.kind, caught.value.status) == (kind, status)
        await provider.close()

    before = requests_so_far(server)
    run(main())
    assert requests_so_far(server) == before + 1
